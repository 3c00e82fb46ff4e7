"""What errors mean for a transaction: it can only be aborted, or its producer is permanently unusable.

Few errors are immediately fatal. After any other error the transaction is aborted, and the response to the abort shows
whether the producer was fenced or the coordinator no longer knows it.

Source: Apache Kafka, `TransactionManager`; KIP-588 (fencing by a timeout), KIP-890, KIP-1050.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkawire.sdk.errors import (
    BrokerError,
    KafkaWireError,
    LocalProtocolError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    UnsupportedVersion,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "FORGOTTEN",
    "NOT_COMMITTED",
    "NOT_OPEN",
    "OUTSIDE",
    "SOON_AFTER_THE_LAST",
    "STRADDLED",
    "aborted",
    "code_of",
    "fenced",
    "forgotten",
    "is_fatal",
    "late",
]

#: The error that `send` raises while no transaction is open.
OUTSIDE: Final = LocalProtocolError(
    "no transaction is open: a producer with a transactional_id sends inside a block of producer.transaction(), "
    "or between begin_transaction and commit_transaction"
)

#: The error for a delivery whose record `send` was still buffering when the transaction ended.
STRADDLED: Final = LocalProtocolError(
    "the record's transaction ended before send had buffered it, so the record is not sent: "
    "commit or abort once all threads have returned from send"
)

#: The codes for a producer whose transactional id another producer uses; brokers used the second code until Kafka 2.7.
_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})

#: The codes that a coordinator returns if it committed nothing of the transaction, and another transaction may follow.
#: Java's producer treats INVALID_TXN_STATE as fatal, although the response to an abort contains the epoch to continue
#: with.
NOT_COMMITTED: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
    }
)

#: The codes that a coordinator returns if it has no transaction to abort, and knows this producer but no later one: the
#: next transaction needs another epoch.
NOT_OPEN: Final = frozenset({ErrorCode.INVALID_TXN_STATE})

#: The codes that a coordinator returns if it does not know the transactional id or this producer: it has forgotten the
#: id (transactional.id.expiration.ms), and with it whether a later producer had fenced this one. With a new producer
#: id, this producer could repeat the work of that later producer.
FORGOTTEN: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})

#: The codes that brokers return for a transaction that its coordinator has ended.
_ENDED: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH})

#: The pause in ms before another attempt if the previous transaction is not complete when the next one adds its first
#: partition: the brokers take a few ms to complete it, and Apache Kafka's producer pauses equally long.
SOON_AFTER_THE_LAST: Final[Mapping[ErrorCode, int]] = {ErrorCode.CONCURRENT_TRANSACTIONS: 20}

_FATAL: Final = FORGOTTEN | frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


def is_fatal(error: KafkaWireError) -> bool:
    """Return whether an error ends the producer, regardless of the request."""
    return code_of(error) in _FATAL or isinstance(error, UnsupportedVersion)


def code_of(error: KafkaWireError | None) -> ErrorCode | None:
    """Return the code of a broker's error; None for any other error."""
    return error.code if isinstance(error, BrokerError) else None


def aborted(transactional_id: str, timeout_ms: int, cause: KafkaWireError | None = None) -> TransactionAborted:
    """Return the error for an aborted transaction's records and commit; without a cause, the application aborted it."""
    text = "the transaction was aborted" if cause is None else f"the transaction cannot be committed: {cause}"
    hint = f"; perhaps transaction_timeout_ms={timeout_ms} has passed" if code_of(cause) in _ENDED else ""
    error = TransactionAborted(f"transactional id {transactional_id}: {text}{hint}")
    error.__cause__ = cause
    return error


def fenced(transactional_id: str, timeout_ms: int, error: KafkaWireError) -> KafkaWireError:
    """Return the error to raise in place of one that ends a producer: `ProducerFenced` if the producer was fenced."""
    if isinstance(error, BrokerError) and error.code in FORGOTTEN:
        return forgotten(transactional_id, error)
    if not isinstance(error, BrokerError) or error.code not in _FENCED or isinstance(error, ProducerFenced):
        return error
    reason = f"another producer uses it, or transaction_timeout_ms={timeout_ms} has passed"
    failure = ProducerFenced(error.code, f"transactional id {transactional_id}: {reason}; {error.detail}")
    failure.__cause__ = error
    return failure


def forgotten(transactional_id: str, error: BrokerError) -> BrokerError:
    """Return the error for a producer that its coordinator has forgotten; keep an error that already says so."""
    if error.detail.startswith(f"transactional id {transactional_id}: "):
        return error
    text = "the coordinator has no record of this producer or any later one (see transactional.id.expiration.ms)"
    failure = BrokerError(error.code, f"transactional id {transactional_id}: {text}; {error.detail}")
    failure.fatal = True
    failure.__cause__ = error
    return failure


def late(transactional_id: str, timeout_ms: int, state: str, throttling: str) -> RequestTimedOut:
    """Return the error for a caller whose wait for the end has timed out; see `Router.throttling`."""
    text = f"transactional id {transactional_id}: after {timeout_ms} ms the transaction is still {state}"
    return RequestTimedOut(
        f"{text}; the operation continues, and no other transaction begins until it ends{throttling}"
    )
