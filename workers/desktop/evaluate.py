"""What is the verdict on the live desktop? OSWorld's own evaluation, once, with every answer below it accounted for.

The guest's own "no" goes to the evaluator. Where a getter or metric then raises, that metric is 0: the thing is not
there. So it is where a file of the guest's is nothing that can be read. A lost answer raises DesktopFailure through the
evaluator, a failed download too. Anything else that it raises is its own and passes. DesktopEnv combines the metrics, so
one that is 0 counts in a list as OSWorld means it to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import requests

from legato_rl.desktop import DesktopFailure
from legato_rl.workers.desktop.browser import Pages, watch_browser, watch_pages
from legato_rl.workers.desktop.env import find_token, programs
from legato_rl.workers.desktop.guest import PROBE_S, Guest
from legato_rl.workers.desktop.unreadable import OUR_FILES, cannot_be_read, is_files_doing
from legato_rl.workers.desktop.watch import No, Watch

log = logging.getLogger("legato_rl.worker")

GIVEN_UP = "__EVALUATION_FAILED__"
"""What a getter of OSWorld's gives in place of an expectation that it did not find on a web site."""


class _Lacking:
    """What a getter gives where the guest has nothing to give."""


_LACKING = _Lacking()


def evaluate(env: Any, guest: Guest, watch: Watch) -> Any:
    """What `env.evaluate()` returns. DesktopFailure where the guest does not answer before, meanwhile or after.

    Changes the desktop (OSWorld's postconfig saves files and restarts programs): call it once.
    """
    guest.probe()
    with (
        watch.on(env.vm_ip, int(env.server_port), programs(env), find_token(env)),
        watch_browser(guest, watch),
        watch_pages() as pages,
    ):
        judge = _Judge(guest, watch, pages, env)
        judge.guard()
        env.is_environment_used = True
        verdict = env.evaluate()
        watch.check()
    guest.probe()
    return verdict if verdict is None else float(verdict)


class _Steps(list[dict[str, Any]]):
    """The steps of a postconfig, which note by index how many noes there were when each began."""

    def __init__(self, steps: Iterable[dict[str, Any]], noes: list[No]) -> None:
        super().__init__(steps)
        self._noes = noes
        self.began: list[int] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.began = []
        for step in super().__iter__():
            self.began.append(len(self._noes))
            yield step

    def noes_of(self, i: int) -> list[No]:
        """What the guest refused of step `i`; of the last one that began where that was before."""
        ends = [*self.began, len(self._noes)]
        return self._noes[ends[min(i, len(self.began) - 1)] : ends[min(i, len(self.began) - 1) + 1]]


