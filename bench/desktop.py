"""What do container desktops cost, and what do the fast reset and the ready signal win? Six parts, JSON out.

Needs a Docker engine and the image of `legato-rl desktop build --size full`. Runs in an environment that has OSWorld's
package: the one of tests/desktop/install_osworld.py, which is made where it is missing, unless this one has it.

`phases`: our way over the task set's solutions, by phase. `ways`: the same rollouts by our way, by OSWorld's unmodified
DesktopEnv with its fixed sleeps, and by each of our two means alone. `guest`: one click, one screenshot, one fresh container.
`cancel`: from the close of a group to a free desktop. `cost`: memory and CPU of desktops and workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

INSTALL = Path(__file__).resolve().parents[1] / "tests" / "desktop" / "install_osworld.py"
PARTS = ("phases", "guest", "ways", "cancel", "cost")
QUICK = ("write-a-line", "large-text")


def go_to_osworlds_python() -> None:
    """Begin again in an environment that has OSWorld's package."""
    made = subprocess.run([sys.executable, INSTALL], stdout=subprocess.PIPE, text=True, check=True)
    python = made.stdout.split()[-1]
    os.execv(python, [python, *sys.argv])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few of each; about 5 minutes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3, help="of the task set in `phases`")
    parser.add_argument("--image", default="legato-desktop:full")
    parser.add_argument("--evaluators-python", action="append", default=[], help="measure a worker in this one as well")
    options = parser.parse_args()
    quick, image = options.quick, options.image

    import psutil
    from desktop_cancel import cancellation
    from desktop_cost import costs
    from desktop_guest import guest_ways
    from desktop_ways import COMPARED, DESKTOPS, TASKS, against_osworld, by_phase

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="legato-bench-") as name:
        folder = Path(name)
        cache = folder / "cache"
        parts: dict[str, Callable[[], Any]] = {
            "phases": lambda: by_phase(image, cache, 1 if quick else options.rounds, QUICK if quick else tuple(TASKS)),
            "guest": lambda: guest_ways(image, 1 if quick else 5, 3 if quick else 20),
            "ways": lambda: against_osworld(image, cache, QUICK if quick else COMPARED),
            "cancel": lambda: cancellation(image, folder, 2 if quick else 10),
            "cost": lambda: costs(image, 5 if quick else 20, [4] if quick else [16, 32], options.evaluators_python),
        }
        for part in options.parts:
            print(f"{part} …", file=sys.stderr)
            psutil.cpu_percent()
            begun, load = time.perf_counter(), os.getloadavg()[0]
            found[part] = parts[part]()
            found[part]["load_before"] = round(load, 1)
            found[part]["part_s"] = round(time.perf_counter() - begun, 1)
            found[part]["machine_cpu_share"] = round(psutil.cpu_percent() / 100, 3)
    setting = {"cores": os.cpu_count(), "image": image, "quick": quick, "desktops_of_a_way": DESKTOPS}
    print(json.dumps({"bench": "desktop", "setting": setting, **found}, indent=1))
    if "ways" in found and not found["ways"]["equal_scores"]:
        sys.exit("the scores differ between the ways: the figures compare nothing")


if __name__ == "__main__":
    if find_spec("desktop_env") is None:
        go_to_osworlds_python()
    main()
