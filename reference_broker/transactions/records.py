"""Records in `__transaction_state`, in the form that Kafka 4.3 writes with transaction.version 2.

Source: `TransactionLog`, `TransactionCoordinatorRecordSerde` in Apache Kafka.
"""

from __future__ import annotations

from itertools import groupby

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.transactions.transaction import Transaction
from kafkawire.sdk.protocol.messages.coordinator.transaction_state.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.sdk.protocol.tables.enums import TransactionState

__all__ = ["RECORD_TYPES", "stored_transaction", "transaction_record", "transaction_tombstone"]

RECORD_TYPES = types_by_key((TransactionLogKey, TransactionLogValue))

_VALUE_VERSION = TransactionLogValue.SCHEMA.versions.last


def transaction_record(transaction: Transaction) -> CoordinatorRecord:
    """Return the record for a transaction."""
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic = groupby(sorted(transaction.partitions), lambda partition: partition[0])
        partitions = [
            TransactionLogValue.PartitionsSchema(topic, [number for _, number in of_topic])
            for topic, of_topic in by_topic
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return CoordinatorRecord(TransactionLogKey(transaction.transactional_id), value, _VALUE_VERSION)


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the record that removes a transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id), None)


def stored_transaction(transactional_id: str, stored: TransactionLogValue) -> Transaction:
    """Return the transaction in a record.

    Raises:
        ValueError: the state is unknown.
    """
    return Transaction(
        transactional_id,
        producer_id=stored.producer_id,
        epoch=stored.producer_epoch,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        timeout_ms=stored.transaction_timeout_ms,
        state=TransactionState(stored.transaction_status),
        partitions=frozenset(
            (of_topic.topic, number)
            for of_topic in stored.transaction_partitions or ()
            for number in of_topic.partition_ids
        ),
        start_ms=stored.transaction_start_timestamp_ms,
        updated_ms=stored.transaction_last_update_timestamp_ms,
        client_version=stored.client_transaction_version,
    )
