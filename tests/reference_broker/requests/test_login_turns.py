"""Logins take turns with other requests, in the order in which they came, and none is forgotten.

Method: use a list in place of the event loop, and time that each piece of work advances.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.requests.login_turns import LOGIN_TURN_MS, LoginTurns


class Bench:
    """Turns, an event loop, and work that takes a millisecond."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.turns = LoginTurns(lambda: self.now_ms)
        self.deferred: list[Callable[[], None]] = []
        self.done: list[str] = []

    def work(self, name: str) -> None:
        self.now_ms += 1
        self.done.append(name)

    def arrive(self, *names: str) -> None:
        for name in names:
            if self.turns.has_time(lambda name=name: self.work(name), self.deferred.append):
                self.work(name)

    def run_a_turn(self) -> None:
        calls, self.deferred[:] = self.deferred[:], []
        for call in calls:
            call()


def test_turns() -> None:
    bench = Bench()
    bench.arrive("a", "b", "c", "d", "e")
    assert bench.done == ["a", "b"]
    assert len(bench.turns) == 3
    bench.run_a_turn()
    assert bench.done == ["a", "b", "c", "d"]
    bench.arrive("f")
    assert bench.done[-1] == "d", "whoever came earlier is first"
    bench.run_a_turn()
    assert bench.done == ["a", "b", "c", "d", "e", "f"]
    assert len(bench.turns) == 0
    assert not bench.deferred


def test_each_turn_has_its_own_time() -> None:
    bench = Bench()
    for name in "abcdef":
        bench.arrive(name)
        assert bench.done[-1] == name
        bench.run_a_turn()
    assert not bench.deferred


def test_long_work_is_alone_in_its_turn() -> None:
    bench = Bench()
    bench.arrive("a")
    bench.now_ms += LOGIN_TURN_MS
    bench.arrive("b", "c")
    assert bench.done == ["a"]
    bench.run_a_turn()
    assert bench.done == ["a", "b", "c"]


def test_what_follows_from_waiting_work_has_time() -> None:
    """A connection whose turn has come may handle several messages."""
    bench = Bench()
    bench.arrive("a", "b")

    def several() -> None:
        bench.arrive("c", "d", "e")

    assert not bench.turns.has_time(several, bench.deferred.append)
    bench.run_a_turn()
    assert bench.done == ["a", "b", "c", "d", "e"]


def test_work_that_fails_does_not_hold_up_the_rest() -> None:
    bench = Bench()
    bench.arrive("a", "b")

    def fail() -> None:
        raise RuntimeError("defect")

    assert not bench.turns.has_time(fail, bench.deferred.append)
    bench.arrive("c")
    with pytest.raises(RuntimeError):
        bench.run_a_turn()
    bench.run_a_turn()
    assert bench.done == ["a", "b", "c"]
