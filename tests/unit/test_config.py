"""What can be set, what is refused in a sentence, and where does the key never show?"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from legato_rl.bad_input import OPTIONS, told
from legato_rl.cli.collect import collect
from legato_rl.cli.fake_policy import fake_policy
from legato_rl.config import OWNED_KEYS, DesktopConfig, PolicyConfig, Settings
from legato_rl.errors import ConfigError
from legato_rl.fake.policy_config import FakePolicyConfig

POLICY = PolicyConfig("http://127.0.0.1:8000/v1", "m")
KEY = "sk-very-secret"


def refusal(make: Any, *args: Any, **fields: Any) -> str:
    """The sentence that refuses these settings."""
    with pytest.raises(ConfigError) as error:
        make(*args, **fields)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "url", ["fake", "http://h/v1", "https://h.example:8443/a/b/v1", "http://127.0.0.1:8000/v1/", "http://[::1]:8000/v1"]
)
def test_a_url_that_can_be_used(url: str) -> None:
    """A slash at its end is taken off."""
    assert PolicyConfig(url, "m").url == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:8000", "policy-url is 'http://127.0.0.1:8000': it must end in /v1, as in http://127.0.0.1:8000/v1"),
        ("http://h/v1/chat/completions", "must end in /v1"),
        ("127.0.0.1:8000/v1", "must start with http:// or https:// and name a host"),
        ("ftp://h/v1", "must start with http://"),
        ("http:///v1", "must start with http://"),
        ("http://h/v1?key=x", "must start with http://"),
        ("http://h:99999/v1", "its port must be a number from 1 to 65535"),
        ("http://h:0/v1", "its port must be a number from 1 to 65535"),
        ("http://h:port/v1", "its port must be a number from 1 to 65535"),
        ("http://h /v1", "must start with http://"),
        ("http://h/v1\nHost: x/v1", "must start with http://"),
        ("", "must start with http://"),
    ],
)
def test_a_url_that_cannot(url: str, said: str) -> None:
    """The sentence names the field and how it should look."""
    sentence = refusal(PolicyConfig, url, "m")
    assert sentence.startswith("policy-url is ")
    assert said in sentence


@pytest.mark.parametrize(
    "url", ["http://user:hush@h/v1", "user:hush@h/v1", "https://user:hush/@h:1/v1", "http://h/v1?key=hush"]
)
def test_a_secret_in_a_url_is_not_told_back(url: str) -> None:
    """A user, a password and a query are refused, and not quoted."""
    sentence = refusal(PolicyConfig, url, "m")
    assert "hush" not in sentence
    assert "user or password" in sentence or "must start with http://" in sentence


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("top_p", 0),
        ("top_p", 1.1),
        ("max_tokens", 0),
        ("step_timeout", 0),
        ("step_timeout", -1),
        ("retries", -1),
        ("server_wait", -1),
        ("server_wait", math.nan),
        ("seed", "x"),
        ("seed", -1),
        ("seed", 2**63),
        ("version", ""),
    ],
)
def test_a_policy_number_that_is_wrong(field: str, value: object) -> None:
    """Out of its range, not finite, or no number."""
    sentence = refusal(PolicyConfig, "fake", "m", **{field: value})
    assert sentence.startswith(f"{field.replace('_', '-')} is {value!r}: it must ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("desktops", 0),
        ("desktops", -1),
        ("desktops", 2.5),
        ("group", 0),
        ("oversample", -0.25),
        ("max_steps", 0),
        ("max_inflight", 0),
        ("rollout_timeout", 0),
        ("env_retries", -1),
        ("image_max", 0),
        ("stop_failure_share", 0),
        ("close", "last"),
    ],
)
def test_a_run_setting_that_is_wrong(field: str, value: object) -> None:
    """As for the policy's."""
    name = "stop-failures" if field == "stop_failure_share" else field.replace("_", "-")
    assert refusal(Settings, policy=POLICY, **{field: value}).startswith(f"{name} is {value!r}: it must ")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("version", "", "it must not be empty"),
        ("temperature", "warm", "it must be a number"),
        ("temperature", "nan", "it must be a finite number"),
        ("temperature", math.inf, "it must be a finite number"),
        ("top_p", math.nan, "it must be a finite number"),
        ("top_p", 1.1, "it must be at most 1"),
        ("max_tokens", 2.5, "it must be a whole number"),
        ("max_tokens", 0, "it must be at least 1"),
        ("step_timeout", 0, "it must be more than 0"),
        ("seed", 2**63, "it must be less than 9223372036854775808"),
    ],
)
def test_what_is_asked_of_a_value(field: str, value: object, reason: str) -> None:
    """Said in plain words, not in those of the library that checks."""
    assert refusal(PolicyConfig, "fake", "m", **{field: value}).endswith(f": {reason}")


