"""Long computations take turns, one slice at a time, until they are done or cancelled.

Method: run computations that record their slices, and fire the timers.
"""

from __future__ import annotations

import logging

import pytest

from kafkawire.reference_broker.work import computations
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.timers import Timers


class Bench:
    """Computations, keyed by name, with their slices in order."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.computations = Computations(self.timers)
        self.did: list[object] = []
        self.unwanted: set[str] = set()

    def work(self, name, count):
        for number in range(count):
            self.did.append((name, number))
            yield
        return name

    def add(self, name, count):
        done = lambda result, now_ms: self.did.append((result, "done", now_ms))  # noqa: E731  # short
        self.computations.add(self.work(name, count), lambda: name not in self.unwanted, done, 0)

    def fire(self, times=1):
        for _ in range(times):
            self.timers.fire(5)


@pytest.fixture
def bench():
    return Bench()


def test_one_slice_at_a_time_in_turn(bench):
    bench.add("a", 2)
    bench.add("b", 1)
    assert not bench.did, "the request itself does nothing"
    bench.fire()
    assert bench.did == [("a", 0)]
    bench.fire(4)
    assert bench.did == [("a", 0), ("b", 0), ("a", 1), ("b", "done", 5), ("a", "done", 5)]
    assert bench.timers.next_deadline_ms is None
    bench.add("c", 0)
    bench.fire()
    assert bench.did[-1] == ("c", "done", 5)


def test_what_nobody_wants_is_not_computed(bench):
    bench.add("a", 2)
    bench.fire()
    bench.unwanted.add("a")
    bench.fire()
    assert bench.did == [("a", 0)]
    assert bench.timers.next_deadline_ms is None


def test_only_some_take_turns(bench, monkeypatch):
    monkeypatch.setattr(computations, "_ACTIVE_MAX", 2)
    for name in "abc":
        bench.add(name, 2)
    bench.fire(6)
    assert [name for name, *_ in bench.did] == ["a", "b", "a", "b", "a", "b"]
    bench.fire(3)
    assert bench.did[-3:] == [("c", 0), ("c", 1), ("c", "done", 5)]


@pytest.mark.defect
def test_a_defect_of_one_does_not_hold_up_others(bench, caplog):
    def broken():
        yield
        raise ValueError("broken")

    bench.computations.add(broken(), lambda: True, lambda *_: None, 0)
    bench.add("a", 1)
    with caplog.at_level(logging.ERROR):
        bench.fire(4)
    assert bench.did == [("a", 0), ("a", "done", 5)]
    assert "broken" in caplog.text


def test_the_first_slice_may_be_done_at_once():
    bench = Bench()
    for name, count in (("short", 0), ("long", 1)):
        done = lambda result, now_ms: bench.did.append((result, now_ms))  # noqa: E731  # short
        bench.computations.begin(bench.work(name, count), lambda: True, done, 0)
    assert bench.did == [("short", 0), ("long", 0)]
    bench.fire()
    assert bench.did[2:] == [("long", 5)]
