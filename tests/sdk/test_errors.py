"""Errors say whether another attempt helps, and their texts name the thing, the value and the limit.

Method: a table of what each class promises.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk import errors
from kafkawire.sdk.errors import (
    BrokerError,
    ConfigurationError,
    ConnectFailed,
    DecodeError,
    EncodeError,
    KafkaWireError,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_one_tree() -> None:
    assert all(issubclass(getattr(errors, name), KafkaWireError) for name in errors.__all__)


@pytest.mark.parametrize(
    ("code", "retriable", "fatal"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False, False),
        (ErrorCode.OFFSET_OUT_OF_RANGE, False, False),
    ],
)
def test_broker_error(code: ErrorCode, retriable: bool, fatal: bool) -> None:
    error = BrokerError(code, "partition t-0")
    assert (error.code, error.retriable, error.fatal) == (code, retriable, fatal)
    assert str(error) == f"{code.name}: partition t-0"
    assert str(BrokerError(code)) == code.name


def test_a_code_of_a_later_release() -> None:
    error = BrokerError(30_000, "topic t")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "error code 30000, unknown to this release; topic t" in str(error)


@pytest.mark.parametrize(
    ("name", "retriable"),
    [
        ("BufferFull", True),
        ("Closed", False),
        ("ConnectionLost", True),
        ("DeliveryTimedOut", False),
        ("NoOffset", False),
        ("RecordTooLarge", False),
        ("RemoteProtocolError", False),
        ("RequestTimedOut", True),
    ],
)
def test_retriable(name: str, retriable: bool) -> None:
    assert getattr(errors, name)("text").retriable is retriable


def test_texts() -> None:
    assert str(ConnectFailed("a:1", "refused")) == "cannot connect to a:1: refused"
    assert str(ConfigurationError("acks", 2, "expected 0")) == "acks=2: expected 0"
    assert str(EncodeError("a.b", "too long")) == "a.b: too long"
    assert str(EncodeError("", "too long")) == "too long"
    assert str(DecodeError("", 3, "cut off")) == "message at byte 3: cut off"
