"""Is a server that is down waited for, probed with patience, and given up in the end?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from proxy_on_paper import call_id, harness

from legato_rl.broker.proxy.outage import FIRST_PAUSE_S, FULL_GAP_S, FULL_LEAST_S, LONGEST_PAUSE_S, LOOK_S, Outage
from legato_rl.policy.verdicts import Action, Verdict


def test_the_pause_between_probes_grows_to_its_bound() -> None:
    """A server that stays down is probed with pauses that double up to a few seconds."""
    server = Outage(server_wait=600)
    server.lost("refused", 0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        before = now
        while not server.probe_due(now, in_the_air=False):
            now += FIRST_PAUSE_S
        pauses.append(now - before)
        server.probed(False, "refused", now)
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_probe_is_due_once_until_its_result() -> None:
    """A slow health check is not asked a second time beside itself."""
    server = Outage(server_wait=600)
    server.lost("refused", 0.0)
    assert server.probe_due(1.0, in_the_air=False)
    assert not server.probe_due(9.0, in_the_air=False)


def test_silence_with_calls_in_the_air_asks_for_a_look() -> None:
    """A server may die with its connections open; nobody is there to look at when nothing is in the air."""
    server = Outage(server_wait=600)
    server.departure(100.0)
    assert not server.probe_due(100.0 + LOOK_S - 0.1, in_the_air=True)
    assert not server.probe_due(100.0 + LOOK_S, in_the_air=False)
    assert server.probe_due(100.0 + LOOK_S, in_the_air=True)
    server.probed(False, "no answer", 106.0)
    assert server.standing == "down"


def test_a_completion_puts_the_next_look_off() -> None:
    """Answers are signs of life: a busy server is left alone."""
    server = Outage(server_wait=600)
    server.departure(0.0)
    server.completion(4.0)
    assert not server.probe_due(LOOK_S, in_the_air=True)


def test_it_gives_up_after_its_time_and_not_before() -> None:
    """`server_wait` seconds of down time, and only while it is down."""
    server = Outage(server_wait=10)
    server.lost("refused", 5.0)
    assert not server.gave_up(14.9)
    assert server.gave_up(15.0)


def test_a_server_that_is_healthy_but_answers_nothing_is_given_up_too() -> None:
    """Down times add up until a completion: passing the health check alone is no recovery."""
    server = Outage(server_wait=1.0)
    now = 0.0
    for _ in range(20):
        server.lost("cut", now)
        while not server.probe_due(now, in_the_air=False):
            now += 0.05
        if server.gave_up(now):
            break
        server.probed(True, "", now)
        assert server.standing == "up"
    assert server.gave_up(now)


def test_a_completion_of_a_server_that_is_up_forgets_the_outage() -> None:
    """After a real recovery the wait starts anew."""
    server = Outage(server_wait=10)
    server.lost("refused", 0.0)
    assert server.probe_due(8.0, in_the_air=False)
    server.probed(True, "", 8.0)
    assert server.down_s(9.0) == 8.0
    server.completion(9.0)
    assert server.down_s(9.0) == 0.0
    assert server.message == ""


def test_paused_is_told_before_down() -> None:
    """A trainer that pauses to start the server anew waits for `paused`; what the server does meanwhile is its own affair."""
    server = Outage(server_wait=10)
    server.lost("refused", 0.0)
    server.pause(True, 1.0)
    assert server.standing == "paused"
    server.pause(False, 2.0)
    assert server.standing == "down"


def test_a_pause_counts_towards_no_giving_up() -> None:
    """An hour of pause with the server away leaves it the time that it had, before and after."""
    server = Outage(server_wait=10)
    server.lost("refused", 0.0)
    server.pause(True, 4.0)
    server.pause(True, 5.0)
    assert not server.gave_up(3600.0)
    assert server.down_s(3600.0) == 4.0
    server.pause(False, 3600.0)
    assert not server.gave_up(3605.9)
    assert server.gave_up(3606.0)


def test_a_server_that_goes_and_comes_during_a_pause_loses_no_time() -> None:
    """It was stopped for new weights and is back: nothing was lost by that."""
    server = Outage(server_wait=10)
    server.pause(True, 0.0)
    server.lost("refused", 1.0)
    assert server.probe_due(60.0, in_the_air=False)
    server.probed(True, "", 60.0)
    server.pause(False, 61.0)
    assert (server.standing, server.down_s(62.0)) == ("up", 0.0)


def test_a_full_server_is_not_blamed_for_a_pause() -> None:
    """It put calls off before and after: the time between was nobody's."""
    server = Outage(server_wait=10)
    server.put_off("queue full", 0.0)
    server.pause(True, 1.0)
    server.pause(False, 80.0)
    server.put_off("queue full", 81.0)
    assert not server.gave_up(81.0)


def test_a_straggler_of_a_server_that_is_down_proves_nothing() -> None:
    """An answer that was on its way when the server went does not restart the wait."""
    server = Outage(server_wait=10)
    server.lost("refused", 0.0)
    assert server.probe_due(8.0, in_the_air=True)
    server.probed(True, "", 8.0)
    server.lost("refused", 8.0)
    server.completion(8.5)
    assert server.gave_up(10.0)


