"""What has this machine, and what do the workers' interpreter and OSWorld say? The facts that legato_rl.doctor judges."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import psutil

from legato_rl.backend import OSWORLD_BACKENDS
from legato_rl.config import DesktopConfig
from legato_rl.doctor import Engine, Kvm, Machine, VmFile, Workers
from legato_rl.errors import ConfigError
from legato_rl.run.prepare import ask_workers
from legato_rl.rundir import TaskSpec

ENGINE_S = 10
"""Seconds of one call of the Docker engine."""
QEMU_S = 10
"""Seconds in which a QEMU that is told to stop at once must have started."""
DISTRIBUTION = "legatolabs"
QCOW2 = b"QFI\xfb"
"""How a qcow2 file starts."""


def look_at_machine(images: Iterable[str], kvm: bool) -> Machine:
    """The facts of this machine. `images` are looked for in the engine; `kvm`: QEMU is tried, where there is one."""
    engine, root = look_at_engine(images)
    # An engine elsewhere, or one that hides its folder, leaves only the present folder to be judged.
    disk = root if root and os.access(root, os.X_OK) else os.getcwd()
    memory = psutil.virtual_memory()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        memory=memory.total,
        memory_free=memory.available,
        disk=disk,
        disk_free=shutil.disk_usage(disk).free,
        files=None if hard == resource.RLIM_INFINITY else hard,
        ports=_free_ports(),
        setpriv=shutil.which("setpriv"),
        packages=_packages(),
        kvm=look_at_kvm(kvm),
        engine=engine,
    )


def look_at_engine(images: Iterable[str]) -> tuple[Engine, str]:
    """The Docker engine that the environment names, and the folder where it keeps its data ("" where it is not known)."""
    try:
        # No other command has a use for it.
        import docker
        from docker.errors import DockerException, ImageNotFound
    except ImportError as error:
        return Engine(None, str(error)), ""
    try:
        client = docker.from_env(timeout=ENGINE_S)
        sizes = {}
        for image in images:
            with suppress(ImageNotFound):
                sizes[image] = int(client.images.get(image).attrs["Size"])
        info = client.info()
    except (DockerException, OSError) as error:
        return Engine(None, f"it does not answer ({error})"), ""
    return Engine(str(info["ServerVersion"]), images=sizes), str(info["DockerRootDir"])


def look_at_kvm(try_it: bool) -> Kvm:
    """What there is of KVM; with `try_it` a QEMU of this machine is started with it, and ended."""
    device, arch = Path("/dev/kvm"), platform.machine()
    modules = Path("/sys/module")
    flags = re.search(r"^(?:flags|Features)\s*:(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    opens = os.access(device, os.R_OK | os.W_OK)
    return Kvm(
        device=device.exists(),
        opens=opens,
        arch=arch,
        modules=frozenset(path.name for path in modules.glob("kvm*")),
        cpu_flags=frozenset(flags[1].split() if flags else ()),
        qemu=_qemu_starts(f"qemu-system-{arch}") if try_it and opens else None,
    )


def _qemu_starts(program: str) -> bool | None:
    """A stopped VM with the host's processor: enough to show one that KVM refuses."""
    if shutil.which(program) is None:
        return None
    command = [program, "-accel", "kvm", "-cpu", "host", "-nodefaults", "-display", "none", "-S", "-monitor", "stdio"]
    if platform.machine() == "aarch64":
        command += ["-M", "virt"]
    try:
        return subprocess.run(command, input=b"quit\n", capture_output=True, check=False, timeout=QEMU_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _free_ports() -> int:
    """How many of the ports that the system gives to whoever names none are not in use."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split())
    used = {connection.laddr.port for connection in psutil.net_connections("tcp") if connection.laddr}
    return high - low + 1 - sum(low <= port <= high for port in used)


def _packages() -> dict[str, tuple[str, str | None]]:
    """For every package that this one needs, the least version and the installed one."""
    found: dict[str, tuple[str, str | None]] = {}
    for requirement in metadata.requires(DISTRIBUTION) or ():
        match = re.match(r"([\w.-]+)\s*(?:>=\s*([\d.]+))?", requirement)
        if match is None or "extra ==" in requirement:
            continue
        try:
            version = metadata.version(match[1])
        except metadata.PackageNotFoundError:
            version = None
        found[match[1]] = (match[2] or "", version)
    return found


def look_at_vm(path: Path) -> VmFile:
    """The file of a VM's image. ConfigError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return VmFile(str(path), path.stat().st_size, file.read(len(QCOW2)) == QCOW2)
    except OSError as error:
        raise ConfigError(f"vm is {str(path)!r}: {error.strerror or error}; name OSWorld's VM image (Ubuntu.qcow2)") from None


def look_at_workers(desktop: DesktopConfig, tasks: list[TaskSpec]) -> Workers:
    """What the workers' interpreter says about the backend, OSWorld, its agent and the tasks. Seconds, where all is there."""
    python = str(desktop.osworld_python or sys.executable)
    checkout = [str(desktop.osworld_path)] if desktop.osworld_path else []
    fault, _ = _ask(desktop, "legato_rl.backend", desktop.backend)
    if fault is not None or desktop.backend not in OSWORLD_BACKENDS:
        return Workers(python, fault)
    entries = [{"task_id": task.task_id, "domain": task.domain, "config": task.config} for task in tasks]
    osworld, answer = _ask(desktop, "legato_rl.workers.desktop.tasks_check", *checkout, given=json.dumps(entries))
    agent, called = _ask(desktop, "legato_rl.workers.agent.checkout", *checkout)
    return Workers(python, None, osworld, agent, called.strip(), json.loads(answer) if osworld is None else None)


def _ask(desktop: DesktopConfig, module: str, *arguments: str, given: str = "") -> tuple[str | None, str]:
    """The fault that a module of ours tells in the workers' interpreter, and its answer."""
    try:
        return None, ask_workers(desktop, module, *arguments, given=given)
    except ConfigError as error:
        return str(error), ""