@pytest.mark.parametrize("make", [PolicyConfig, DesktopConfig, Settings, FakePolicyConfig])
def test_a_field_has_its_options_name(make: type[BaseModel]) -> None:
    """A field that a command has as an option is told as that option."""
    command = fake_policy if make is FakePolicyConfig else collect
    options = {option.opts[0].removeprefix("--") for option in command.params}
    spelled = {name: name.replace("_", "-") for name in make.model_fields if "_" in name and name != "api_key"}
    wanted = {name: option for name, option in spelled.items() if option in options}
    assert {name: OPTIONS.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("value", "words"), [(None, "null"), (True, "true"), ({"a": [None]}, '{"a": [null]}'), ("x", "'x'"), (math.nan, "nan")]
)
def test_a_value_is_told_in_the_words_of_json(value: object, words: str) -> None:
    """Nobody at a command line has to know Python."""
    assert told(value) == words


def test_a_long_value_is_cut() -> None:
    """And it shows that it was."""
    assert told("x" * 1000).endswith("x…")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fake": {"fail_reset": 2}}, "fake.fail_reset is 2: "),
        ({"fake": {"act_s": "-1"}}, "fake.act_s is '-1': "),
        ({"fake": {"nonsense": 1}}, "fake.nonsense is unknown here: correct the name or leave it out"),
        ({"ram_gb": 0}, "ram-gb is 0: "),
        ({"cpus": 0.5}, "cpus is 0.5: "),
        ({"fake": {"crash": math.nan}}, "fake.crash is nan: it must be a finite number"),
        ({"deadlines": {"lunch": 1}}, "deadline is 'lunch': it must be 'booting', "),
        ({"deadlines": {"act": 0}}, "deadline.act is 0: it must be more than 0"),
        ({"deadlines": {"act": "inf"}}, "deadline.act is 'inf': it must be a finite number"),
        ({"screen_size": (0, 0)}, "screen is '0x0': each side must be 64 to 8192 pixels, as in 1920x1080"),
        ({"screen_size": (1920, 9000)}, "screen is '1920x9000': each side must be"),
        ({"seed": -1}, "seed is -1: it must be at least 0"),
        ({"ready_signal": False}, "fixed-wait is missing"),
        ({"fixed_wait": 2.0}, "fixed-wait is 2.0: it has no effect with the ready signal on"),
        ({"backends": "fake"}, "backends is unknown here: correct the name or leave it out"),
    ],
)
def test_a_desktop_setting_that_is_wrong(fields: dict[str, Any], said: str) -> None:
    """Also what contradicts itself."""
    assert said in refusal(DesktopConfig, **fields)


def test_what_is_missing_is_named() -> None:
    """The sentence says that it needs a value."""
    assert refusal(PolicyConfig, "fake") == "model is missing: give it a value"
    assert refusal(Settings) == "policy is missing: give it a value"


@pytest.mark.parametrize("key", sorted(OWNED_KEYS))
def test_the_runs_own_keys_are_not_the_users(key: str) -> None:
    """`extra_body` cannot change what a record is made of."""
    sentence = refusal(PolicyConfig, "fake", "m", extra_body={key: 1})
    assert sentence == f'extra-body is {{"{key}": 1}}: it may not hold {key}, which the run itself sets; take that out'


