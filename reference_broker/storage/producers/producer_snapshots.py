"""Convert the producers of a log to and from producer snapshots (see `sdk/storage/producer_snapshots.py`).

A snapshot is written when the log rolls and when it is closed. A restart then does not have to read earlier records.

Source: `ProducerStateManager.readSnapshot`, `writeSnapshot` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from kafkawire.reference_broker.storage.producers.producers import AppendedBatch, Producer
from kafkawire.sdk.protocol.java_order import java_order, long_hash
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.storage.producer_snapshots import ProducerEntry, parse_snapshot, snapshot_content

__all__ = ["ProducerStateEntry", "decode_snapshot", "encode_snapshot", "in_table_order", "producer_state_entries"]

_NO_OFFSET = -1


class ProducerStateEntry(NamedTuple):
    """The state of a producer in a snapshot.

    Attributes:
        producer_id: 0 or higher.
        epoch: epoch of its last batch or marker; -1 if there is none.
        coordinator_epoch: epoch of the coordinator that wrote its last marker; -1 if there is none.
        last_timestamp: timestamp of its last batch or marker.
        transaction_start: the first offset of its open transaction; None if none is open.
        last: its last batch in this epoch; None if there is none.
    """

    producer_id: int
    epoch: int
    coordinator_epoch: int
    last_timestamp: int
    transaction_start: int | None
    last: AppendedBatch | None


P = TypeVar("P", Producer, ProducerStateEntry)


def producer_state_entries(producers: Iterable[Producer]) -> list[ProducerStateEntry]:
    """Copy the producers' state, which is quick; the rest of the work can then run in the background."""
    return [
        ProducerStateEntry(
            producer.producer_id,
            producer.epoch,
            producer.coordinator_epoch,
            producer.last_timestamp,
            producer.transaction_start,
            producer.batches[-1] if producer.batches else None,
        )
        for producer in producers
    ]


def encode_snapshot(known: Iterable[ProducerStateEntry]) -> bytes:
    """Encode a snapshot, with the producers ordered as Kafka orders them.

    May run on any thread; 30,000 producers take a tenth of a second.
    """
    entries = []
    for producer in in_table_order(known):
        last = producer.last
        entries.append(
            ProducerEntry(
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                last_sequence=NO_SEQUENCE if last is None else last.last_sequence,
                last_offset=_NO_OFFSET if last is None else last.last_offset,
                offset_delta=0 if last is None else last.offset_delta,
                timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_first_offset=_offset(producer.transaction_start),
            )
        )
    return snapshot_content(entries)


def decode_snapshot(data: Buffer) -> list[Producer]:
    """Return the producers in a snapshot, which contains only the last batch of each.

    Raises:
        DamagedContent: the snapshot's version is unknown, or it is damaged.
    """
    return [_producer(entry) for entry in parse_snapshot(data)]


def _producer(entry: ProducerEntry) -> Producer:
    batches = []
    if entry.last_offset >= 0:
        batches.append(AppendedBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp))
    start = entry.current_txn_first_offset
    return Producer(
        entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.timestamp, start if start >= 0 else None, batches
    )


def _offset(offset: int | None) -> int:
    return _NO_OFFSET if offset is None else offset


def in_table_order(producers: Iterable[P]) -> list[P]:
    """Return producers in the order of Kafka's hash table, so the same history gives the same bytes.

    Producers that share a bucket stay in the given order, which is the order of arrival. It may differ after a restart,
    when the first batch of each producer is unknown.
    """
    return java_order(list(producers), lambda producer: long_hash(producer.producer_id))
