"""The limits of the transaction coordinator.

Source: `TransactionStateManagerConfig`, `AddPartitionsToTxnConfig` in Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kafkawire.reference_broker.config.options import BrokerOptions

__all__ = ["TransactionLimits"]


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Limits of transactions, named after the broker's options.

    Attributes:
        max_timeout_ms: the longest transaction timeout that a producer may request.
        abort_interval_ms: how often to check for transactions that have been open for too long.
        id_expiration_ms: how long a transactional id without an open transaction is kept.
        id_expiration_interval_ms: how often to check for expired ids.
        retry_backoff_ms: the pause before another attempt to add a partition while the previous transaction completes.
        retry_backoff_max_ms: how long to keep retrying.
    """

    max_timeout_ms: int
    abort_interval_ms: int
    id_expiration_ms: int
    id_expiration_interval_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int

    @classmethod
    def of(cls, options: BrokerOptions) -> Self:
        """Return the limits in the broker's options."""
        return cls(
            max_timeout_ms=options.transaction_max_timeout_ms,
            abort_interval_ms=options.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            id_expiration_ms=options.transactional_id_expiration_ms,
            id_expiration_interval_ms=options.transaction_remove_expired_transaction_cleanup_interval_ms,
            retry_backoff_ms=options.add_partitions_to_txn_retry_backoff_ms,
            retry_backoff_max_ms=options.add_partitions_to_txn_retry_backoff_max_ms,
        )
