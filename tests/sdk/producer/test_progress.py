"""`flush` and `drain` return when what they wait for has happened, wherever the records went meanwhile."""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.progress import Progress
from kafkawire.sdk.transport.promise import Promise


def outcome() -> Outcome:
    return Outcome(TopicPartition("t", 0))


def test_flush_waits_for_all_and_for_where_they_went() -> None:
    progress = Progress()
    first, second, third = outcome(), outcome(), outcome()
    promise: Promise[None] = Promise()
    progress.await_all(promise, [first, second])
    progress.ended(first)
    progress.moved(second, [third])
    progress.ended(second)
    assert not promise.done
    progress.ended(third)
    assert promise.done


def test_flush_of_nothing_returns_at_once() -> None:
    promise: Promise[None] = Promise()
    Progress().await_all(promise, [])
    assert promise.done


def test_drain_waits_for_room() -> None:
    progress = Progress()
    small: Promise[None] = Promise()
    large: Promise[None] = Promise()
    progress.await_room(small, 10)
    progress.await_room(large, 100)
    progress.room(50)
    assert (small.done, large.done) == (False, True)
    progress.room(10)
    assert small.done


def test_the_end_fails_all() -> None:
    progress = Progress()
    promises: list[Promise[None]] = [Promise(), Promise()]
    progress.await_all(promises[0], [outcome()])
    progress.await_room(promises[1], 1)
    progress.fail(Closed("over"))
    for promise in promises:
        with pytest.raises(Closed):
            promise.wait(0)
