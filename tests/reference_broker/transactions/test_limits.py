"""The limits for transactions follow the broker's options, and default to Kafka's.

Method: set options to distinct values, and check each by name.
"""

from __future__ import annotations

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.transactions.limits import TransactionLimits


def test_limits_are_those_of_the_options():
    given = {
        "transaction.max.timeout.ms": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2,
        "transactional.id.expiration.ms": 3,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 4,
        "add.partitions.to.txn.retry.backoff.ms": 5,
        "add.partitions.to.txn.retry.backoff.max.ms": 6,
    }
    assert TransactionLimits.of(read_options(given)) == TransactionLimits(1, 2, 3, 4, 5, 6)


def test_defaults():
    limits = TransactionLimits(900_000, 10_000, 604_800_000, 3_600_000, 20, 100)
    assert TransactionLimits.of(read_options({})) == limits