def test_the_key_is_never_shown() -> None:
    """Not in a repr, a dump or a JSON, of the policy or of the run; only `key()` gives it."""
    policy = PolicyConfig("fake", "m", api_key=KEY)
    settings = Settings(policy=policy)
    shown = [repr(policy), str(policy), str(policy.model_dump()), policy.model_dump_json()]
    shown += [repr(settings), str(settings.model_dump()), settings.model_dump_json(), str(policy.model_dump(mode="json"))]
    assert [text for text in shown if KEY in text or "api_key" in text] == []
    assert policy.key() == KEY
    assert PolicyConfig("fake", "m").key() is None
    assert PolicyConfig.model_validate_json(policy.model_dump_json()).key() is None


def test_a_key_of_the_wrong_type_is_not_told_back() -> None:
    """The sentence names the field and no value."""
    assert KEY not in refusal(PolicyConfig, "fake", "m", api_key=[KEY])


@pytest.mark.parametrize(
    ("group", "oversample", "attempts"),
    [(8, 0.25, 10), (4, 0.0, 4), (4, 0.1, 5), (10, 0.1, 11), (10, 0.3, 13), (100, 0.07, 107), (3, 1.0, 6), (1, 0.01, 2)],
)
def test_extras_are_rounded_up(group: int, oversample: float, attempts: int) -> None:
    """ceil(G × F), without the dust of binary fractions: 100 × 0.07 is 7, not 8."""
    assert Settings(policy=POLICY, group=group, oversample=oversample).attempts == attempts


@given(group=st.integers(1, 256), extras=st.integers(0, 256), hundredths=st.integers(0, 400))
def test_the_extras_are_never_off_by_one(group: int, extras: int, hundredths: int) -> None:
    """A fraction that asks for whole extras gets them; any other gets the next whole number."""
    if extras <= 16 * group:
        assert Settings(policy=POLICY, group=group, oversample=extras / group).attempts == group + extras
    exact = -(-group * hundredths // 100)
    assert Settings(policy=POLICY, group=group, oversample=hundredths / 100).attempts == group + exact


@pytest.mark.parametrize(("close", "closing"), [("first", 8), ("all", 10)])
def test_what_closes_a_group(close: str, closing: int) -> None:
    """The first G graded rows, or all of them."""
    assert Settings(policy=POLICY, group=8, oversample=0.25, close=close).closing == closing


def test_settings_survive_their_file() -> None:
    """What a process reads from run.json is what was asked."""
    desktop = DesktopConfig(backend="fake", screen_size=(320, 240), fake={"tail": 1.0}, deadlines={"act": 2})
    settings = Settings(policy=POLICY, desktop=desktop, rollout_timeout=30.5)
    assert Settings.model_validate_json(settings.model_dump_json()) == settings
    assert settings.desktop.deadline("act") == 2.0
    assert settings.desktop.deadline("evaluate") == 600.0
    assert settings.desktop.deadline("policy") is None


@pytest.mark.parametrize(
    ("agent", "backend", "osworld"),
    [
        ("auto", "osworld", True),
        ("auto", "container", False),
        ("auto", "fake", False),
        ("own", "osworld", False),
        ("osworld", "container", True),
    ],
)
def test_whose_agent(agent: str, backend: str, osworld: bool) -> None:
    """OSWorld's own on OSWorld's own desktops, unless something else is said."""
    assert Settings(policy=POLICY, desktop=DesktopConfig(backend=backend), agent=agent).osworld_agent is osworld


def test_a_guests_password_reaches_its_worker() -> None:
    """Through run.json, which is the user's alone; it is in no repr."""
    desktop = DesktopConfig(backend="osworld", client_password="sesame")
    assert "sesame" not in repr(desktop)
    assert DesktopConfig.model_validate_json(desktop.model_dump_json()) == desktop
