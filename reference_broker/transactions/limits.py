"""The limits of the transaction coordinator.

Source: `TransactionStateManagerConfig`, `AddPartitionsToTxnConfig` in Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TransactionLimits"]


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Limits of transactions, named after the broker's options.

    Attributes:
        max_timeout_ms: longest time for which a producer may ask to keep a transaction open.
        abort_interval_ms: how often transactions that are open for too long are looked for.
        id_expiration_ms: how long a transactional id without an open transaction is kept.
        id_expiration_interval_ms: how often expired ones are looked for.
        retry_backoff_ms: pause before a partition is again added to a transaction while the one before completes.
        retry_backoff_max_ms: how long that goes on.
    """

    max_timeout_ms: int = 900_000
    abort_interval_ms: int = 10_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    id_expiration_interval_ms: int = 3_600_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 100
