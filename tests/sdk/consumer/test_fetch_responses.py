"""What a response says of a partition concerns that partition: leaders, followers, errors, damage.

Method: the I/O side of a consumer against simulated brokers with logs, on a clock of its own.
"""

from __future__ import annotations

import logging

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, NoOffset, RemoteProtocolError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.consumer.simulated_logs import reading
from tests.sdk.consumer.user_side import T0, T1


def test_the_new_leader_is_taken_from_the_response() -> None:
    cluster = reading(T0)
    cluster.run(100)
    asked = cluster.metadata_asked
    cluster.logs[T0].leader, cluster.logs[T0].epoch = 2, 2
    cluster.logs[T0].append(b"a")
    assert cluster.read(50) == [(0, 0)]
    assert cluster.metadata_asked == asked


def test_a_follower_nearby() -> None:
    cluster = reading(T0, client_rack="a")
    cluster.logs[T0].replica = 3
    cluster.logs[T0].append(b"a")
    assert cluster.read(100) == [(0, 0)]
    assert len(cluster.fetches(1)) <= 2
    assert {request.rack_id for request in cluster.fetches()} == {"a"}
    cluster.logs[T0].replica = -1  # it is no longer in sync: the leader says what comes next
    cluster.logs[T0].append(b"b")
    assert cluster.read() == [(0, 1)]


def test_a_follower_that_dies() -> None:
    cluster = reading(T0)
    cluster.logs[T0].replica = 3
    cluster.run(100)
    cluster.simulation.down.add(3)
    cluster.logs[T0].replica = -1
    cluster.simulation.break_connections(3)
    cluster.logs[T0].append(b"a")
    assert cluster.read() == [(0, 0)]


def test_an_offset_out_of_range(caplog: pytest.LogCaptureFixture) -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a")
    cluster.assignment.seek(T0, Position(70))
    assert cluster.read() == [(0, 0)]
    assert "t-0: offset 70 is out of range: reset to earliest" in caplog.messages


def test_an_offset_out_of_range_without_a_policy() -> None:
    cluster = reading(T0, auto_offset_reset="none")
    cluster.assignment.seek(T0, Position(70))
    with pytest.raises(NoOffset, match="t-0: offset 70 is out of range, and auto_offset_reset is none"):
        cluster.read()
    assert cluster.read() == []
    cluster.logs[T0].append(b"a")
    cluster.assignment.seek(T0, Position(0))
    assert cluster.read() == [(0, 0)]


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE])
def test_a_lasting_error_is_raised_once(code: ErrorCode) -> None:
    cluster = reading(T0, T1)
    cluster.logs[T0].error = code
    with pytest.raises(BrokerError, match=f"{code.name}: fetch from t-0 at offset 0"):
        cluster.read()
    cluster.logs[T1].append(b"a")
    assert cluster.read() == [(1, 0)]
    cluster.logs[T0].error = ErrorCode.NONE
    cluster.logs[T0].append(b"a")
    cluster.assignment.resume([T0])
    assert cluster.read() == [(0, 0)]


def test_a_response_without_a_whole_batch() -> None:
    cluster = reading(T0)
    cluster.logs[T0].append(b"a" * 100)
    cluster.logs[T0].cut = 80
    with pytest.raises(RemoteProtocolError, match="fetch from t-0 at offset 0: batch at byte 0: partial"):
        cluster.read()
    assert cluster.read() == []


def test_errors_of_a_partition_are_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cluster = reading(T0)
    cluster.logs[T0].error = ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.run(60_000)
    assert 3 <= len([message for message in caplog.messages if "OFFSET_NOT_AVAILABLE" in message]) <= 8
