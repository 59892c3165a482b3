"""Can this machine run these desktops? What was found (legato_rl.machine) as rows of a table with what is to be done. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from legato_rl.backend import OSWORLD_BACKENDS
from legato_rl.supervisord import CHILD_FILES

State = Literal["ok", "missing", "warn"]
GIB = 2**30

VM_RUNNER = "happysixd/osworld-docker"
"""The image in which OSWorld's docker provider runs QEMU; the engine fetches it where it lacks it."""
PORTS_EACH = 4
"""Ports on 127.0.0.1 that the engine chooses for a desktop: guest server, Chrome, screen, VLC."""
LEAST_FILES = 1024
"""Open files that supervisord asks for, beside CHILD_FILES for each desktop."""
LEAST_DISK = GIB
"""Bytes without which nothing is worth starting."""


@dataclass(frozen=True)
class Share:
    """What one desktop takes with its worker: GiB of memory, processors, GiB of disk at most."""

    memory: float
    cpus: float
    disk: float


SHARES = {"osworld": Share(4.5, 4, 24), "container": Share(0.9, 0.5, 1)}
"""A VM (booted with 4 GiB, 4 processors) or a container with Chromium (336 MiB; Calc 237, idle 76), and a worker with all
evaluators (545 MiB), by bench/desktop.py, docs/benchmarks.md: 2 s of a processor in a rollout of 4 s. Disk is a guess."""
OTHER = Share(0.25, 0.25, 1)
"""A fake desktop, or a class of the user's own, of which nothing more is known."""


@dataclass(frozen=True)
class Row:
    """One thing that a run needs. `remedy` says what to do; it is empty where nothing is to be done."""

    name: str
    state: State
    value: str
    remedy: str = ""


@dataclass(frozen=True)
class Kvm:
    """What there is of KVM. `qemu` is whether a QEMU of this machine starts with it, None where there is none to try."""

    device: bool
    opens: bool
    arch: str
    modules: frozenset[str]
    cpu_flags: frozenset[str]
    qemu: bool | None = None


@dataclass(frozen=True)
class Engine:
    """The Docker engine: its version, or why it does not answer; the bytes of those images asked for that it has."""

    version: str | None
    fault: str = ""
    images: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class VmFile:
    """A VM's image: bytes that it takes, and whether it starts as a qcow2 file does."""

    path: str
    size: int
    qcow2: bool


@dataclass(frozen=True)
class Machine:
    """What this machine has. Memory and disk in bytes; `files` is None where open files are not limited.

    `packages` has for each package that we need its least version, or "", and the one installed, or None.
    """

    cpus: int
    memory: int
    memory_free: int
    disk: str
    disk_free: int
    files: int | None
    ports: int
    setpriv: str | None
    packages: Mapping[str, tuple[str, str | None]]
    kvm: Kvm
    engine: Engine


@dataclass(frozen=True)
class Workers:
    """What the workers' interpreter says: faults as ConfigError's sentences, None where there is none.

    `osworld`, `agent` and `tasks` (what tasks_check found) were not asked for where the fault before them answers.
    `agent_class` names OSWorld's own agent, where it has one.
    """

    python: str
    fault: str | None = None
    osworld: str | None = None
    agent: str | None = None
    agent_class: str = ""
    tasks: Mapping[str, list[Any]] | None = None


def machine_rows(machine: Machine, backend: str, desktops: int, image: str, vm: VmFile | None) -> Iterator[Row]:
    """What `desktops` desktops of `backend` need of the machine itself."""
    share = SHARES.get(backend, OTHER)
    yield packages(machine.packages)
    yield setpriv(machine.setpriv)
    if backend == "osworld":
        yield kvm(machine.kvm)
    if backend in OSWORLD_BACKENDS:
        yield engine(machine.engine)
    if backend == "osworld":
        yield vm_image(vm)
    # An engine that does not answer is one lack, not two.
    if machine.engine.version is not None and backend in OSWORLD_BACKENDS:
        yield vm_runner(machine.engine) if backend == "osworld" else container_image(machine.engine, image)
    yield memory(machine, share, desktops)
    yield cpus(machine.cpus, share, desktops)
    yield disk(machine, share, desktops)
    if backend in OSWORLD_BACKENDS:
        yield ports(machine.ports, desktops)
    yield open_files(machine.files, desktops)


