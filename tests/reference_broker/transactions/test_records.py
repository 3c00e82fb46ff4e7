"""Transaction records are decoded as they were encoded, in Kafka 4.3's version.

Method: encode and decode transactions with and without partitions.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.records import decode, encode
from kafkawire.reference_broker.transactions.records import (
    RECORD_TYPES,
    stored_transaction,
    transaction_record,
    transaction_tombstone,
)
from kafkawire.reference_broker.transactions.transaction import Transaction
from kafkawire.sdk.protocol.messages.coordinator.transaction_state.transaction_log import TransactionLogValue
from kafkawire.sdk.protocol.tables.enums import TransactionState

CASES = [
    Transaction("t", 7, epoch=0, previous_producer_id=7, timeout_ms=60_000, updated_ms=5),
    Transaction(
        "t",
        7,
        epoch=2,
        previous_producer_id=6,
        next_producer_id=9,
        timeout_ms=1,
        state=TransactionState.PREPARE_ABORT,
        partitions=frozenset({("b", 1), ("a", 0), ("b", 0)}),
        start_ms=3,
        updated_ms=5,
        client_version=2,
    ),
]


@pytest.mark.parametrize("transaction", CASES)
def test_records_come_back(transaction):
    record = decode(RECORD_TYPES, *encode(transaction_record(transaction)))
    assert record is not None
    assert record.value_version == 1
    assert isinstance(record.value, TransactionLogValue)
    assert stored_transaction("t", record.value) == transaction


def test_partitions_are_in_order():
    value, other = (transaction_record(case).value for case in (CASES[1], CASES[0]))
    assert isinstance(value, TransactionLogValue)
    assert isinstance(other, TransactionLogValue)
    assert value.transaction_partitions is not None
    assert [(entry.topic, entry.partition_ids) for entry in value.transaction_partitions] == [("a", [0]), ("b", [0, 1])]
    assert other.transaction_partitions is None


def test_a_tombstone_has_no_value():
    assert encode(transaction_tombstone("t")) == (b"\x00\x00\x00\x01t", None)
