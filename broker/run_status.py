"""Where does a run stand, and the service, as trainers are told? PURE."""

from __future__ import annotations

from legato_rl.broker.core import Core
from legato_rl.broker.run import Run
from legato_rl.broker.told import Told
from legato_rl.wire import GroupCounts, RunBrief, RunStatus

NO_GROUPS = GroupCounts(total=0, closed=0, short=0, open=0)


def run_status(core: Core, told: Told, url: str, run: Run | None, id_: str, still: bool) -> RunStatus:
    """The answer to a StatusAsk; of the service alone without `run`. `url` is the model server's; `still`: its calls stand
    still."""
    proxy = core.proxy
    policy = core.policies.current(run.run_id) if run else core.policies.default
    state = proxy.state if proxy else "unknown"
    if state == "paused" and not still and proxy is not None and proxy.running == 0:
        # It was told otherwise since, and has not carried that out yet.
        state = "unknown"
    if state == "up" and run is not None and run.without_model:
        state = "down"
    return RunStatus(
        id=id_,
        run=run.run_id if run else "",
        state=run.state if run else "none",
        reason=run.reason if run else "",
        groups=run.group_counts() if run else NO_GROUPS,
        rows=dict(run.rows) if run else {},
        attempts_total=len(run.tasks) * run.settings.attempts if run else 0,
        attempts_ended=run.attempts_ended if run else 0,
        desktops=core.roster.counts(),
        policy=state,
        policy_message=(run.without_model if run else "") or (proxy.message if proxy else ""),
        sink_message=run.trouble if run else "",
        queued=proxy.queued if proxy else 0,
        running=proxy.running if proxy else 0,
        version=policy.version,
        model=policy.model,
        url=url,
        paused=told.pause,
        draining=told.draining,
        events=len(run.happenings.events) if run else 0,
        runs=[_brief(core, one) for one in core.live()],
    )


def _brief(core: Core, run: Run) -> RunBrief:
    version = core.policies.current(run.run_id).version
    return RunBrief(run=run.run_id, state=run.state, priority=run.priority, version=version, groups=run.group_counts())
