"""Is a service that is opened again what it was made as, and what trainers have made of it since? Real files and servers."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from legato_rl.broker.told import Told
from legato_rl.cli.main import legato_rl
from legato_rl.errors import ConfigError, RecordError
from legato_rl.fake.server import FakePolicyServer
from legato_rl.run.asked_since import forget_what_is_gone, in_force
from legato_rl.run.prepare_service import Terms
from legato_rl.run.serve import serve as start
from legato_rl.service import SHUTDOWN, ServiceDir
from legato_rl.supervisord import control_socket
from legato_rl.wire import PolicyName

GIVEN = (
    "--model",
    "m",
    "--version",
    "v",
    "--backend",
    "fake",
    "--screen",
    "320x240",
    "--desktops",
    "2",
    "--most-desktops",
    "3",
)
MORE = (
    "--fake",
    "act_s=0.5",
    "--fake",
    "boot_s=1",
    "--deadline",
    "act=9",
    "--no-ready-signal",
    "--fixed-wait",
    "3",
    "--seed",
    "1",
)


def serve(root: Path, *args: str) -> Result:
    """`legato-rl serve --print-supervisord`, which checks all that a start checks, in this process."""
    return CliRunner().invoke(legato_rl, ["serve", "--dir", str(root), "--print-supervisord", *args])


def test_the_folder_alone_is_enough(tmp_path: Path) -> None:
    """It is opened with all that it was made with; what is given again may be part of that, and must agree."""
    root = tmp_path / "d"
    with FakePolicyServer() as url:
        first = serve(root, "--policy-url", url, *GIVEN, *MORE, "--allow-origin", "http://127.0.0.1:9")
        assert first.exit_code == 0, first.output
        made = ServiceDir(root).load()
        for again in ((), ("--policy-url", url, "--fake", "act_s=0.5"), ("--fixed-wait", "3", "--seed", "1"), MORE):
            result = serve(root, *again)
            assert (result.exit_code, result.output) == (0, first.output), again
            assert ServiceDir(root).load() == made


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--desktops", "4"), "desktops is 4: this service was made with 2"),
        (("--policy-url", "http://127.0.0.1:1/v1"), "policy-url is 'http://127.0.0.1:1/v1': this service was made with 'http"),
        (("--policy-url", "fake"), "policy-url is 'fake': start `legato-rl fake-policy`"),
        (("--fake", "act_s=0.1"), "act_s is 0.1: this service was made with 0.5"),
        (("--temperature", "0.5"), "temperature is 0.5: this service was made with 1.0"),
        (("--allow-origin", "http://127.0.0.1:9"), 'allow-origin is ["http://127.0.0.1:9"]: this service was made with []'),
        (("--most-desktops", "1"), "most-desktops is 1: it must be 2, the desktops, to 4096"),
        (("--screen", "9"), "screen is '9': it must be WIDTHxHEIGHT in pixels"),
    ],
)
def test_what_disagrees_is_refused(tmp_path: Path, given: tuple[str, ...], sentence: str) -> None:
    """One sentence with both values; the file is as it was."""
    root = tmp_path / "d"
    with FakePolicyServer() as url:
        assert serve(root, "--policy-url", url, *GIVEN, *MORE).exit_code == 0
        before = ServiceDir(root).service_file.read_bytes()
        result = serve(root, *given)
    assert result.exit_code == 2
    assert result.output.startswith(f"error: {sentence}")
    assert result.output.count("\n") == 1
    assert ServiceDir(root).service_file.read_bytes() == before


def test_the_server_that_is_in_force_is_asked(tmp_path: Path) -> None:
    """That of the last set_policy, though the first is gone; where it does not answer, the sentence says who chose it."""
    root = tmp_path / "d"
    folder = ServiceDir(root)
    with FakePolicyServer() as second:
        with FakePolicyServer() as first:
            assert serve(root, "--policy-url", first, *GIVEN, "--allow-origin", second).exit_code == 0
        assert f"policy-url is '{first}': " in serve(root).output
        Told(url=second, default=PolicyName(model="n", version="w"), desktops=3).save(folder.state)
        result = serve(root)
        assert result.exit_code == 0, result.output
    made = folder.load()
    assert (made.settings.policy.url, made.settings.policy.model) == (first, "m"), "what it was made with stays"
    now = in_force(folder, made.settings, made.origins)
    assert (now.policy.url, now.policy.model, now.policy.version, now.desktops) == (second, "n", "w", 3)
    result = serve(root)
    assert result.exit_code == 2
    assert result.output.startswith(f"error: policy-url is '{second}': ")
    assert (
        f"set_policy chose model 'n' there, so have it answer, or take `url` and `default` out of {folder.state}"
        in result.output
    )


def test_nothing_is_sent_where_it_may_not(tmp_path: Path) -> None:
    """Whatever state.json says, nor where it says nothing that can be read."""
    root = tmp_path / "d"
    folder = ServiceDir(root)
    with FakePolicyServer() as url, FakePolicyServer() as other:
        assert serve(root, "--policy-url", url, *GIVEN).exit_code == 0
        Told(url=other).save(folder.state)
        assert f"url is '{other}', and this service may only call" in serve(root).output
    for damage in ("{", "[]"):
        folder.state.write_text(damage)
        with pytest.raises(RecordError, match=r"state.json is no JSON"):
            in_force(folder, folder.load().settings, folder.load().origins)


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    """A shutdown that a kill cut short, and the bundled server's old place; not the stop of one run, nor anything else."""
    root = tmp_path / "d"
    folder = ServiceDir(root)
    with FakePolicyServer() as url:
        assert serve(root, "--policy-url", url, *GIVEN).exit_code == 0
    service = folder.load()
    forget_what_is_gone(folder, service)
    assert not folder.state.exists()
    told = Told(url=service.settings.policy.url, leaving=True, out={"worker-000": "y"}, draining=True)
    told.stopping = {"stopped": "enough of it", "up-then": SHUTDOWN}
    told.save(folder.state)
    forget_what_is_gone(folder, service)
    assert Told.load(folder.state) == told.model_copy(update={"leaving": False, "stopping": {"stopped": "enough of it"}})
    forget_what_is_gone(folder, service.model_copy(update={"bundled": True}))
    assert Told.load(folder.state).url == ""