def worker_rows(workers: Workers, backend: str, tasks: int, asked: bool) -> Iterator[Row]:
    """What they need of the workers' interpreter. `tasks` were looked at; `asked` where the user named them."""
    yield _told("workers' Python", workers.fault, workers.python)
    if workers.fault is None and backend in OSWORLD_BACKENDS:
        yield _told("OSWorld, evaluators", workers.osworld, "imported")
        # A container desktop is operated by our own agent unless something else is said.
        yield _told("OSWorld's agent", workers.agent, workers.agent_class, "missing" if backend == "osworld" else "warn")
    if tasks and backend not in OSWORLD_BACKENDS:
        yield Row("tasks", "ok", f"{tasks} read")
    elif tasks and workers.tasks is not None:
        yield task_files(workers.tasks, tasks, asked)
    elif backend in OSWORLD_BACKENDS and not tasks:
        yield Row("tasks", "warn", "none were looked at", "name a tasks file with --tasks, or a checkout with --osworld")


def packages(found: Mapping[str, tuple[str, str | None]]) -> Row:
    """Every Python package that this project needs, in its least version or a later one."""
    bad = [
        f"{name} {version or 'is not installed'}" + (f" (needs {least})" if version else "")
        for name, (least, version) in found.items()
        if version is None or _numbers(version) < _numbers(least)
    ]
    if bad:
        return Row("Python packages", "missing", ", ".join(bad), "pip install legatolabs again, in this environment")
    return Row("Python packages", "ok", f"{len(found)} found")


def setpriv(path: str | None) -> Row:
    """What ends a run's processes when the command line is killed."""
    return Row("setpriv", "ok", path) if path else Row("setpriv", "missing", "not found", "install util-linux, which has it")


def kvm(found: Kvm) -> Row:
    """Whether a VM would run at the machine's speed: the device being there, and opening it, prove nothing."""
    instead = "use a machine with hardware virtualization, or --backend container"
    x86 = found.arch == "x86_64"
    lacks = (
        (not found.device, "no /dev/kvm", f"load kvm_intel or kvm_amd, or {instead}"),
        (not found.opens, "/dev/kvm is not open to this user", "join the group kvm and log in again"),
        ("kvm_pvm" in found.modules, "kvm_pvm is behind /dev/kvm: no unmodified VM boots on it", instead),
        (x86 and not found.modules & {"kvm_intel", "kvm_amd"}, "neither kvm_intel nor kvm_amd is there", instead),
        (x86 and not found.cpu_flags & {"vmx", "svm"}, "the processor shows neither vmx nor svm", instead),
        (found.qemu is False, "QEMU does not start with it", f"try qemu-system-{found.arch} -accel kvm -cpu host"),
    )
    for lacking, what, remedy in lacks:
        if lacking:
            return Row("KVM", "missing", what, remedy)
    return Row("KVM", "ok", "QEMU starts with it" if found.qemu else "looks usable (no QEMU here to try it with)")


def engine(found: Engine) -> Row:
    """The Docker engine."""
    if found.version is None:
        return Row("Docker engine", "missing", found.fault, "start it, join the group docker, or set DOCKER_HOST")
    return Row("Docker engine", "ok", found.version)


def container_image(found: Engine, image: str) -> Row:
    """The image of container desktops."""
    if image not in found.images:
        return Row("image", "missing", f"the engine has no {image}", "make it with legato-rl desktop build")
    return Row("image", "ok", f"{image}, {found.images[image] / 1e9:.1f} GB")


def vm_image(vm: VmFile | None) -> Row:
    """The VM's image."""
    if vm is None:
        return Row("image", "missing", "not named", "name OSWorld's VM image (Ubuntu.qcow2) with --vm")
    told = f"{vm.path}, {vm.size / 1e9:.1f} GB"
    if not vm.qcow2:
        return Row("image", "missing", f"{told}: no qcow2 file", "unpack it, or download it again")
    return Row("image", "ok", told)


