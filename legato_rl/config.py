"""What can be set? Frozen models, checked once, written to `run.json`, and passed on; nothing else is configuration."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from legato_rl.bad_input import one_sentence
from legato_rl.canonical import plain_fault
from legato_rl.errors import ConfigError

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Phase = Literal[
    "booting",
    "idle",
    "reset",
    "wait_after_reset",
    "observe",
    "policy",
    "act",
    "wait_before_eval",
    "evaluate",
    "store",
    "closing",
    "parked",
]
"""What a worker is doing; also the name of the phase in an error."""

FAKE_URL = "fake"
"""The policy URL that stands for the bundled server."""

OWNED_KEYS = frozenset({"model", "messages", "stream", "n", "logprobs", "return_token_ids", "seed"})
"""Keys of a request body that the run itself decides; `extra_body` may not hold them."""


class Frozen(BaseModel):
    """A model that refuses unknown fields and does not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyConfig(Frozen):
    """The model server and how the policy is sampled.

    `PolicyConfig("https://host/v1", "Qwen/Qwen3.5-9B", version="step-41", api_key=key)`. `url` ends in `/v1`, or is
    `fake` for the bundled server. The key is hidden in repr and never serialised. ConfigError names a wrong field.
    """

    url: str
    model: str = Field(min_length=1)
    version: str = Field(default="0", min_length=1)
    api_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    thinking: bool = False
    extra_body: dict[str, Any] = Field(default_factory=dict)
    seed: Seed | None = None
    step_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """Seconds that one HTTP attempt may take, from the moment it leaves."""
    retries: Annotated[int, Field(ge=0)] = 1
    """Further HTTP attempts after a time-out or a 5xx of a healthy server."""
    server_wait: Seconds = 600.0
    """Seconds that a server which is down is waited for."""

    def __init__(self, url: str | None = None, model: str | None = None, **fields: Any) -> None:
        if url is not None:
            fields["url"] = url
        if model is not None:
            fields["model"] = model
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(one_sentence(error)) from None

    @field_validator("url")
    @classmethod
    def _url(cls, url: str) -> str:
        if url == FAKE_URL:
            return url
        url = url.rstrip("/")
        if "@" in url:
            raise ValueError(
                "no user or password may stand in it; give the key as LEGATO_POLICY_KEY, or as api_key from Python"
            )
        if not re.match(r"https?://[^/\s?#]+(/[^\s?#]*)?\Z", url):
            raise ValueError("it must start with http:// or https:// and name a host, as in http://127.0.0.1:8000/v1")
        if not _port_is_good(url):
            raise ValueError("its port must be a number from 1 to 65535, as in http://127.0.0.1:8000/v1")
        if not url.endswith("/v1"):
            raise ValueError(f"it must end in /v1, as in {url}/v1")
        return url

    @field_validator("extra_body")
    @classmethod
    def _extra_body(cls, body: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(OWNED_KEYS & body.keys())
        if taken:
            raise ValueError(f"it may not hold {', '.join(taken)}, which the run itself sets; take that out")
        fault = plain_fault(body)
        if fault:
            raise ValueError(f"it holds what cannot be sent ({fault}); use plain JSON values")
        return body

    def key(self) -> str | None:
        """The key in the clear, for the one place that sends it."""
        return self.api_key.get_secret_value() if self.api_key else None


class FakeConfig(Frozen):
    """How the fake desktop behaves (`--fake key=value`). Times are means in seconds; rates are per call, 0 to 1."""

    boot_s: Seconds = 0.0
    reset_s: Seconds = 0.05
    act_s: Seconds = 0.01
    settle_s: Seconds = 0.01
    """The wait for the screen after a reset, after an action, and before the evaluation."""
    eval_s: Seconds = 0.01
    tail: Annotated[float, Field(ge=0, le=3, allow_inf_nan=False)] = 0.0
    """Sigma of the log-normal factor on every wait (mean 1): 0 is constant, 1 has a long tail."""
    photo_kb: Annotated[int, Field(ge=0, le=16384)] = 0
    """KiB of photo-like noise in the wallpaper, so that a screenshot weighs as much as a real desktop's (about 1000)."""
    fail_boot: Rate = 0.0
    fail_reset: Rate = 0.0
    fail_observe: Rate = 0.0
    fail_act: Rate = 0.0
    """The action is done and its answer is lost."""
    fail_evaluate: Rate = 0.0
    """The desktop breaks while evaluating (a desktop failure)."""
    bug_evaluate: Rate = 0.0
    """The evaluator raises something of its own (an evaluator failure)."""
    hang: Rate = 0.0
    """An action that never returns; the phase's deadline ends the worker."""
    crash: Rate = 0.0
    """An action that takes the whole worker process down (SIGKILL)."""


DEADLINES: dict[Phase, float] = {
    "booting": 900.0,
    "reset": 900.0,
    "wait_after_reset": 180.0,
    "observe": 60.0,
    "act": 180.0,
    "wait_before_eval": 120.0,
    "evaluate": 600.0,
    "closing": 30.0,
}
"""Seconds after which a worker ends itself, by phase. `policy` and `store` wait on peers, which may be away for long."""


SMALLEST_SIDE, LARGEST_SIDE = 64, 8192
"""Bounds of a screen's side in pixels."""


class DesktopConfig(Frozen):
    """One desktop of the run: which backend, and how it is waited for."""

    backend: str = "osworld"
    """`osworld`, `container`, `fake`, or `package.module:Class` of the Desktop protocol."""
    osworld_path: Path | None = None
    """An OSWorld checkout; without one `desktop_env` must be installed."""
    osworld_python: Path | None = None
    """The interpreter that the workers run with, where OSWorld's requirements are not beside this one."""
    provider: str = "docker"
    """OSWorld's provider of VMs: docker, vmware …; or `container`, which the backend `container` uses always."""
    path_to_vm: Path | None = None
    """The VM's image; the provider docker needs it."""
    image: str = "legato-desktop:office"
    """The image of a container desktop."""
    ram_gb: Annotated[int, Field(ge=1, le=1024)] = 4
    """GiB of memory of one desktop."""
    cpus: Annotated[int, Field(ge=1, le=256)] = 4
    """Processors of one desktop."""
    cache_dir: Path | None = None
    """Where downloads are kept, and rollouts have their files meanwhile; by default below the user's cache folder."""
    client_password: str = Field(default="", repr=False)
    """The password of the guest's user, for setup steps that need it; empty is OSWorld's own."""
    proxy: Path | None = None
    """OSWorld's file of proxies, for tasks that ask for one; without it they go without."""
    screen_size: tuple[int, int] = (1920, 1080)
    """Width and height in pixels, SMALLEST_SIDE to LARGEST_SIDE each."""
    ready_signal: bool = True
    fixed_wait: Seconds | None = None
    """Seconds to wait in place of the ready signal."""
    fast_reset: bool = True
    seed: Seed | None = None
    fake: FakeConfig = FakeConfig()
    deadlines: dict[Phase, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    """Seconds per phase, in place of DEADLINES."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(one_sentence(error)) from None

    @field_validator("screen_size")
    @classmethod
    def _screen_size(cls, size: tuple[int, int]) -> tuple[int, int]:
        if not all(SMALLEST_SIDE <= side <= LARGEST_SIDE for side in size):
            raise ValueError(f"each side must be {SMALLEST_SIDE} to {LARGEST_SIDE} pixels, as in 1920x1080")
        return size

    @model_validator(mode="after")
    def _waits(self) -> DesktopConfig:
        if not self.ready_signal and self.fixed_wait is None:
            raise ValueError("fixed-wait is missing: without the ready signal it must say how many seconds to wait")
        if self.ready_signal and self.fixed_wait is not None:
            raise ValueError(
                f"fixed-wait is {self.fixed_wait}: it has no effect with the ready signal on; switch that off or leave it out"
            )
        return self

    def deadline(self, phase: Phase) -> float | None:
        """Seconds that `phase` may last; None where it may wait for ever."""
        return self.deadlines.get(phase, DEADLINES.get(phase))


BOOTS_AT_ONCE = 8
"""OSWorld's desktops that boot at once unless something else is said."""


class Settings(Frozen):
    """Everything that one run was asked to do, resolved. Part of `run.json`; the key is not in it."""

    policy: PolicyConfig
    desktop: DesktopConfig = Field(default_factory=DesktopConfig)
    desktops: Annotated[int, Field(ge=1, le=4096)] = 4
    group: Annotated[int, Field(ge=1, le=4096)] = 4
    oversample: Annotated[float, Field(ge=0, le=16, allow_inf_nan=False)] = 0.0
    max_steps: Annotated[int, Field(ge=1)] = 15
    max_inflight: Annotated[int, Field(ge=1)] | None = None
    rollout_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    env_retries: Annotated[int, Field(ge=0)] = 1
    max_booting: Annotated[int, Field(ge=1)] | None = None
    """Desktops that boot or revert at once; by default BOOTS_AT_ONCE of OSWorld's and any number of others."""
    close: Literal["first", "all"] = "first"
    agent: Literal["auto", "own", "osworld"] = "auto"
    """Who builds prompts: the project's own agent, or the checkout's; `auto` is the checkout's for the backend osworld."""
    image_max: Annotated[int, Field(ge=1)] = 20
    fold_size: Annotated[int, Field(ge=1)] = 10
    stop_failure_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.5
    """The run stops, resumable, when more than this share of the last 20 tries failed on the desktop."""
    min_free_gb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """GiB that must be free where the run is stored; below, no new rollout starts."""
    fragment_mb: Annotated[int, Field(ge=1)] = 2048
    """MiB of ready-made message fragments that the proxy keeps."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(one_sentence(error)) from None

    @property
    def boots_at_once(self) -> int | None:
        """Desktops that may boot or revert at once; None where any number may."""
        return self.max_booting or (BOOTS_AT_ONCE if self.desktop.backend in ("osworld", "container") else None)

    @property
    def osworld_agent(self) -> bool:
        """Whether OSWorld's own agent builds the prompts."""
        return self.agent == "osworld" or (self.agent == "auto" and self.desktop.backend == "osworld")

    @property
    def attempts(self) -> int:
        """Attempts per group: G plus ceil(G × oversample) extras."""
        return self.group + math.ceil(round(self.group * self.oversample, 9))

    @property
    def closing(self) -> int:
        """K, the number of graded rows that closes a group: G, or every attempt under `--close all`."""
        return self.group if self.close == "first" else self.attempts


def _port_is_good(url: str) -> bool:
    """Whether a URL's port, where it names one, can be connected to."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False
