"""Some refusals end a membership, and some are reported to the application, one at a time.

Method: try one error of each kind, with an in-memory reader.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    ConfigurationError,
    ConnectionLost,
    KafkaWireError,
    UnsupportedVersion,
)
from kafkawire.sdk.groups.refusal import ReportedErrors, is_final, is_news, refusal_of, unresolved
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.retry import Attempts
from tests.sdk.groups.readers import MemoryReader
from tests.sdk.simulation import backoff


@pytest.mark.parametrize(
    ("error", "final", "news"),
    [
        (BrokerError(ErrorCode.FENCED_INSTANCE_ID), True, True),
        (BrokerError(ErrorCode.UNSUPPORTED_ASSIGNOR), True, True),
        (AuthenticationFailed("b:9092", "refused"), False, True),
        (ConfigurationError("ssl_keystore_location", "x", "no such file"), False, True),
        (UnsupportedVersion("JoinGroup"), True, True),
        (BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED), False, True),
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), False, True),
        (BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED), False, True),
        (BrokerError(31_999), False, True),
        (BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), False, False),
        (BrokerError(ErrorCode.REBALANCE_IN_PROGRESS), False, False),
        (BrokerError(ErrorCode.UNKNOWN_MEMBER_ID), False, False),
        (ConnectionLost("lost"), False, False),
        (Closed("closed"), False, False),
    ],
    ids=str,
)
def test_what_an_error_means(error: KafkaWireError, final: bool, news: bool) -> None:
    assert (is_final(error), is_news(error)) == (final, news)


def test_one_report_waits_at_a_time() -> None:
    reader = MemoryReader()
    reports = ReportedErrors(reader)
    first, second = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR), BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    reports.add(ConnectionLost("lost"))
    assert (reader.errors, reports.waits) == ([], False)
    reports.add(first)
    reports.add(second)
    assert (reader.errors, reports.waits) == ([first], True)
    reader.errors.clear()
    assert not reports.waits
    reports.add(second)
    assert (reader.errors, reports.waits) == ([second], True)
    reports.forget()
    assert not reports.waits


def test_what_is_unresolved() -> None:
    joins, heartbeats = Attempts(backoff()), Attempts(backoff())
    denied, lost = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED), ConnectionLost("lost")
    assert unresolved(joins, heartbeats) is None
    heartbeats.failed(lost, 0)
    assert unresolved(joins, heartbeats) is lost
    joins.failed(BrokerError(ErrorCode.REBALANCE_IN_PROGRESS), 0)
    assert unresolved(joins, heartbeats) is lost
    joins.failed(denied, 0)
    assert unresolved(joins, heartbeats) is denied
    joins.succeeded()
    heartbeats.succeeded()
    assert unresolved(joins, heartbeats) is None


def test_the_error_of_a_response_names_the_group_and_what_the_broker_says() -> None:
    assert refusal_of("g", HeartbeatResponse()) is None
    assert refusal_of("g", OffsetCommitResponse()) is None, "the response's partitions have their own codes"
    assert str(refusal_of("g", HeartbeatResponse(error_code=-1))) == "UNKNOWN_SERVER_ERROR: Heartbeat in group g"
    said = ConsumerGroupHeartbeatResponse(error_code=30, error_message="no")
    assert str(refusal_of("g", said)) == "GROUP_AUTHORIZATION_FAILED: ConsumerGroupHeartbeat in group g: no"
