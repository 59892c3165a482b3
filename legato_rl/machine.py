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
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from legato_rl.backend import OSWORLD_BACKENDS
from legato_rl.config import DesktopConfig
from legato_rl.doctor import Engine, Kvm, Machine, VmFile, Workers
from legato_rl.errors import ConfigError
from legato_rl.run.prepare import ask_workers
from legato_rl.rundir import TaskSpec

if TYPE_CHECKING:
    from docker import DockerClient

ENGINE_S = 10
"""Seconds of one call of the Docker engine, where a table of facts is wanted."""
IMAGE_S = 60
"""Seconds of one before a run starts: as many as a worker waits, for an engine that removes dozens of containers meanwhile."""
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
    """The Docker engine that the environment names, and the folder where it keeps its data ("" where it is not known).

    ConfigError where no image can have one of these names.
    """
    try:
        with _engine(ENGINE_S) as client:
            sizes = {image: _size(client, image) for image in images}
            info = client.info()
    except OSError as error:
        return Engine(None, str(error)), ""
    found = {image: size for image, size in sizes.items() if size is not None}
    return Engine(str(info["ServerVersion"]), images=found), str(info["DockerRootDir"])


def has_image(image: str) -> bool:
    """Whether the Docker engine has that image; nothing else is asked of it, since it may be slow.

    ConfigError where it is not there, or does not answer within IMAGE_S, or where no image can have that name.
    """
    try:
        with _engine(IMAGE_S) as client:
            return _size(client, image) is not None
    except OSError as error:
        raise ConfigError(f"Docker engine: {error}; start it, join the group docker, or set DOCKER_HOST") from None


@contextmanager
def _engine(call_s: int) -> Iterator[DockerClient]:
    """The engine that the environment names, `call_s` seconds for each call. OSError, in words, where one is not answered."""
    try:
        # Most commands have no use for it.
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise OSError(str(error)) from None
    try:
        with closing(docker.from_env(timeout=call_s)) as client:
            yield client
    except (DockerException, OSError) as error:
        raise OSError(f"it does not answer ({error})") from None


def _size(client: DockerClient, image: str) -> int | None:
    """The bytes of an image, None where the engine has none of that name. ConfigError where no image can have it."""
    from docker.errors import APIError, ImageNotFound

    wrong = ConfigError(f"image is {image!r}: no image can have that name; it must be as in legato-desktop:office")
    # The URL with one of these in it would be that of something else.
    if {"", ".", ".."} & set(image.split("/")):
        raise wrong
    try:
        return int(client.images.get(image).attrs["Size"])
    except ImageNotFound:
        return None
    except APIError as error:
        if error.status_code == HTTPStatus.BAD_REQUEST:
            raise wrong from None
        raise


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
