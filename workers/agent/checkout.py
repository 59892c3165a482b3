"""How is OSWorld's own agent used? The checkout's class behind our Agent protocol, its model calls through the run's policy.

`mm_agents.qwen.QwenAgent` where the checkout has it, else the older `mm_agents.qwen3vl_agent.Qwen3VLAgent`.
`python -m legato_rl.workers.agent.checkout [CHECKOUT]` says which; in a sentence, exit code 2, where there is none.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from legato_rl.errors import ConfigError
from legato_rl.workers.agent import CallLLM, Observation
from legato_rl.workers.agent.parser import tool_calls
from legato_rl.workers.agent.shields import quiet_and_dated

AGENTS = (("mm_agents.qwen", "QwenAgent"), ("mm_agents.qwen3vl_agent", "Qwen3VLAgent"))
"""Modules and classes, the newest first."""
log = logging.getLogger("legato_rl.agent")


def load_agent(path: Path | None) -> type[Any]:
    """The agent's class from the checkout at `path`, or as it is installed. ConfigError where there is none.

    ConfigError also where it comes from another tree than OSWorld itself: the two are made for each other.
    """
    if path is not None and (path / "mm_agents").is_dir() and str(path) not in sys.path:
        sys.path.insert(0, str(path))
    where = f"osworld is {str(path)!r}" if path else "osworld is not given"
    for module_name, class_name in AGENTS:
        if not _exists(module_name):
            continue
        try:
            agent: type[Any] = getattr(import_module(module_name), class_name)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"{where}: its agent {module_name}.{class_name} cannot be imported by {sys.executable} ({error}); "
                "install what it needs there, or use the agent own"
            ) from None
        trees = {name: _tree(name) for name in ("mm_agents", "desktop_env")}
        if None not in trees.values() and trees["mm_agents"] != trees["desktop_env"]:
            raise ConfigError(
                f"{where}: mm_agents is from {trees['mm_agents']} and desktop_env from {trees['desktop_env']}; "
                "name a checkout that has both"
            )
        return agent
    names = " and no ".join(f"{module}.{name}" for module, name in AGENTS)
    raise ConfigError(f"{where}: there is no {names}; name a checkout that has one, or use the agent own")


class CheckoutAgent:
    """An Agent (the protocol) around an instance of OSWorld's class `agent`.

    At most `image_max` screenshots are shown, folded `fold_size` at a time where the class folds. `today` is the date in
    its prompt, as "Monday, June 01, 2026", fixed for a run.
    """

    def __init__(self, agent: type[Any], *, model: str, today: str, image_max: int, fold_size: int, thinking: bool) -> None:
        quiet_and_dated(agent, today)
        known = _parameters(agent)
        wanted: dict[str, Any] = {
            "model": model,
            "action_space": "pyautogui",
            "api_backend": "openai",
            "enable_thinking": thinking,
        }
        if "image_max" in known:
            wanted |= {"image_max": image_max, "fold_size": fold_size}
        else:
            # It does not fold: its history is the pictures that it shows beside the present one.
            wanted["history_n"] = max(image_max - 1, 1)
        self.call_llm: CallLLM = _no_policy
        self.parse_error: str | None = None
        self._agent = agent(**{name: value for name, value in wanted.items() if name in known})
        # On the instance, so that it goes before the class's own with its retries and its client.
        self._agent.call_llm = self._call
        self._response: str | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the conversation."""
        self._agent.reset(log)
        self.parse_error = None

    def predict(self, instruction: str, obs: Observation) -> tuple[str, list[str]]:
        """One step, as the Agent protocol has it. What `call_llm` raises leaves the agent as it was."""
        before = {name: list(value) if isinstance(value, list) else value for name, value in vars(self._agent).items()}
        self._response = None
        try:
            response, actions = self._agent.predict(instruction, dict(obs))
        except Exception as error:
            if self._response is None:
                vars(self._agent).update(before)
                raise
            # The policy's answer is there and the agent could not read it: that is a step without an action.
            return self._unread(self._response, f"the agent could not read it: {type(error).__name__}: {error}")
        if self._response is None:
            return response, actions
        response = self._response
        if not response.strip():
            self.parse_error = "empty response"
            return response, []
        if not actions:
            self.parse_error = "the agent found no action in it"
        elif actions == ["WAIT"] and "<tool_call" in response.lower() and not _calls(response):
            self.parse_error, actions = "no complete <tool_call> that the agent can carry out", []
        else:
            self.parse_error = None
        return response, actions

    def _call(self, payload: dict[str, Any], model: str) -> str:
        self._response = self.call_llm(payload, model)
        return self._response

    def _unread(self, response: str, why: str) -> tuple[str, list[str]]:
        agent = self._agent
        while len(agent.responses) < len(agent.screenshots):
            agent.responses.append(response)
        while len(agent.actions) < len(agent.responses):
            agent.actions.append("No action")
        self.parse_error = why
        return response, []


def _calls(response: str) -> bool:
    """Whether a response holds a whole call in either grammar, or JSON in a call's place."""
    return any(True for _ in tool_calls(response)) or '"arguments"' in response


def _parameters(agent: type[Any]) -> set[str]:
    """The names that the class's constructor takes, those of its bases included where it passes the rest on."""
    names: set[str] = set()
    for kind in agent.__mro__:
        if "__init__" not in vars(kind):
            continue
        parameters = inspect.signature(vars(kind)["__init__"]).parameters.values()
        names.update(parameter.name for parameter in parameters)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _tree(package: str) -> str | None:
    """The folder that a package lies in."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    return str(Path(places[0]).resolve().parent) if places else None


def _no_policy(payload: dict[str, Any], model: str) -> str:
    raise RuntimeError(f"no policy is attached for {model!r}: set call_llm before predict")


def main() -> None:
    """The command above."""
    # What OSWorld prints while it is imported is not part of the answer.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        agent = load_agent(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except ConfigError as error:
        print(error, file=out)
        sys.exit(error.exit_code)
    print(f"{agent.__module__}.{agent.__qualname__}", file=out)


if __name__ == "__main__":
    main()