def test_a_server_that_lost_its_set_up_is_waited_for_and_given_up() -> None:
    """A key that every call would be refused for fails no attempt; healthy or not, it is not waited for for ever."""
    h = harness(max_inflight=1, retries=0, server_wait=20.0)
    while not h.core.server.gave_up(h.now):
        h.ask(call_id("a"))
        if h.air:
            call = h.air.pop(h.token("a"))
            refusal = Verdict(Action.FAIL, "key_refused", "the server refuses the key")
            h.take(h.core.ended(max(h.core.admission.slots), refusal, h.now))
            assert call == call_id("a")
        assert h.now < 60
        h.wait(0.25)
        if not h.core.server.gave_up(h.now):
            h.probed(True)
    assert h.told == {}
    assert "refuses the key" in h.core.server.message
    assert len(h.starts) < 12


def test_a_server_that_is_full_for_too_long_is_given_up() -> None:
    """It passes every health check and answers nobody: `server_wait` counts from the first call that it put off."""
    server = Outage(server_wait=100)
    assert not server.gave_up(100.0)
    for now in (100.0, 150.0, 199.0):
        server.put_off("queue full", now)
        server.probed(True, "", now)
        assert not server.gave_up(now)
    assert not server.gave_up(200.0)
    server.put_off("queue full", 200.0)
    assert server.gave_up(200.0)
    assert server.standing == "up"


def test_one_answer_shows_that_a_full_server_works() -> None:
    """A busy server puts calls off now and then; each completion starts the wait anew."""
    server = Outage(server_wait=10)
    for now in (0.0, 9.0, 18.0, 27.0):
        server.put_off("queue full", now)
        assert not server.gave_up(now + 8.0)
        server.completion(now + 8.5)
    assert not server.gave_up(100.0)


def test_a_full_server_says_so_until_it_answers() -> None:
    """And what is wrong with a server that is down is the worse news."""
    server = Outage(server_wait=10)
    server.put_off("queue full", 0.0)
    assert server.message == "queue full"
    server.lost("refused", 1.0)
    server.put_off("queue full", 2.0)
    assert server.message == "refused"


def test_a_server_that_nobody_asks_is_not_full() -> None:
    """The call that was put off was cancelled, and nothing was asked since: an hour later nothing is known against it."""
    h = harness(max_inflight=1, server_wait=600.0)
    h.ask(call_id("a"))
    h.end(h.token("a"), Action.BACK_OFF)
    h.take(h.core.cancel(call_id("a"), h.now))
    h.wait(3600.0)
    assert not h.core.server.gave_up(h.now)


def test_a_full_server_is_not_blamed_for_the_time_in_which_nobody_asked() -> None:
    """It put a call off an hour ago and another one now: in between nothing is known against it."""
    server = Outage(server_wait=600)
    server.put_off("queue full", 0.0)
    server.put_off("queue full", 3600.0)
    assert not server.gave_up(3600.0)


@given(st.lists(st.integers(0, int(FULL_GAP_S)), min_size=1, max_size=60), st.integers(0, 10 * int(FULL_GAP_S)))
def test_a_full_server_that_nobody_calls_any_more_gets_another_chance(gaps: list[int], idle: int) -> None:
    """Its runs were stopped, so nothing is put off and nothing answered: it is not held against the next run for ever."""
    server, now = Outage(server_wait=10), 0.0
    for gap in gaps:
        now += gap
        server.put_off("queue full", now)
    given_up = server.gave_up(now)
    assert given_up == (now - gaps[0] >= FULL_LEAST_S)
    assert server.gave_up(now + idle) == (given_up and idle <= FULL_GAP_S)
    server.put_off("queue full", now + FULL_GAP_S + 1.0)
    assert not server.gave_up(now + FULL_GAP_S + 1.0)


def test_a_full_queue_is_no_outage() -> None:
    """However short an outage a run may wait for: a busy server gets a minute to answer somebody."""
    server = Outage(server_wait=0.0)
    server.put_off("queue full", 0.0)
    server.put_off("queue full", FULL_LEAST_S - 0.1)
    assert not server.gave_up(FULL_LEAST_S)
    server.put_off("queue full", FULL_LEAST_S)
    assert server.gave_up(FULL_LEAST_S)


def test_a_call_that_is_put_off_for_ever_is_given_up_with_its_server() -> None:
    """The call itself never fails and spends no retry; its server is up all the time."""
    h = harness(max_inflight=1, retries=0, server_wait=0.0)
    while not h.core.server.gave_up(h.now):
        h.ask(call_id("a"))
        if h.air:
            h.end(h.token("a"), Action.BACK_OFF)
        h.wait(0.5)
        assert h.now < 2 * FULL_LEAST_S
    assert h.now >= FULL_LEAST_S
    assert h.core.server.standing == "up"
    assert h.told == {}
