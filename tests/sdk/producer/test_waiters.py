"""`flush` and `drain` return once what they wait for has happened, wherever the records have moved in the meantime."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import Closed
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.waiters import Waiters
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.promise import Promise


def outcome() -> Outcome:
    return Outcome(TopicPartition("t", 0))


def test_flush_waits_for_all_and_for_where_they_went() -> None:
    waiters = Waiters()
    first, second, third = outcome(), outcome(), outcome()
    promise: Promise[None] = Promise()
    waiters.await_all(promise, [first, second])
    waiters.ended(first)
    waiters.moved(second, [third])
    waiters.ended(second)
    assert not promise.done
    waiters.ended(third)
    assert promise.done


def test_flush_of_nothing_returns_at_once() -> None:
    promise: Promise[None] = Promise()
    Waiters().await_all(promise, [])
    assert promise.done


def test_drain_waits_for_room() -> None:
    waiters = Waiters()
    small: Promise[None] = Promise()
    large: Promise[None] = Promise()
    waiters.await_room(small, 10)
    waiters.await_room(large, 100)
    waiters.room(50)
    assert (small.done, large.done) == (False, True)
    waiters.room(10)
    assert small.done


def test_the_end_fails_all() -> None:
    waiters = Waiters()
    promises: list[Promise[None]] = [Promise(), Promise()]
    waiters.await_all(promises[0], [outcome()])
    waiters.await_room(promises[1], 1)
    waiters.fail(Closed("over"))
    for promise in promises:
        with pytest.raises(Closed):
            promise.wait(0)
