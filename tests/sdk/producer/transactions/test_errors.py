"""The right errors end a producer, and errors that end a transaction have the right messages."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
    KafkaWireError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    UnsupportedVersion,
)
from kafkawire.sdk.producer.transactions.errors import aborted, code_of, fenced, is_fatal, late
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BrokerError(ErrorCode.PRODUCER_FENCED), True),
        (BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), True),
        (UnsupportedVersion("EndTxn"), True),
        (BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH), False),
        (BrokerError(ErrorCode.FENCED_INSTANCE_ID), False),
        (BrokerError(ErrorCode.TRANSACTION_ABORTABLE), False),
        (RequestTimedOut("late"), False),
    ],
)
def test_fatal(error: KafkaWireError, expected: bool) -> None:
    assert is_fatal(error) is expected


def test_codes() -> None:
    assert code_of(BrokerError(ErrorCode.PRODUCER_FENCED)) is ErrorCode.PRODUCER_FENCED
    assert code_of(RequestTimedOut("late")) is None
    assert code_of(None) is None


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_fenced(code: ErrorCode) -> None:
    cause = BrokerError(code, "end of the transaction")
    error = fenced("x", 500, cause)
    assert isinstance(error, ProducerFenced)
    assert (error.code, error.fatal, error.__cause__) == (code, True, cause)
    text = (
        "transactional id x: another producer uses it, or transaction_timeout_ms=500 has passed; end of the transaction"
    )
    assert str(error) == f"{code.name}: {text}"
    assert fenced("x", 500, error) is error
    other = BrokerError(ErrorCode.INVALID_TXN_STATE)
    assert fenced("x", 500, other) is other


def test_aborted() -> None:
    assert str(aborted("x", 500)) == "transactional id x: the transaction was aborted"
    cause = BrokerError(ErrorCode.INVALID_RECORD, "1 record for t-0")
    error = aborted("x", 500, cause)
    assert isinstance(error, TransactionAborted)
    assert error.__cause__ is cause
    assert str(error).endswith("the transaction cannot be committed: INVALID_RECORD: 1 record for t-0")


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_transaction_that_has_been_open_for_too_long_perhaps(code: ErrorCode) -> None:
    text = str(aborted("x", 500, BrokerError(code)))
    assert text.endswith(f"{code.name}; perhaps transaction_timeout_ms=500 has passed")


def test_late() -> None:
    error = late("x", 70, "being committed", "; throttled")
    assert error.retriable
    assert "after 70 ms the transaction is still being committed" in str(error)
    assert str(error).endswith("; throttled")