def test_beside_a_service_that_is_up_nothing_is_started(tmp_path: Path) -> None:
    """Also while its sink, and with that the sink's lock, is away; what its broker was told stays as it is."""
    with tempfile.TemporaryDirectory(prefix="lr-") as place, socket.socket(socket.AF_UNIX) as supervisord:
        folder = ServiceDir(Path(place))
        with FakePolicyServer() as url:
            assert serve(folder.root, "--policy-url", url, *GIVEN).exit_code == 0
            made = folder.load()
            made.sockets.mkdir(mode=0o700)
            supervisord.bind(str(control_socket(made.sockets)))
            supervisord.listen()
            assert serve(folder.root).exit_code == 0, "an operator's configuration may be printed again"
        Told(leaving=True, stopping={"r": SHUTDOWN}).save(folder.state)
        before = [file.read_bytes() for file in (folder.state, folder.service_file)]
        with pytest.raises(ConfigError, match=f"^dir is '{folder.root}': its service is running; end that first$"):
            start(folder.root, made.settings, Terms(made.most_desktops))
        assert [file.read_bytes() for file in (folder.state, folder.service_file)] == before


def test_a_folder_without_a_service(tmp_path: Path) -> None:
    """What is asked for is what a new one needs, and that is said."""
    result = serve(tmp_path)
    assert result.exit_code == 2
    assert result.output == (
        f"error: missing option '--policy-url'. There is no service in {tmp_path} yet, so say what it is to be; "
        "try legato-rl serve --help\n"
    )
