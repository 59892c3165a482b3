"""Is a run true whatever dies in it? Runs on fake desktops with random faults and random kills, each looked at. JSON out.

Each run has a seed, which decides what is asked, how desktops and server fail, and who is killed (SIGKILL) when: workers,
broker, proxy, sink, supervisord, the command itself, alone or two at once, up to five times; of a service also its clients
(`collect --connect`), whose runs must go on without them. A run that ends early is resumed until it has finished. Then its
folder is verified, its attempts are counted, and each row is held against what its desktop and its policy did
(chaos_checks.py). The seeds of runs with a finding are printed: `chaos.py --seed S --runs 1` does the same again, but for
the moments, which are this machine's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos_checks import KINDS
from chaos_plan import draw
from chaos_run import Bout

from legato_rl.clock import SYSTEM_CLOCK


@dataclass(frozen=True)
class Result:
    """What one run gave."""

    seed: int
    seconds: float
    gone_s: float
    found: dict[str, int]
    words: list[str]
    told: dict[str, int]
    folder: str | None
    """Where it lies, if something was found."""


def one(seed: int, service_share: float) -> Result:
    """The run of a seed."""
    root = Path(tempfile.mkdtemp(prefix="ch-"))
    began = SYSTEM_CLOCK.monotonic()
    bout = Bout(draw(seed, service_share), root)
    try:
        bout.fight()
    except Exception:
        bout.findings.found("bugs", f"of the bench itself: {traceback.format_exc()}")
    found = dict(bout.findings)
    if not found:
        shutil.rmtree(root)
    seconds = SYSTEM_CLOCK.monotonic() - began
    folder = str(root) if found else None
    return Result(seed, round(seconds, 1), round(bout.gone_s, 1), found, bout.findings.words, dict(bout.told), folder)


def results(seeds: range, jobs: int, service_share: float, minutes: float) -> Iterator[Result]:
    """Of all seeds, or of those that can be begun in the time, as they come."""
    give_up, left, running = SYSTEM_CLOCK.monotonic() + 60.0 * minutes, list(reversed(seeds)), set[Future[Result]]()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        while left or running:
            while left and len(running) < jobs:
                running.add(pool.submit(one, left.pop(), service_share))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            if SYSTEM_CLOCK.monotonic() > give_up:
                left.clear()
            yield from (future.result() for future in ended)


def report(result: Result) -> None:
    """Words, on standard error."""
    kills = sum(count for name, count in result.told.items() if name.startswith("kill "))
    line = f"seed {result.seed}: {result.seconds} s, {kills} kills"
    if result.found:
        line += f", {result.found}, in {result.folder}: replay with --seed {result.seed} --runs 1"
        line += "".join(f"\n  {words[:800]}" for words in result.words[:5])
    print(line, file=sys.stderr, flush=True)


def summary(seed: int, all_: list[Result]) -> dict[str, Any]:
    """Everything together."""
    found, told = Counter(dict.fromkeys(KINDS, 0)), Counter[str]()
    for result in all_:
        found.update(result.found)
        told.update(result.told)
    outcomes = {name: count for name, count in sorted(told.items()) if " " not in name}
    return {
        "seed": seed,
        "runs": len(all_),
        "runs_with_findings": sorted(result.seed for result in all_ if result.found),
        "found": dict(found),
        "kills": {name.removeprefix("kill "): count for name, count in sorted(told.items()) if name.startswith("kill ")},
        "done": {name: count for name, count in sorted(told.items()) if " " in name and not name.startswith("kill ")},
        "rows": {"all": sum(outcomes.values()) - outcomes.get("resampled", 0), **outcomes},
        "longest_after_command_s": max((result.gone_s for result in all_), default=0.0),
        "longest_run_s": max((result.seconds for result in all_), default=0.0),
    }


def main() -> None:
    """Exit code 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first run; the others follow")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="runs at once")
    parser.add_argument("--service", type=float, default=0.0, metavar="SHARE", help="share of runs that are two of a service")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M", help="begin no run after that")
    options = parser.parse_args()
    all_ = []
    for result in results(range(options.seed, options.seed + options.runs), options.jobs, options.service, options.minutes):
        report(result)
        all_.append(result)
    print(json.dumps(summary(options.seed, all_), indent=1))
    sys.exit(any(result.found for result in all_))


if __name__ == "__main__":
    main()
