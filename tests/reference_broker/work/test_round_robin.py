"""Connections with long requests get one turn each, one after another."""

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.work.round_robin import RoundRobin


def test_connections_take_turns():
    turns, deferred, done = RoundRobin(), [], []

    def work(name: str, left: int) -> Callable[[], None]:
        def step() -> None:
            done.append(name)
            if left > 1:
                turns.later(work(name, left - 1), deferred.append)

        return step

    for name in "abc":
        turns.later(work(name, 2), deferred.append)
    while deferred:
        (following,) = deferred
        deferred.clear()
        following()
    assert "".join(done) == "abcabc"


def test_connection_that_is_alone_has_its_turn():
    turns, deferred, done = RoundRobin(), [], []
    turns.later(lambda: done.append("a"), deferred.append)
    deferred.pop()()
    assert (done, deferred) == (["a"], [])


def test_turn_that_fails_takes_no_other_with_it():
    turns, deferred, done = RoundRobin(), [], []

    def fail() -> None:
        raise ValueError("odd")

    turns.later(fail, deferred.append)
    turns.later(lambda: done.append("b"), deferred.append)
    with pytest.raises(ValueError, match="odd"):
        deferred.pop()()
    deferred.pop()()
    assert done == ["b"]
    assert not deferred
