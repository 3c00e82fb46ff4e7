"""Share sessions count requests, keep each member's partitions, and end with their connections.

Method: open, use and close sessions of made-up members.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares import share_sessions
from kafkawire.reference_broker.shares.share_sessions import ShareSessions, TopicIdPartition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.shares.share_partition_bench import new_limits

A, B, C = (TopicIdPartition(b"t" * 16, number) for number in range(3))


class SessionsBench:
    def __init__(self, sessions_max=2_000):
        self.left = []
        self.empty = []
        self.sessions = ShareSessions(
            new_limits(group_share_max_share_sessions=sessions_max),
            lambda session, now_ms: self.left.append(session.member_id),
            self.empty.append,
        )

    def open(self, member_id="m", *partitions, group_id="g", connection="connection"):
        return self.sessions.open(group_id, member_id, dict.fromkeys(partitions or (A,), "t"), connection)

    def use(self, epoch, *partitions, forgotten=(), member_id="m"):
        return self.sessions.use("g", member_id, epoch, dict.fromkeys(partitions, "t"), forgotten)


def code_of(call, *args, **named):
    with pytest.raises(BrokerError) as refused:
        call(*args, **named)
    return refused.value.code


def test_a_session_is_opened_and_used():
    bench = SessionsBench()
    session = bench.open("m", A, B)
    assert (dict(session), session.epoch) == ({A: "t", B: "t"}, 1)
    assert bench.use(1, C, forgotten=[A]) is session
    assert (list(dict(session)), session.epoch) == ([B, C], 2)
    assert bench.sessions.get("g", "m") is session


@pytest.mark.parametrize(
    ("epoch", "member_id", "code"),
    [
        (2, "m", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (-2, "m", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (1, "n", ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_wrong_requests(epoch, member_id, code):
    bench = SessionsBench()
    bench.open()
    assert code_of(bench.use, epoch, member_id=member_id) == code
    bench.use(1)


def test_the_epoch_begins_again():
    bench = SessionsBench()
    session = bench.open()
    session.epoch = 2**31 - 1
    bench.use(2**31 - 1)
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (1, None),
        (-1, None),
    ],
)
def test_acknowledgements_use_a_session(epoch, code):
    bench = SessionsBench()
    assert code_of(bench.sessions.acknowledging, "g", "m", 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert code_of(bench.sessions.acknowledging, "g", "m", -1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session = bench.open()
    if code is None:
        bench.sessions.acknowledging("g", "m", epoch)
    else:
        assert code_of(bench.sessions.acknowledging, "g", "m", epoch) == code
    assert session.epoch == (2 if epoch == 1 else 1)


def test_what_is_told():
    bench = SessionsBench()
    session = bench.open("m", A, B)
    tell = session.must_tell
    assert not tell(A, has_records=False, is_error=False)
    assert tell(A, has_records=True, is_error=False)
    assert list(dict(session)) == [B, A], "the others have their turn first"
    assert tell(B, has_records=False, is_error=True)
    assert tell(B, has_records=False, is_error=False), "the error is gone"
    assert not tell(B, has_records=False, is_error=False)
    bench.use(1, C)
    assert tell(C, has_records=False, is_error=False), "it is new"
    bench.use(2, forgotten=[C])
    assert not tell(C, has_records=False, is_error=False)


def test_sessions_are_limited(monkeypatch):
    bench = SessionsBench(1)
    bench.open("m")
    assert code_of(bench.open, "n") == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    bench.open("m")
    monkeypatch.setattr(share_sessions, "PARTITIONS_MAX", 2)
    bench.use(1, B)
    assert code_of(bench.use, 2, C) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    bench.use(2, forgotten=[A])
    bench.use(3, C)
    bench.sessions.remove("g", "m")
    assert (bench.sessions.remove("g", "m"), len(bench.sessions)) == (None, 0)
    bench.open("n", A, B)


def test_a_session_ends_with_its_connection():
    bench = SessionsBench()
    bench.open("m", connection="first")
    bench.open("n", connection="second")
    assert (bench.sessions.has("first"), bench.sessions.has("third")) == (True, False)
    bench.sessions.closed("third", 0)
    bench.sessions.closed("first", 0)
    assert (bench.left, bench.empty, len(bench.sessions)) == (["m"], [], 1)
    bench.sessions.closed("second", 0)
    bench.sessions.closed("second", 0)
    assert (bench.left, bench.empty) == (["m", "n"], ["g"])


def test_a_member_may_move_to_another_connection():
    bench = SessionsBench()
    bench.open("m", connection="first")
    bench.open("m", connection="second")
    bench.sessions.closed("first", 0)
    assert (bench.left, bench.empty, len(bench.sessions)) == ([], [], 1)


def test_a_group_whose_member_has_left_before_is_empty():
    bench = SessionsBench()
    bench.open()
    bench.sessions.remove("g", "m")
    bench.sessions.closed("connection", 0)
    assert (bench.left, bench.empty) == ([], ["g"])
