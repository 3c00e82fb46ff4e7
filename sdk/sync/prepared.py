"""Prepared transactions of a blocking producer; see `kafkawire.sdk.producer.transactions.prepared`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkawire.sdk.producer.producer import prepare_transaction as prepare
from kafkawire.sdk.transport.waiting import result_of

if TYPE_CHECKING:
    from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction
    from kafkawire.sdk.sync.producer import Producer

__all__ = ["prepare_transaction"]


def prepare_transaction(producer: Producer[Any, Any], timeout_ms: int | None = None) -> PreparedTransaction | None:
    """Flush, and keep the producer's transaction open even after the producer is closed.

    Args:
        producer: a producer with an open transaction.
        timeout_ms: the limit; None for `api_timeout_ms`.

    Returns:
        The data needed to end the transaction; None if nothing was sent.

    Raises:
        KafkaWireError: see `kafkawire.sdk.producer.producer.prepare_transaction`.
    """
    return result_of(prepare, producer._inner, timeout_ms)
