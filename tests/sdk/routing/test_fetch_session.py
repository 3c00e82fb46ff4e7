"""A fetch session sends only changes, each time with the next epoch; after any fault, it starts over.

Method: give the wanted partitions and the broker's answers to a session alone.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.fetch_session import FetchSession
from kafkawire.sdk.routing.partitions import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ID, OTHER_ID = b"T" * 16, b"O" * 16


class Partition:
    """A fetched partition."""

    def __init__(self, partition: TopicPartition, topic_id: bytes = ID) -> None:
        self.partition = partition
        self.topic_id = topic_id

    def to_fetch(self) -> FetchRequest.FetchPartition:
        return FetchRequest.FetchPartition(self.partition.partition)


def planned(session: FetchSession, *wanted: Partition) -> tuple[int, int, list[int], list[int]]:
    """Return the session id, the epoch, and the partitions that a request names and forgets."""
    plan = session.plan({each.partition: each for each in wanted})
    named = [each.partition for topic in plan.topics for each in topic.partitions]
    return plan.session_id, plan.epoch, named, [each for topic in plan.forgotten for each in topic.partitions]


def begun(*wanted: Partition) -> FetchSession:
    """Return session 9 with these partitions."""
    session = FetchSession()
    for each in wanted:
        session.change(each.partition)
    planned(session, *wanted)
    assert session.accept(ErrorCode.NONE, 9)
    return session


def test_full_then_changes() -> None:
    first, second, third = Partition(T0), Partition(T1), Partition(T2)
    session = FetchSession()
    assert planned(session, first, second) == (0, 0, [0, 1], [])
    assert session.accept(ErrorCode.NONE, 9)
    assert planned(session, first, second) == (9, 1, [], [])
    session.accept(ErrorCode.NONE, 9)
    session.change(T1)
    session.change(T2)
    assert planned(session, first, second, third) == (9, 2, [1, 2], [])
    session.accept(ErrorCode.NONE, 9)
    session.change(T0)
    assert planned(session, second, third) == (9, 3, [], [0])
    assert session.names == {ID: "t"}


def test_a_partition_that_came_and_went_between_two_requests() -> None:
    session = begun(Partition(T0))
    session.change(T1)
    assert planned(session, Partition(T0)) == (9, 1, [], [])


@pytest.mark.parametrize(
    ("code", "session_id"), [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)]
)
def test_a_session_that_the_broker_does_not_know(code: ErrorCode, session_id: int) -> None:
    session = begun(Partition(T0))
    planned(session, Partition(T0))
    assert not session.accept(code, 0)
    assert planned(session, Partition(T0)) == (session_id, 0, [0], [])


def test_a_broker_that_keeps_no_sessions() -> None:
    session = FetchSession()
    planned(session, Partition(T0))
    assert session.accept(ErrorCode.NONE, 0)
    assert planned(session, Partition(T0)) == (0, 0, [0], [])


def test_no_response() -> None:
    session = begun(Partition(T0))
    session.restart(keeps_id=True)
    assert planned(session, Partition(T0)) == (9, 0, [0], [])


def test_another_topic_of_the_same_name() -> None:
    session = begun(Partition(T0), Partition(T1))
    session.change(T0)
    assert planned(session, Partition(T0, OTHER_ID), Partition(T1)) == (9, 0, [0, 1], [])


def test_a_topic_without_an_id_begins_a_session_of_names() -> None:
    session = begun(Partition(T0))
    assert session.by_id
    session.change(T1)
    assert planned(session, Partition(T0), Partition(T1, ZERO_UUID)) == (9, 0, [0, 1], [])
    assert not session.by_id


def test_epochs_wrap() -> None:
    session = begun(Partition(T0))
    session._epoch = 2**31 - 1
    planned(session, Partition(T0))
    session.accept(ErrorCode.NONE, 9)
    assert planned(session, Partition(T0)) == (9, 1, [], [])
