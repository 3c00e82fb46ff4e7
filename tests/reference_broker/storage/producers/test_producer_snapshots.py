"""Producer state is written to a snapshot in Apache Kafka's format, and read back.

Method: read a file written by Apache Kafka 4.3.0, and write it back.
"""

from __future__ import annotations

from kafkawire.reference_broker.storage.producers.producer_snapshots import (
    decode_snapshot,
    encode_snapshot,
    producer_state_entries,
)
from kafkawire.reference_broker.storage.producers.producers import AppendedBatch, Producer, Producers
from tests.reference_broker.storage.produced_batches import NOW_MS
from tests.sdk.storage.kafkas_snapshots import EMPTY, KAFKAS


def shown(producer: Producer) -> tuple[object, ...]:
    return tuple(getattr(producer, name) for name in Producer.__slots__ if name != "batches") + tuple(producer.batches)


def test_a_snapshot_of_kafka() -> None:
    producers = decode_snapshot(KAFKAS)
    assert [found.producer_id for found in producers] == [2**32 + 1, 0, 33, 17, 1, 70000]
    by_id = {found.producer_id: found for found in producers}
    assert by_id[17].epoch == 2
    assert by_id[0].transaction_start == 13
    assert by_id[33].transaction_start is None
    assert list(by_id[1].batches) == [AppendedBatch(1, 7, 3, NOW_MS + 3)]
    assert by_id[1].batches[0].first_sequence == 2**31 - 2
    assert encode_snapshot(producer_state_entries(producers)) == KAFKAS


def test_the_order_is_that_of_the_table_and_of_arrival() -> None:
    by_id = {found.producer_id: found for found in decode_snapshot(KAFKAS)}
    producers = Producers()
    producers.restore([by_id[number] for number in (70000, 33, 17, 2**32 + 1, 1, 0)], 14)
    found = [entry.producer_id for entry in decode_snapshot(encode_snapshot(producer_state_entries(producers)))]
    assert found == [2**32 + 1, 0, 70000, 33, 17, 1]
    many = [Producer(number) for number in reversed(range(13))]
    assert [entry.producer_id for entry in decode_snapshot(encode_snapshot(producer_state_entries(many)))] == list(
        range(13)
    )
    assert [
        entry.producer_id
        for entry in decode_snapshot(encode_snapshot(producer_state_entries([Producer(32), Producer(31)])))
    ] == [32, 31]
    many.append(Producer(32))  # the fourteenth producer; there are now 32 buckets
    found = [entry.producer_id for entry in decode_snapshot(encode_snapshot(producer_state_entries(many)))]
    assert found == [0, 32, *range(1, 13)]


def test_what_has_no_batch() -> None:
    ended = Producer(5, 1, 3, NOW_MS)
    (found,) = decode_snapshot(encode_snapshot(producer_state_entries([ended])))
    assert shown(found) == shown(ended)


def test_a_batch_at_the_start_of_the_log() -> None:
    first = Producer(5, 0, -1, NOW_MS, 0, [AppendedBatch(0, 0, 0, NOW_MS)])
    (found,) = decode_snapshot(encode_snapshot(producer_state_entries([first])))
    assert shown(found) == shown(first)


def test_empty() -> None:
    assert encode_snapshot(producer_state_entries([])) == EMPTY
    assert decode_snapshot(EMPTY) == []


def test_what_was_taken_does_not_change() -> None:
    producers = decode_snapshot(KAFKAS)
    known = producer_state_entries(producers)
    for producer in producers:
        producer.begin(9)
        producer.batches.append(AppendedBatch(1, 1, 1, 1))
        producer.last_timestamp, producer.transaction_start = 5, 5
    assert encode_snapshot(known) == KAFKAS
