"""`python -m legato_rl.workers.desktop.reap`: remove the desktops whose owners are gone."""

from __future__ import annotations

import argparse
import json
import sys

from legato_rl.errors import ExitCode, LegatoError
from legato_rl.workers.desktop.container import connect_engine
from legato_rl.workers.desktop.owners import reap


def main() -> None:
    """What `legato-rl reap` runs."""
    options = argparse.ArgumentParser(prog="legato-rl reap")
    options.add_argument("--run")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    try:
        removed = reap(connect_engine(), run=given.run)
    except LegatoError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(json.dumps({"removed": removed}) if given.json else "\n".join(removed) or "nothing was left")
    sys.exit(ExitCode.DONE)


if __name__ == "__main__":
    main()
