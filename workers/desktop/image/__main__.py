"""`python -m legato_rl.workers.desktop.image`: make the image of the container desktop."""

from __future__ import annotations

import argparse
import sys

from legato_rl.errors import ExitCode, LegatoError
from legato_rl.workers.desktop.container import connect_engine
from legato_rl.workers.desktop.image.build import DEBIAN, build
from legato_rl.workers.desktop.image.context import SIZES


def main() -> None:
    """What `legato-rl desktop build` runs. The image's tag is the one line on stdout."""
    options = argparse.ArgumentParser(prog="legato-rl desktop build")
    options.add_argument("--size", choices=SIZES, default="office")
    options.add_argument("--base", default=DEBIAN)
    options.add_argument("--bootstrap", action="store_true")
    options.add_argument("--tag")
    given = options.parse_args()
    try:
        tag, made = build(
            connect_engine(),
            size=given.size,
            base=None if given.bootstrap else given.base,
            tag=given.tag,
            say=lambda line: print(line, file=sys.stderr, flush=True) if line else None,
        )
    except LegatoError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if not made:
        print("an image of the same content is there already", file=sys.stderr)
    print(tag)
    sys.exit(ExitCode.DONE)


if __name__ == "__main__":
    main()
