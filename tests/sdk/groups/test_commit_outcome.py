"""The outcome of a commit is the worst outcome among its partitions."""

from __future__ import annotations

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.groups.commit_outcome import Committed, CommitWaiter, Fenced, Rebalanced
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_worst_outcome_counts() -> None:
    waiter = CommitWaiter([T0, T1], lambda outcome, now_ms: None)
    assert waiter.left == {T0, T1}
    waiter.offsets[T0] = OffsetAndMetadata(3)
    assert waiter.outcome() == Committed({T0: OffsetAndMetadata(3)})
    waiter.rebalanced.add(T1)
    assert waiter.outcome() == Rebalanced({T0: OffsetAndMetadata(3)}, frozenset({T1}))
    waiter.cause = BrokerError(ErrorCode.ILLEGAL_GENERATION)
    assert waiter.outcome() == Fenced({T0: OffsetAndMetadata(3)}, frozenset({T1}), waiter.cause)
    waiter.error = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert waiter.outcome() is waiter.error
