"""A commit ends when all its acknowledgements have, or at its deadline.

Method: call a commit as the planner does.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome
from kafkawire.sdk.consumer.sharing.commits import Commit
from kafkawire.sdk.errors import Closed, RequestTimedOut
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.promise import Promise


def outcome(number: int, *offsets: int) -> AcknowledgeOutcome:
    return AcknowledgeOutcome(TopicPartition("t", number), b"i" * 16, offsets, None)


def test_outcomes_are_in_order() -> None:
    promise: Promise[Any] = Promise()
    commit = Commit(promise, 100, 1_100)
    commit.left = 3
    commit.report(outcome(1, 5))
    commit.acknowledged(1)
    commit.poll(1_099)
    assert not commit.is_over
    commit.report(outcome(0, 9))
    commit.report(outcome(0, 2))
    commit.acknowledged(2)
    commit.poll(1_200)
    assert promise.wait() == [outcome(0, 2), outcome(0, 9), outcome(1, 5)], "even if it is late"


def test_a_deadline() -> None:
    promise: Promise[Any] = Promise()
    commit = Commit(promise, 100, 1_100)
    commit.left = 1
    commit.poll(1_100)
    with pytest.raises(RequestTimedOut, match="commit: brokers did not handle all acknowledgements within 100 ms"):
        promise.wait()


def test_the_end_of_the_client() -> None:
    promise: Promise[Any] = Promise()
    commit = Commit(promise, 100, 1_100)
    commit.fail(Closed("closed"))
    with pytest.raises(Closed):
        promise.wait()
    assert commit.is_over
