"""Is each lack of a machine told, with what to do? Facts of our own, no machine looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.doctor import (
    GIB,
    LEAST_FILES,
    VM_RUNNER,
    Engine,
    Kvm,
    Machine,
    Row,
    VmFile,
    Workers,
    kvm,
    machine_rows,
    packages,
    task_files,
    worker_rows,
)
from legato_rl.supervisord import CHILD_FILES, Layout, render

IMAGE = "legato-desktop:office"
KVM = Kvm(True, True, "x86_64", frozenset({"kvm", "kvm_intel"}), frozenset({"fpu", "vmx"}), qemu=True)
MACHINE = Machine(
    cpus=64,
    memory=256 * GIB,
    memory_free=200 * GIB,
    disk="/var/lib/docker",
    disk_free=900 * GIB,
    files=None,
    ports=20000,
    setpriv="/usr/bin/setpriv",
    packages={"click": ("8.1", "8.1.0")},
    kvm=KVM,
    engine=Engine("27.1", images={IMAGE: 1_100_000_000, VM_RUNNER: 300_000_000}),
)
VM = VmFile("/vm/Ubuntu.qcow2", 24_460_197_888, True)
NONE_FOUND: dict[str, list[Any]] = {"faults": [], "drive": [], "proxy": []}


def rows(machine: Machine, backend: str, desktops: int = 16, vm: VmFile | None = VM) -> dict[str, Row]:
    """The rows of the machine by name."""
    return {row.name: row for row in machine_rows(machine, backend, desktops, IMAGE, vm)}


def bad(machine: Machine, backend: str, desktops: int = 16, vm: VmFile | None = VM) -> dict[str, str]:
    """The states that are not ok, by name; each says what to do."""
    found = {name: row for name, row in rows(machine, backend, desktops, vm).items() if row.state != "ok"}
    assert all(row.remedy for row in found.values())
    return {name: row.state for name, row in found.items()}


@pytest.mark.parametrize("backend", ["osworld", "container", "fake", "mine:Desktop"])
def test_a_machine_that_has_all(backend: str) -> None:
    """Every row is ok, and none says what to do."""
    found = rows(MACHINE, backend)
    assert {row.state for row in found.values()} == {"ok"}
    assert {row.remedy for row in found.values()} == {""}


def test_what_a_backend_needs() -> None:
    """A VM needs KVM; containers only the engine; a fake desktop neither."""
    common = {"Python packages", "setpriv", "memory", "processors", "disk", "open files"}
    container = common | {"Docker engine", "image", "ports"}
    assert rows(MACHINE, "fake").keys() == common
    assert rows(MACHINE, "container").keys() == container
    assert rows(MACHINE, "osworld").keys() == container | {"KVM", "QEMU's image"}


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        ({"device": False}, "no /dev/kvm"),
        ({"opens": False}, "not open to this user"),
        ({"modules": frozenset({"kvm", "kvm_pvm"})}, "kvm_pvm"),
        ({"modules": frozenset({"kvm", "kvm_pvm", "kvm_amd"})}, "kvm_pvm"),
        ({"modules": frozenset({"kvm"})}, "neither kvm_intel nor kvm_amd"),
        ({"cpu_flags": frozenset({"fpu"})}, "neither vmx nor svm"),
        ({"qemu": False}, "QEMU does not start"),
    ],
)
def test_kvm_that_is_none(fact: dict[str, Any], says: str) -> None:
    """The device alone proves nothing: what is behind it counts."""
    row = kvm(replace(KVM, **fact))
    assert row.state == "missing"
    assert says in row.value
    assert row.remedy


def test_kvm_of_another_processor() -> None:
    """On ARM no module and no flag tells; without a QEMU it is not tried, and said so."""
    arm = Kvm(True, True, "aarch64", frozenset(), frozenset())
    assert kvm(arm).state == "ok"
    assert "no QEMU here" in kvm(arm).value


@pytest.mark.parametrize(
    ("fact", "backend", "expected"),
    [
        ({"setpriv": None}, "fake", {"setpriv": "missing"}),
        ({"packages": {"click": ("8.1", None)}}, "fake", {"Python packages": "missing"}),
        ({"engine": Engine(None, "no")}, "container", {"Docker engine": "missing"}),
        ({"engine": Engine(None, "no")}, "osworld", {"Docker engine": "missing"}),
        ({"engine": Engine("27.1")}, "container", {"image": "missing"}),
        ({"engine": Engine("27.1")}, "osworld", {"QEMU's image": "warn"}),
        ({"memory": 71 * GIB}, "osworld", {"memory": "missing"}),
        ({"memory_free": 71 * GIB}, "osworld", {"memory": "warn"}),
        ({"memory_free": 72 * GIB}, "osworld", {}),
        ({"cpus": 63}, "osworld", {"processors": "warn"}),
        ({"cpus": 8}, "container", {}),
        ({"disk_free": 383 * GIB}, "osworld", {"disk": "warn"}),
        ({"disk_free": GIB - 1}, "container", {"disk": "missing"}),
        ({"ports": 63}, "container", {"ports": "missing"}),
        ({"files": 1024 + 16 * 16 - 1}, "fake", {"open files": "missing"}),
        ({"files": 1024 + 16 * 16}, "fake", {}),
    ],
)
def test_what_a_machine_lacks(fact: dict[str, Any], backend: str, expected: dict[str, str]) -> None:
    """One lack is one row, on both sides of each limit."""
    assert bad(replace(MACHINE, **fact), backend) == expected


@pytest.mark.parametrize("vm", [None, replace(VM, qcow2=False)])
def test_an_image_of_a_vm_that_is_none(vm: VmFile | None) -> None:
    """Not named, or a file of another kind (still packed, or a download's page of HTML)."""
    assert bad(MACHINE, "osworld", vm=vm) == {"image": "missing"}


def test_an_image_has_its_size() -> None:
    """In GB, of either kind."""
    assert rows(MACHINE, "osworld")["image"].value == "/vm/Ubuntu.qcow2, 24.5 GB"
    assert rows(MACHINE, "container")["image"].value == f"{IMAGE}, 1.1 GB"


@given(desktops=st.integers(1, 200), memory=st.integers(8, 512))
def test_fewer_desktops_that_do_fit(desktops: int, memory: int) -> None:
    """Where memory is short, the number that the remedy names is the largest that is not."""
    machine = replace(MACHINE, memory=memory * GIB, memory_free=memory * GIB)
    row = rows(machine, "osworld", desktops)["memory"]
    if row.state != "ok":
        most = int(row.remedy.split()[1])
        assert most < desktops
        assert [rows(machine, "osworld", count)["memory"].state for count in (most, most + 1)] == ["ok", "missing"]


def test_open_files_are_those_that_supervisord_asks_for() -> None:
    """It does not start with fewer."""
    conf = render(Layout(Path("/run"), Path("/logs"), Path("/bin"), Path("/")), Path("/sockets"), 3)
    assert f"\nminfds = {LEAST_FILES + CHILD_FILES * 3}\n" in conf


def test_packages_of_an_old_version() -> None:
    """Versions are compared as numbers; the one that is too old is named with what is needed."""
    assert packages({"a": ("9.2", "10.0.1"), "b": ("", "1")}).state == "ok"
    row = packages({"a": ("10.1", "9.9"), "b": ("1.0", None)})
    assert row.value == "a 9.9 (needs 10.1), b is not installed"


def test_a_sentence_of_the_workers() -> None:
    """What a ConfigError says is found, and after its semicolon (or colon) what to do; nothing else is told then."""
    workers = Workers("/venv/bin/python", fault="osworld-python is 'x': No such file; name a Python interpreter")
    [row] = worker_rows(workers, "osworld", 3, True)
    assert row == Row("workers' Python", "missing", "osworld-python is 'x': No such file", "name a Python interpreter")
    workers = Workers("python", osworld="osworld is missing: name an OSWorld checkout", agent="no agent; use the agent own")
    found = {row.name: row for row in worker_rows(workers, "osworld", 3, True)}
    assert found["OSWorld, evaluators"] == Row(
        "OSWorld, evaluators", "missing", "osworld is missing", "name an OSWorld checkout"
    )
    assert found["OSWorld's agent"].state == "missing"
    assert "tasks" not in found


def test_the_agents_class_is_named() -> None:
    """The one of the checkout that a run would use."""
    workers = Workers("python", agent_class="mm_agents.qwen.QwenAgent", tasks=NONE_FOUND)
    assert Row("OSWorld's agent", "ok", "mm_agents.qwen.QwenAgent") in worker_rows(workers, "osworld", 3, True)


def test_the_agent_of_container_desktops_is_ours() -> None:
    """OSWorld's agent is no need there."""
    workers = Workers("python", agent="no agent; use the agent own", tasks=NONE_FOUND)
    assert [row.state for row in worker_rows(workers, "container", 3, True)] == ["ok", "ok", "warn", "ok"]


def test_tasks_that_cannot_run() -> None:
    """Missing where the user named them, else a warning; each task counts once, the first with its first fault."""
    found = {
        "faults": [
            {"task": "os/a", "fault": "its getter 'x' is not in this OSWorld"},
            {"task": "os/a", "fault": "other"},
            {"task": "os/b", "fault": "other"},
        ],
        "drive": [],
        "proxy": [],
    }
    row = task_files(found, 9, asked=True)
    assert (row.state, row.value) == ("missing", "2 of 9 cannot run: os/a: its getter 'x' is not in this OSWorld")
    assert task_files(found, 9, asked=False).state == "warn"


def test_tasks_that_need_something() -> None:
    """Google Drive and proxies are counted; tasks that need neither are ok; none at all is said."""
    row = task_files({"faults": [], "drive": ["a"], "proxy": ["a", "b"]}, 9, asked=True)
    assert (row.state, row.value) == ("warn", "9 can run; 1 ask for Google Drive credentials, 2 ask for a proxy")
    assert task_files(NONE_FOUND, 9, asked=True) == Row("tasks", "ok", "9 can run")
    assert list(worker_rows(Workers("p", tasks=NONE_FOUND), "osworld", 0, False))[-1].state == "warn"
    assert list(worker_rows(Workers("p"), "fake", 2, True))[-1] == Row("tasks", "ok", "2 read")