class _Judge:
    """Stands around an env's getters and metrics for one evaluation."""

    def __init__(self, guest: Guest, watch: Watch, pages: Pages, env: Any) -> None:
        self._guest, self._watch, self._pages, self._env = guest, watch, pages, env
        self._before: list[int] = []
        """By metric: how many noes there were before its own getters asked."""
        self._postconfig_noes: list[No] = []
        self._noes_by_file: dict[str, list[No]] = {}
        """By file into which a step of the postconfig writes: the noes of that step."""

    def guard(self) -> None:
        """Put guards around what `env.evaluate` will call."""
        env = self._env
        usual = env.setup_controller.setup
        env.setup_controller.setup = lambda *args, **kwargs: self._postconfig(usual, *args, **kwargs)
        if not isinstance(env.metric, list):
            self._before = [0]
            env.result_getter = self._getter(0, env.result_getter, first=True)
            env.expected_getter = self._getter(0, env.expected_getter)
            env.metric = self._metric(0, env.metric, env.evaluator.get("result") or {}, env.evaluator.get("expected") or {})
            return
        self._before = [0] * len(env.metric)
        results, expected = (env.evaluator.get(name) or [{}] * len(env.metric) for name in ("result", "expected"))
        env.result_getter = [self._getter(i, getter, first=True) for i, getter in enumerate(env.result_getter)]
        env.expected_getter = [self._getter(i, getter) for i, getter in enumerate(env.expected_getter)]
        env.metric = [self._metric(i, metric, results[i] or {}, expected[i] or {}) for i, metric in enumerate(env.metric)]

    def _postconfig(self, usual: Callable[..., bool], config: Any, *args: Any, **kwargs: Any) -> bool:
        """The steps before the verdict. What the guest refuses of them is for the evaluator to judge."""
        before, noes = len(self._watch.outside), self._watch.noes
        steps = _Steps(config, noes)
        try:
            usual(steps, *args, **kwargs)
        except DesktopFailure:
            raise
        except Exception as error:
            self._raise_lost(error, before)
            if not steps.began or not any(no.plain for no in steps.noes_of(len(steps))):
                raise
        self._postconfig_noes = list(noes)
        for i, step in enumerate(config if steps.began else ()):
            for output in ("stdout", "stderr"):
                if file := step.get("parameters", {}).get(output):
                    self._noes_by_file[file] = steps.noes_of(i)
        return True

    def _getter(self, i: int, getter: Any, *, first: bool = False) -> Any:
        if getter is None:
            return None

        def guarded(env: Any, config: Any) -> Any:
            if first:
                self._before[i] = len(self._watch.noes)
            before = len(self._watch.outside)
            self._pages.unloaded.clear()
            try:
                value = getter(env, config)
            except DesktopFailure:
                raise
            except Exception as error:
                self._raise_lost(error, before)
                if self._lacks(i, config, getter) or (first and isinstance(error, FileNotFoundError)):
                    return _LACKING
                if first and config.get("type") not in OUR_FILES and cannot_be_read(error, config.get("type")):
                    log.warning("what the guest gave is nothing that %s can read: %r", getter, error)
                    return _LACKING
                raise
            self._watch.check()
            if not first and len(self._watch.outside) > before:
                # OSWorld would go on with something else: with UTC where nobody tells it this machine's time zone.
                raise DesktopFailure("download", self._watch.outside[-1])
            given_up = not first and GIVEN_UP in str(value)
            if given_up and self._lacks(i, config, getter):
                return _LACKING
            self._check_pages(config, given_up)
            return value

        guarded.__module__ = getattr(getter, "__module__", "")
        return guarded

    def _check_pages(self, config: dict[str, Any], given_up: bool) -> None:
        """Raise DesktopFailure where a page did not load that the task itself names, or whose content is to be compared with.

        OSWorld makes an empty page of the one, and a mark for the other that nothing equals.
        """
        unloaded = self._pages.unserved()
        named = [url for url in unloaded if given_up or url in (config.get("url"), config.get("path"))]
        if named and "backups" not in config:
            self._guest.probe()
            raise DesktopFailure("download", f"{named[0]}: {unloaded[named[0]]}")
        if given_up:
            raise LookupError(f"{config.get('type')} did not find what is to be compared with")

    def _metric(self, i: int, metric: Any, result: dict[str, Any], expected: dict[str, Any]) -> Any:
        def guarded(*states: Any, **options: Any) -> Any:
            if any(isinstance(state, _Lacking) for state in states):
                return 0.0
            before = len(self._watch.outside)
            try:
                verdict = metric(*states, **options)
            except DesktopFailure:
                raise
            except Exception as error:
                self._raise_lost(error, before)
                getters = self._env.result_getter
                if self._lacks(i, result, getters[i] if isinstance(getters, list) else getters):
                    return 0.0
                if is_files_doing(metric, states, (result.get("type"), expected.get("type")), options, error):
                    log.warning("a file of the guest's is none that %s can read: %r", metric, error)
                    return 0.0
                raise
            self._watch.check()
            if verdict is None and self._lacks(i, result, None):
                return 0.0
            return verdict

        return guarded

    def _raise_lost(self, error: Exception, before: int) -> None:
        """Raise the DesktopFailure that `error` comes of, if any: a lost answer, or a download that failed after `before`."""
        self._watch.check()
        if len(self._watch.outside) == before:
            return
        cause: BaseException | None = error
        while cause is not None:  # setup wraps what its steps raise
            if isinstance(cause, requests.RequestException):
                raise DesktopFailure("download", self._watch.outside[-1]) from error
            cause = cause.__cause__ or cause.__context__

    def _lacks(self, i: int, asked: Any, getter: Any) -> bool:
        """Whether the guest itself said that it has not what metric `i` asks for (`asked`: a result's or expected's fields)."""
        if self._watch.noes[self._before[i] :]:
            return True
        if isinstance(asked, dict) and asked.get("type") == "cache_file":
            # The step whose output is graded speaks also by its exit code, and no other step does.
            return bool(self._noes_by_file.get(asked.get("path", "")))
        if any(no.plain for no in self._postconfig_noes):
            return True
        return getattr(getter, "__module__", "").endswith("getters.chrome") and self._no_browser()

    def _no_browser(self) -> bool:
        """Whether Chrome's debugging port answers nobody, in a guest that does: the policy closed it."""
        self._guest.probe()
        try:
            browser = Guest(self._env.vm_ip, int(self._env.chromium_port), self._guest.clock)
            return browser.call("GET", "/json/version", PROBE_S)[0] != 200
        except DesktopFailure as failure:
            return failure.type in ("guest_unreachable", "answer_lost")
