"""Of which row is a refusal, where one was sent twice and a bare one follows it? A real line, a driven clock."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from driven_clock import DrivenClock
from test_row_line import ROW, Sink, store
from worker_scene import PATIENCE_S

from legato_rl.clock import SYSTEM_CLOCK
from legato_rl.sockets import Context, wait
from legato_rl.wire import BlobsNeeded, Refused
from legato_rl.workers.rows import REFUSED_PAUSE_S, SEND_AGAIN_S, RowRefused

NAMELESS = Refused(about="PutRow", reason="the body is no msgpack map")
NAMED = Refused(about="PutRow", of=ROW.rollout_id, reason="meta is odd")


class Driven(Sink):
    """A sink played by the test, and a line whose time the test drives."""

    def __init__(self, context: Context, sockets: Path) -> None:
        self.clock = DrivenClock()
        super().__init__(context, sockets, self.clock)

    def later(self, seconds: float) -> None:
        """Time passes; the line looks at it."""
        self.clock.now += seconds
        self.line.link.news.ring()


@pytest.fixture
def line() -> Iterator[Driven]:
    with tempfile.TemporaryDirectory(prefix="lr-") as sockets, Context() as context:
        here = Driven(context, Path(sockets))
        yield here
        here.quit.ask()


def refused_after_two_sends(line: Driven, refused: Refused) -> None:
    """The row goes twice, and the first answer refuses it."""
    row = store(line)
    line.hear(1)
    line.later(SEND_AGAIN_S)
    line.hear(1)
    line.tell(refused)
    with pytest.raises(RowRefused):
        row.result(PATIENCE_S)


@pytest.mark.parametrize("refused", [NAMELESS, NAMED])
def test_the_refusal_of_a_repeat_is_none_of_the_bare_row(line: Driven, refused: Refused) -> None:
    """Both answers to the row refuse it; the bare row is stored."""
    refused_after_two_sends(line, refused)
    bare = store(line)
    line.hear(1)
    line.tell(refused, line.stored())
    assert bare.result(PATIENCE_S).key == ROW.key


@pytest.mark.parametrize("refused", [NAMELESS, NAMED])
def test_a_bare_row_may_be_refused_too(line: Driven, refused: Refused) -> None:
    """By the answer after those to the row before it."""
    refused_after_two_sends(line, refused)
    bare = store(line)
    line.hear(1)
    line.tell(refused, refused)
    with pytest.raises(RowRefused):
        bare.result(PATIENCE_S)


@pytest.mark.parametrize("full", [True, False])
def test_a_row_that_was_answered_otherwise_is_not_refused_later(line: Driven, full: bool) -> None:
    """The disk was full, or a blob was missing: the bare row's first refusal is its own."""
    row = store(line)
    line.hear(1)
    if full:
        line.tell(Refused(about="PutRow", of=ROW.rollout_id, reason="the disk is full", again=True))
        give_up = SYSTEM_CLOCK.monotonic() + PATIENCE_S
        while line.line._not_before == 0.0:
            assert SYSTEM_CLOCK.monotonic() < give_up, "the line did not hear that the disk is full"
            wait([line.server], 0.05)
        line.later(REFUSED_PAUSE_S)
    else:
        line.tell(BlobsNeeded(key=ROW.key, hashes=[]))
    line.hear(1)
    line.tell(NAMED)
    with pytest.raises(RowRefused):
        row.result(PATIENCE_S)
    bare = store(line)
    line.hear(1)
    line.tell(NAMED)
    with pytest.raises(RowRefused):
        bare.result(PATIENCE_S)