def vm_runner(found: Engine) -> Row:
    """The image in which OSWorld runs QEMU."""
    if VM_RUNNER not in found.images:
        return Row("QEMU's image", "warn", f"the engine has no {VM_RUNNER}", f"docker pull {VM_RUNNER}")
    return Row("QEMU's image", "ok", f"{VM_RUNNER}, {found.images[VM_RUNNER] / 1e9:.1f} GB")


def memory(machine: Machine, share: Share, desktops: int) -> Row:
    """Memory of the desktops and their workers."""
    need = share.memory * desktops * GIB
    told = f"{_gib(machine.memory_free)} free of {_gib(machine.memory)}, {desktops} desktops need {_gib(need)}"
    if machine.memory < need:
        return Row("memory", "missing", told, _fewer(machine.memory / GIB / share.memory))
    if machine.memory_free < need:
        return Row("memory", "warn", told, "end what takes it, or run fewer desktops")
    return Row("memory", "ok", told)


def cpus(have: int, share: Share, desktops: int) -> Row:
    """Processors; with fewer a run is slower, and its desktops may run out of time."""
    need = share.cpus * desktops
    told = f"{have}, {desktops} desktops want {need:g}"
    return Row("processors", "ok", told) if have >= need else Row("processors", "warn", told, _fewer(have / share.cpus))


def disk(machine: Machine, share: Share, desktops: int) -> Row:
    """Room for what desktops write, where the engine keeps it."""
    told = (
        f"{_gib(machine.disk_free)} free in {machine.disk}, {desktops} desktops take up to {_gib(share.disk * desktops * GIB)}"
    )
    if machine.disk_free < LEAST_DISK:
        return Row("disk", "missing", told, "make room there")
    if machine.disk_free < share.disk * desktops * GIB:
        return Row("disk", "warn", told, "make room there, or run fewer desktops")
    return Row("disk", "ok", told)


def ports(free: int, desktops: int) -> Row:
    """Ports that the engine can choose from."""
    told = f"{free} free, {desktops} desktops need {PORTS_EACH * desktops}"
    if free < PORTS_EACH * desktops:
        return Row("ports", "missing", told, "widen net.ipv4.ip_local_port_range with sysctl")
    return Row("ports", "ok", told)


def open_files(limit: int | None, desktops: int) -> Row:
    """The limit of open files: supervisord does not start under one that is too low."""
    need = LEAST_FILES + CHILD_FILES * desktops
    told = f"{'no limit' if limit is None else limit}, {desktops} desktops need {need}"
    if limit is not None and limit < need:
        return Row("open files", "missing", told, f"ulimit -Hn {need}, or nofile in limits.conf")
    return Row("open files", "ok", told)


def task_files(found: Mapping[str, list[Any]], tasks: int, asked: bool) -> Row:
    """Whether this OSWorld can run the tasks. Of a checkout's own tasks, which nobody asked for, some may be beyond it."""
    faults = {fault["task"]: fault["fault"] for fault in reversed(found["faults"])}
    if faults:
        task, fault = list(faults.items())[-1]
        told = f"{len(faults)} of {tasks} cannot run: {task}: {fault}"
        return Row("tasks", "missing" if asked else "warn", told, "leave them out, or name a newer checkout")
    needs = {"Google Drive credentials": len(found["drive"]), "a proxy": len(found["proxy"])}
    lacking = [f"{count} ask for {what}" for what, count in needs.items() if count]
    if lacking:
        return Row("tasks", "warn", f"{tasks} can run; {', '.join(lacking)}", "leave those out where you have none")
    return Row("tasks", "ok", f"{tasks} can run")


def _told(name: str, fault: str | None, value: str, state: State = "missing") -> Row:
    """A ConfigError's sentence as a row: its last part is what to do."""
    if fault is None:
        return Row(name, "ok", value)
    mark = "; " if "; " in fault else ": "
    what, _, remedy = fault.rpartition(mark)
    return Row(name, state, what, remedy) if what else Row(name, state, fault)


def _fewer(most: float) -> str:
    return f"run {int(most)} at most" if most >= 1 else "use a larger machine"


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
