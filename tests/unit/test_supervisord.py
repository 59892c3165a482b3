"""What does supervisord run? The rendered configuration, read as supervisord reads it."""

from __future__ import annotations

import shlex
from configparser import RawConfigParser
from pathlib import Path

import pytest
from supervisor.options import ServerOptions, expand

from legato_rl.supervisord import KEY_VARIABLE, Layout, control_socket, programs, render, render_include

ROLES = ("sink", "proxy", "broker", "worker")
AWKWARD = Path("/tmp/100% of; it/%(x)s 'quoted'")


def conf(run_dir: Path = Path("/r/un"), desktops: int = 3, folder: Path = Path("/some/where")) -> str:
    """A rendered configuration."""
    return render(layout(run_dir, folder), Path("/tmp/legato-x"), desktops)


def layout(root: Path = Path("/r/un"), folder: Path = Path("/some/where"), python: Path | None = None) -> Layout:
    """Where a service's processes are."""
    return Layout(root, root / "logs", Path("/venv/bin"), folder, python)


def parsed(text: str) -> RawConfigParser:
    """As supervisord parses it: `;` after a space begins a comment."""
    parser = RawConfigParser(inline_comment_prefixes=(";", "#"), strict=True)
    parser.read_string(text)
    return parser


def command(parser: RawConfigParser, role: str) -> list[str]:
    """The words of a role's command, as supervisord makes them."""
    return shlex.split(expand(parser[f"program:{role}"]["command"], {"here": "/wrong"}, "command"))


def test_one_program_a_role_and_one_process_a_desktop() -> None:
    """Every role with its script and the run folder; workers are numbered."""
    parser = parsed(conf())
    assert {section for section in parser.sections() if section.startswith("program:")} == {f"program:{r}" for r in ROLES}
    for role in ROLES:
        assert command(parser, role)[-2:] == [f"/venv/bin/legato-rl-{role}", "/r/un"]
        assert parser[f"program:{role}"]["directory"] == "/some/where"
    worker = parser["program:worker"]
    assert (worker["numprocs"], worker["process_name"]) == ("3", "worker-%(process_num)03d")
    assert worker["stdout_logfile"] == "/r/un/logs/worker-%(process_num)03d.log"
    assert parser["program:sink"]["stdout_logfile"] == "/r/un/logs/sink.log"


def test_the_key_is_kept_from_all_but_the_proxy() -> None:
    """The others lose the variable before they start; it is in no value."""
    parser = parsed(conf())
    for role in ROLES:
        words = command(parser, role)
        without = words[:3] == ["/usr/bin/env", "-u", KEY_VARIABLE]
        assert without == (role != "proxy")
        assert "environment" not in parser[f"program:{role}"]


def test_workers_stop_first_and_the_sink_last() -> None:
    """supervisord stops the highest priority first: what is stored must still find its sink."""
    order = sorted(programs(2), key=lambda program: program.priority, reverse=True)
    assert [program.name for program in order] == ["worker", "broker", "proxy", "sink"]
    parser = parsed(conf())
    assert [int(parser[f"program:{program.name}"]["priority"]) for program in order] == [p.priority for p in order]


@pytest.mark.parametrize("run_dir", [AWKWARD, Path("/tmp/a b"), Path("/tmp/50%"), Path('/tmp/"q"')])
def test_awkward_paths_arrive_as_they_are(run_dir: Path) -> None:
    """Percent signs, spaces, semicolons and quotes are in the words and the paths that supervisord makes."""
    parser = parsed(conf(run_dir, folder=run_dir))
    for role in ROLES:
        assert command(parser, role)[-1] == str(run_dir)
        section = parser[f"program:{role}"]
        values = {"process_num": 1}
        assert expand(section["directory"], {"here": "/wrong"}, "directory") == str(run_dir)
        twice = expand(expand(section["stdout_logfile"], values, "log"), values, "log")
        assert twice.startswith(f"{run_dir}/logs/{role}"), "supervisord expands a log's name twice"


def test_supervisord_itself_accepts_it(tmp_path: Path) -> None:
    """Its own parser: groups, priorities, exit codes and restarts are what the run relies on."""
    run_dir = tmp_path / "100% run"
    (run_dir / "logs").mkdir(parents=True)
    path = tmp_path / "supervisord.conf"
    path.write_text(render(layout(run_dir, tmp_path), tmp_path, 2))
    options = ServerOptions()
    options.realize(["-c", str(path), "-n"])
    groups = {group.name: group for group in options.process_group_configs}
    assert set(groups) == set(ROLES)
    assert [config.name for config in groups["worker"].process_configs] == ["worker-000", "worker-001"]
    for role in ROLES:
        for config in groups[role].process_configs:
            assert shlex.split(config.command)[-1] == str(run_dir)
            assert config.exitcodes == [0, 2]
            assert config.stdout_logfile == f"{run_dir}/logs/{config.name}.log"
            assert config.directory == str(tmp_path)
            assert config.stopasgroup
            assert config.killasgroup
    assert options.server_configs[0]["file"] == str(control_socket(tmp_path))
    assert options.minfds >= 1024


def test_each_desktop_has_its_files() -> None:
    """Hundreds of workers need more descriptors than the usual limit."""
    few, many = (int(parsed(conf(desktops=n))["supervisord"]["minfds"]) for n in (1, 400))
    assert many - few >= 399 * 3


def test_workers_with_an_interpreter_of_their_own() -> None:
    """Only they run with it, as a module; the key is kept from them all the same."""
    text = render(layout(python=Path("/os world/python")), Path("/tmp/legato-x"), 3)
    parser = parsed(text)
    start = ["/usr/bin/env", "-u", KEY_VARIABLE]
    assert command(parser, "worker") == [*start, "/os world/python", "-m", "legato_rl.workers.main", "/r/un"]
    assert command(parser, "broker") == [*start, "/venv/bin/legato-rl-broker", "/r/un"]


def test_an_operators_supervisord_takes_the_programs(tmp_path: Path) -> None:
    """Included beside its own: each role under a name of ours, its worker's names as they are, rotated logs, stop order."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "legato.conf").write_text(render_include(layout(tmp_path, tmp_path), 2))
    main = tmp_path / "supervisord.conf"
    main.write_text(f"[supervisord]\nlogfile = {tmp_path}/own.log\n[include]\nfiles = legato.conf\n")
    options = ServerOptions()
    options.realize(["-c", str(main), "-n"])
    groups = {group.name: group for group in options.process_group_configs}
    assert sorted(groups) == sorted(f"legato-rl-{role}" for role in ROLES)
    assert [config.name for config in groups["legato-rl-worker"].process_configs] == ["worker-000", "worker-001"]
    stops = sorted(groups.values(), key=lambda group: group.priority, reverse=True)
    assert [group.name for group in stops] == [f"legato-rl-{role}" for role in ("worker", "broker", "proxy", "sink")]
    for role in ROLES:
        for config in groups[f"legato-rl-{role}"].process_configs:
            words = shlex.split(config.command)
            assert words[-1] == str(tmp_path)
            assert (KEY_VARIABLE in words) == (role != "proxy")
            assert (config.exitcodes, config.stdout_logfile_maxbytes) == ([0, 2], 64 * 2**20)
