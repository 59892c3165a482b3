"""Which status does a row get? The table of the design's section 4.2. PURE: one function of what is already stored."""

from __future__ import annotations

from legato_rl.records import DESKTOP_OUTCOMES, GRADED_OUTCOMES, Outcome, Status


def decide(outcome: Outcome, try_: int, graded_stored: int, closing: int, env_retries: int) -> Status:
    """The status of a row that is appended now; the first rule that fits decides.

    `graded_stored` counts the group's graded rows already in the file, `closing` is K: how many of them close the
    group, `env_retries` is how many further tries a desktop failure buys.
    """
    if outcome is Outcome.NOT_STARTED:
        return Status.SKIPPED
    closed = graded_stored >= closing
    if outcome in GRADED_OUTCOMES:
        if closed:
            return Status.SURPLUS
        return Status.OK if outcome is Outcome.GRADED else Status.TRUNCATED
    if closed:
        return Status.CANCELLED
    if outcome in DESKTOP_OUTCOMES and try_ < env_retries:
        return Status.RETRIED
    if outcome is Outcome.STOPPED:
        return Status.CANCELLED
    return Status.ERROR
