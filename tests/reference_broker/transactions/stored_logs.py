"""The content of a broker's logs, read batch by batch, without indexes and without the coordinators.

Records and committed offsets are listed by name, in log order, along with those committed according to the markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.records import decode
from kafkawire.reference_broker.groups.records import RECORD_TYPES as GROUP_RECORD_TYPES
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.transactions.records import RECORD_TYPES, stored_transaction
from kafkawire.reference_broker.transactions.transaction import Transaction
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.messages.coordinator.transaction_state.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.control import control_type
from kafkawire.sdk.records.walk import Batch
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["Entry", "Stored", "committed_offsets", "stored_in", "stored_transactions"]


class Entry(NamedTuple):
    """A record.

    Attributes:
        offset: the record's offset.
        key: the record's key.
        value: the record's value; None for a tombstone.
    """

    offset: int
    key: bytes
    value: bytes | None


class Stored(NamedTuple):
    """The content of a log.

    Attributes:
        entries: all records except markers, in order.
        committed: the records that are committed or are not in a transaction.
        last_stable_offset: the first offset of an open transaction, or the high watermark.
    """

    entries: list[Entry]
    committed: list[Entry]
    last_stable_offset: int


def stored_in(log: PartitionLog) -> Stored:
    """Return the content of a log below the high watermark."""
    entries: list[Entry] = []
    undecided: dict[int, list[Entry]] = {}
    starts: dict[int, int] = {}
    committed: list[Entry] = []
    for batch in _batches(log):
        if batch.base_offset >= log.high_watermark:
            break
        if batch.is_control:
            starts.pop(batch.producer_id, None)
            found = undecided.pop(batch.producer_id, [])
            if any(control_type(record).type == ControlRecordType.COMMIT for record in batch.records()):
                committed += found
            continue
        found = [
            Entry(record.offset, bytes(record.key or b""), None if record.value is None else bytes(record.value))
            for record in batch.records()
        ]
        entries += found
        if batch.is_transactional:
            starts.setdefault(batch.producer_id, batch.base_offset)
            undecided.setdefault(batch.producer_id, []).extend(found)
        else:
            committed += found
    return Stored(entries, sorted(committed), min([*starts.values(), log.high_watermark]))


def _batches(log: PartitionLog) -> Iterator[Batch]:
    offset = log.log_start_offset
    while offset < log.next_offset:
        region = log.read(offset, 2**20, at_least_one=True, up_to=log.next_offset).records
        assert region is not None
        for batch in walk(region.read()):
            yield batch
            offset = batch.last_offset + 1


def stored_transactions(log: PartitionLog) -> dict[str, Transaction]:
    """Return the transactions in a log of `__transaction_state`."""
    found: dict[str, Transaction] = {}
    for entry in stored_in(log).entries:
        record = decode(RECORD_TYPES, entry.key, entry.value)
        assert record is not None
        assert isinstance(record.key, TransactionLogKey)
        found.pop(record.key.transactional_id, None)
        if isinstance(record.value, TransactionLogValue):
            found[record.key.transactional_id] = stored_transaction(record.key.transactional_id, record.value)
    return found


def committed_offsets(entries: list[Entry]) -> list[tuple[Partition, int | None]]:
    """Return the offsets in entries of `__consumer_offsets`; None for a deleted offset."""
    found: list[tuple[Partition, int | None]] = []
    for entry in entries:
        record = decode(GROUP_RECORD_TYPES, entry.key, entry.value)
        if record is None or not isinstance(record.key, OffsetCommitKey):
            continue
        offset = record.value.offset if isinstance(record.value, OffsetCommitValue) else None
        found.append(((record.key.topic, record.key.partition), offset))
    return found
