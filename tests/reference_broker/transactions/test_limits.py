"""The limits of transactions default to Kafka's.

Method: the defaults, compared with the broker's options.
"""

from __future__ import annotations

from kafkawire.reference_broker.options import read_options
from kafkawire.reference_broker.transactions.limits import TransactionLimits


def test_defaults_are_those_of_the_options():
    options, limits = read_options({}), TransactionLimits()
    assert limits.max_timeout_ms == options.transaction_max_timeout_ms
    assert limits.abort_interval_ms == options.transaction_abort_timed_out_transaction_cleanup_interval_ms
    assert limits.id_expiration_ms == options.transactional_id_expiration_ms
    assert limits.id_expiration_interval_ms == options.transaction_remove_expired_transaction_cleanup_interval_ms
    assert limits.retry_backoff_ms == options.add_partitions_to_txn_retry_backoff_ms
    assert limits.retry_backoff_max_ms == options.add_partitions_to_txn_retry_backoff_max_ms
