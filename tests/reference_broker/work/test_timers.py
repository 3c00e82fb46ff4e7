"""Timers fire in order, once, and not if they were cancelled; the next deadline is always known.

Method: set the time, and fire the timers.
"""

import asyncio

import pytest

from kafkawire.reference_broker.work import timers as module
from kafkawire.reference_broker.work.timers import Timers


def test_fire_in_order_of_deadlines_then_of_setting():
    timers, fired = Timers(), []
    for name, deadline_ms in (("late", 30), ("early", 10), ("early too", 10), ("never", 31)):
        timers.at(deadline_ms, lambda now_ms, name=name: fired.append((name, now_ms)))
    timers.fire(30)
    assert fired == [("early", 30), ("early too", 30), ("late", 30)]
    assert timers.next_deadline_ms == 31
    assert timers.count == 1


def test_cancelled_timers_do_not_count():
    timers, fired = Timers(), []
    first = timers.at(10, fired.append)
    timers.at(20, fired.append)
    first.cancel()
    assert timers.next_deadline_ms == 20
    timers.fire(10)
    assert not fired
    timers.fire(20)
    assert fired == [20]
    assert timers.next_deadline_ms is None


def test_cancelled_timers_are_forgotten_now_and_then(monkeypatch):
    """The other timers stay in order, and adding a timer does not search them, however many are pending."""
    monkeypatch.setattr(module, "_SIZE_MIN", 8)
    forget, looked_through, fired = Timers._forget_cancelled, [], []
    monkeypatch.setattr(Timers, "_forget_cancelled", lambda timers: looked_through.append(None) or forget(timers))
    timers = Timers()
    deadlines_ms = [number * 37 % 101 for number in range(100)]
    for number, deadline_ms in enumerate(deadlines_ms):
        for name, is_cancelled in (("", False), ("cancelled", True)):
            timer = timers.at(deadline_ms, lambda now_ms, it=(deadline_ms, number, name): fired.append(it))
            if is_cancelled:
                timer.cancel()
    assert 2 <= len(looked_through) <= 8
    timers.fire(101)
    assert fired == sorted((deadline_ms, number, "") for number, deadline_ms in enumerate(deadlines_ms))


def test_timer_set_while_firing_waits_for_the_next_call():
    timers, fired = Timers(), []

    def again(now_ms: int) -> None:
        fired.append(now_ms)
        timers.at(now_ms, again)

    timers.at(10, again)
    timers.fire(10)
    assert fired == [10]
    assert timers.next_deadline_ms == 10
    timers.fire(11)
    assert fired == [10, 11]


def test_timer_cancelled_by_one_that_fires_with_it():
    timers, fired = Timers(), []
    timers.at(10, lambda now_ms: later.cancel())
    later = timers.at(10, fired.append)
    timers.fire(10)
    assert not fired


@pytest.mark.defect
@pytest.mark.parametrize("kind", [OSError, SystemExit, asyncio.CancelledError])
def test_failing_timer_takes_no_other_with_it(caplog, kind):
    timers, fired = Timers(), []

    def fail(now_ms: int) -> None:
        raise kind("the disk is full")

    for action in (fail, fired.append, fail, fired.append):
        timers.at(10, action)
    timers.at(20, fired.append)
    timers.fire(10)
    assert fired == [10, 10]
    assert timers.next_deadline_ms == 20
    assert "the disk is full" in caplog.text
    assert len(caplog.records) == 1, "a disk that stays full does not also fill the log"


def test_jump_of_the_clock_leaves_the_time_to_wait():
    timers, fired = Timers(), []
    first = timers.at(10, fired.append)
    timers.at(20, fired.append)
    timers.shift(1_000)
    assert timers.next_deadline_ms == first.deadline_ms == 1_010
    timers.fire(1_010)
    assert fired == [1_010]


@pytest.mark.parametrize("jump_ms", [1_000, -1_000])
def test_work_that_ends_after_a_jump_of_the_clock_sets_deadlines_as_if_it_had_ended_before(jump_ms):
    timers, fired = Timers(), []
    timers.shift(5)
    kept = []

    def end(deadline_ms):
        timers.at(deadline_ms, fired.append)
        kept.append(deadline_ms - timers.jumped_ms)

    end(10)
    later = timers.as_of_now(end)
    as_of_later = timers.as_of_now(timers.as_of_now(end))
    timers.shift(jump_ms)
    later(10)
    as_of_later(10)
    end(jump_ms + 10)
    assert kept == [5] * 4
    timers.fire(jump_ms + 9)
    assert fired == []
    timers.fire(jump_ms + 10)
    assert fired == [jump_ms + 10] * 4


def test_failure_ends_what_is_done_as_of_earlier():
    timers = Timers()
    with pytest.raises(ZeroDivisionError):
        timers.as_of(7, lambda: 1 / 0)
    assert timers.jumped_ms == 0


def test_long_work_takes_turns():
    timers, done = Timers(), []

    def work(name, steps, now_ms):
        done.append(name)
        if steps > 1:
            timers.in_turn(now_ms, lambda now_ms: work(name, steps - 1, now_ms))

    for name, steps in (("a", 3), ("b", 1), ("c", 2)):
        timers.in_turn(0, lambda now_ms, name=name, steps=steps: work(name, steps, now_ms))
    timers.in_turn(0, lambda now_ms: done.append("cancelled")).cancel()
    counts = []
    while timers.next_deadline_ms is not None:
        counts.append(len(done))
        timers.fire(0)
    assert (done, counts) == (["a", "a", "b", "c", "a", "c"], [1, 2, 3, 4, 5, 6])
    timers.in_turn(0, lambda now_ms: done.append("d"))
    assert done[-1] == "d", "this turn was still free"


@pytest.mark.defect
def test_work_that_fails_has_had_its_turn():
    def fail(now_ms: int) -> None:
        raise ZeroDivisionError

    timers, done = Timers(), []
    with pytest.raises(ZeroDivisionError):
        timers.in_turn(0, fail)
    timers.in_turn(0, fail)
    timers.in_turn(0, done.append)
    for _ in range(3):
        timers.fire(0)
    assert done == [0]


def test_earlier_deadline_is_announced():
    timers, announced = Timers(), []
    timers.on_earlier = announced.append
    for deadline_ms in (20, 30, 10, 10):
        timers.at(deadline_ms, lambda now_ms: None)
    assert announced == [20, 10]


def test_cancelled_timers_do_not_pile_up():
    timers = Timers()
    kept = timers.at(5, lambda now_ms: None)
    for _ in range(10_000):
        timers.at(10**12, lambda now_ms: None).cancel()
    assert len(timers._heap) <= 1_000
    assert timers.next_deadline_ms == kept.deadline_ms == 5


def test_an_action_that_must_not_run_now_runs_soon():
    timers, called = Timers(), []
    timers.soon(called.append)
    assert (called, timers.next_deadline_ms) == ([], 0)
    timers.fire(1_000)
    assert called == [1_000]
