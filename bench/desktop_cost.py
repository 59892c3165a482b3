"""What does a desktop cost in memory and CPU, how many start at once, and what does its worker's process hold?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from desktop_guest import SCREEN, SHEET, launch
from desktop_ways import spread

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.workers.desktop.container import ContainerDesktop, Size, connect_engine, container_name, start_desktop
from legato_rl.workers.desktop.guest import Guest

MIB = 2**20
PROGRAMS = {
    "idle": [],
    "spreadsheet": SHEET,
    "browser": ["google-chrome", "--remote-debugging-port=1337", "about:blank"],
}
"""What is open on the desktop that is looked at."""
WORKER = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import psutil
def told(what, begun):
    memory = psutil.Process().memory_full_info()
    return {"what": what, "import_s": round(time.perf_counter() - begun, 3), "pss_mib": round(memory.pss / 2**20, 1),
            "rss_mib": round(memory.rss / 2**20, 1)}
found, begun = [], time.perf_counter()
import legato_rl.workers.main, legato_rl.workers.worker, legato_rl.workers.agent.qwen
found.append(told("worker", begun))
import legato_rl.workers.desktop.osworld, legato_rl.workers.desktop.container_provider
found.append(told("worker with our desktop code", begun))
import osworld_stand_ins
from legato_rl.config import DesktopConfig
from legato_rl.workers.desktop.env import import_osworld
import_osworld(DesktopConfig())
found.append(told("worker with OSWorld's evaluators", begun))
missing = {name for name, module in sys.modules.items() if type(module).__name__ == "_Library" and "." not in name}
print(json.dumps({"python": ".".join(map(str, sys.version_info[:3])), "stand_ins": sorted(missing), "after": found}))
"""


def stats(engine: Any, desktop: ContainerDesktop) -> dict[str, float]:
    """What the kernel's accounts say of a container: MiB that it alone holds, and CPU seconds."""
    said = engine.containers.get(container_name(desktop.name)).stats(stream=False)
    memory = said["memory_stats"]["stats"]
    held = memory["anon"] + memory["shmem"] if "anon" in memory else memory["total_rss"] + memory.get("total_shmem", 0)
    return {
        "held": held / MIB,
        "with_files": said["memory_stats"]["usage"] / MIB,
        "cpu_s": said["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
    }


def one_desktop(image: str, seconds: float) -> dict[str, Any]:
    """Memory and idle CPU of a desktop with this and that open."""
    engine, found = connect_engine(), {}
    for what, command in PROGRAMS.items():
        desktop = start_desktop(engine, image, f"bench-cost-{os.getpid()}", size=Size(screen=SCREEN), lease_s=600)
        try:
            if command:
                launch(Guest(desktop.host, desktop.ports[5000], SYSTEM_CLOCK), command)
            time.sleep(5)
            before, begun = stats(engine, desktop), time.perf_counter()
            time.sleep(seconds)
            after, wall = stats(engine, desktop), time.perf_counter() - begun
        finally:
            desktop.remove()
        found[what] = {
            "memory_mib": round(after["held"], 1),
            "with_file_cache_mib": round(after["with_files"], 1),
            "idle_cpu_percent_of_a_core": round(100 * (after["cpu_s"] - before["cpu_s"]) / wall, 2),
        }
    return found


def at_once(image: str, count: int) -> dict[str, Any]:
    """`count` desktops started at once: when each was ready, what they took, and one screenshot of each at once."""
    engine, desktops, ready, errors = connect_engine(), [], [], []
    available, begun = psutil.virtual_memory().available, time.perf_counter()

    def run(number: int) -> None:
        try:
            desktop = start_desktop(connect_engine(), image, f"bench-many-{os.getpid()}-{number}", boot_s=180, lease_s=600)
            ready.append(time.perf_counter() - begun)
            desktops.append(desktop)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")

    try:
        together(run, count)
        taken = [stats(engine, desktop)["held"] for desktop in desktops]
        gone = available - psutil.virtual_memory().available
        shot = time.perf_counter()
        together(lambda n: Guest(desktops[n].host, desktops[n].ports[5000], SYSTEM_CLOCK).screenshot(SCREEN), len(desktops))
        shot = time.perf_counter() - shot
    finally:
        together(lambda n: desktops[n].remove(), len(desktops))
    return {
        "asked": count,
        "up": len(desktops),
        "errors": dict(Counter(errors)),
        "ready_s": spread(ready),
        "memory_mib_each": round(sum(taken) / max(len(taken), 1), 1),
        "machine_memory_gone_mib": round(gone / MIB),
        "one_screenshot_of_each_s": round(shot, 3),
    }


def together(work: Any, count: int) -> None:
    """`work` of 0 to `count` - 1, a thread each."""
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def worker_memory(pythons: list[str]) -> list[dict[str, Any]]:
    """What a worker's imports take in each of these interpreters, in a process of their own."""
    stand_ins = str(Path(__file__).resolve().parents[1] / "tests" / "desktop")
    found = []
    for python in pythons:
        command = [python, "-c", WORKER, stand_ins]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # its files are read once before
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found.append(json.loads(said.splitlines()[-1]))
    return found


def costs(image: str, seconds: float, counts: list[int], pythons: list[str]) -> dict[str, Any]:
    """All of this file's figures."""
    memory = psutil.virtual_memory()
    return {
        "machine": {"cores": psutil.cpu_count(), "memory_gib": round(memory.total / 2**30, 1)},
        "one_desktop": one_desktop(image, seconds),
        "at_once": [at_once(image, count) for count in counts],
        "worker": worker_memory([sys.executable, *pythons]),
    }
