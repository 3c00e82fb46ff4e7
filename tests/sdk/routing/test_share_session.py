"""A share session sends only changes, each time with the next epoch, until it is lost or closed.

Method: give the wanted partitions and the broker's answers to a session alone.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.routing.share_session import SHARE_SESSION_EDGES, ShareSession, ShareSessionState
from tests.edges import taken

ID = b"T" * 16
T0, T1, T2 = (TopicIdPartition(ID, "t", number) for number in range(3))
LOST = [
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
]


def opened(*wanted: TopicIdPartition) -> ShareSession:
    """Return an open session with these partitions."""
    session = ShareSession()
    assert session.plan(wanted) == (0, list(wanted), [])
    assert session.accept(ErrorCode.NONE)
    return session


def test_full_then_changes() -> None:
    session = opened(T0, T1)
    assert session.plan([T0, T1]) == (1, [], [])
    session.accept(ErrorCode.NONE)
    assert session.plan([T2, T1]) == (2, [T2], [T0])
    session.accept(ErrorCode.NONE)
    assert list(session.members) == [T1, T2]
    assert session.plan([T1, T2]) == (3, [], [])


def test_a_topic_that_was_recreated_is_another_partition() -> None:
    session = opened(T0)
    other = T0._replace(topic_id=b"O" * 16)
    assert session.plan([other]) == (1, [other], [T0])


def test_an_error_of_a_session_that_goes_on_counts() -> None:
    session = opened(T0)
    assert session.accept(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert session.plan([T0]) == (2, [], [])


def test_an_error_instead_of_a_session() -> None:
    session = ShareSession()
    session.plan([T0])
    assert not session.accept(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert session.plan([T0]) == (0, [T0], [])


@pytest.mark.parametrize("code", LOST)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_lost_session(code: ErrorCode, is_open: bool) -> None:
    session = opened(T0) if is_open else ShareSession()
    session.plan([T0])
    assert not session.accept(code)
    assert session.state is ShareSessionState.NEW
    assert session.plan([T0, T1]) == (0, [T0, T1], [])


def test_the_highest_epoch_is_followed_by_the_first_of_an_open_session() -> None:
    session = opened(T0)
    session.epoch = 2**31 - 1
    session.accept(ErrorCode.NONE)
    assert session.plan([T0]).epoch == 1


@pytest.mark.parametrize(("before", "after"), list(SHARE_SESSION_EDGES))
def test_every_edge(before: ShareSessionState, after: ShareSessionState) -> None:
    session = ShareSession() if before is ShareSessionState.NEW else opened(T0)
    assert session.state is before
    with taken(SHARE_SESSION_EDGES) as steps:
        match after:
            case ShareSessionState.NEW:
                session.lose()
            case ShareSessionState.OPEN:
                session.accept(ErrorCode.NONE)
            case ShareSessionState.CLOSED:
                assert session.close() == -1
                assert not session.members
    assert (before, after) in steps
