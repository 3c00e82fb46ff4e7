"""Snapshots are byte for byte those of Apache Kafka, and damaged ones are refused.

Method: a file that Apache Kafka 4.3.0 wrote, read and written again; the same file cut and with each byte changed.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.producers.producer_snapshots import decode_snapshot, encode_snapshot, known_of
from kafkawire.reference_broker.storage.producers.producers import AppendedBatch, Producer, Producers
from kafkawire.sdk.errors import DecodeError
from tests.reference_broker.storage.produced_batches import NOW_MS

#: Producers in the order of a table of Java with 16 buckets; that with id 0 has a transaction open.
KAFKAS = bytes.fromhex(
    "000140f349d800000006"
    "0000000100000001000000000001000000000000000900000001"
    "0000018bcfe56801ffffffffffffffffffffffff"
    "0000000000000000000000000000000000000000000d00000000"
    "0000018bcfe56800ffffffff000000000000000d"
    "0000000000000021000000000004000000000000000b00000001"
    "0000018bcfe56801ffffffffffffffffffffffff"
    "0000000000000011000200000005000000000000000300000000"
    "0000018bcfe56800ffffffffffffffffffffffff"
    "0000000000000001000000000001000000000000000700000003"
    "0000018bcfe56803ffffffffffffffffffffffff"
    "0000000000011170000100000000000000000000000c00000000"
    "0000018bcfe56800ffffffffffffffffffffffff"
)
EMPTY = bytes.fromhex("000148674bc700000000")


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
    assert encode_snapshot(known_of(producers)) == KAFKAS


def test_the_order_is_that_of_the_table_and_of_arrival() -> None:
    by_id = {found.producer_id: found for found in decode_snapshot(KAFKAS)}
    producers = Producers()
    producers.restore([by_id[number] for number in (70000, 33, 17, 2**32 + 1, 1, 0)], 14)
    found = [entry.producer_id for entry in decode_snapshot(encode_snapshot(known_of(producers)))]
    assert found == [2**32 + 1, 0, 70000, 33, 17, 1]
    many = [Producer(number) for number in reversed(range(13))]
    assert [entry.producer_id for entry in decode_snapshot(encode_snapshot(known_of(many)))] == list(range(13))
    assert [
        entry.producer_id for entry in decode_snapshot(encode_snapshot(known_of([Producer(32), Producer(31)])))
    ] == [32, 31]
    many.append(Producer(32))  # the fourteenth: there are 32 buckets
    found = [entry.producer_id for entry in decode_snapshot(encode_snapshot(known_of(many)))]
    assert found == [0, 32, *range(1, 13)]


def test_what_has_no_batch() -> None:
    ended = Producer(5, 1, 3, NOW_MS)
    (found,) = decode_snapshot(encode_snapshot(known_of([ended])))
    assert shown(found) == shown(ended)


def test_a_batch_at_the_start_of_the_log() -> None:
    first = Producer(5, 0, -1, NOW_MS, 0, [AppendedBatch(0, 0, 0, NOW_MS)])
    (found,) = decode_snapshot(encode_snapshot(known_of([first])))
    assert shown(found) == shown(first)


def test_empty() -> None:
    assert encode_snapshot(known_of([])) == EMPTY
    assert decode_snapshot(EMPTY) == []


def test_cut(subtests: pytest.Subtests) -> None:
    for size in range(len(KAFKAS)):
        with subtests.test(size=size), pytest.raises(DecodeError):
            decode_snapshot(KAFKAS[:size])


def test_changed(subtests: pytest.Subtests) -> None:
    for at in range(len(KAFKAS)):
        with subtests.test(at=at):
            data = bytearray(KAFKAS)
            data[at] ^= 0x55
            with pytest.raises(DecodeError):
                decode_snapshot(data)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_unknown_versions(version: int) -> None:
    with pytest.raises(DecodeError, match="version"):
        decode_snapshot(version.to_bytes(2, "big", signed=True) + KAFKAS[2:])


def test_what_was_taken_does_not_change() -> None:
    producers = decode_snapshot(KAFKAS)
    known = known_of(producers)
    for producer in producers:
        producer.begin(9)
        producer.batches.append(AppendedBatch(1, 1, 1, 1))
        producer.last_timestamp, producer.transaction_start = 5, 5
    assert encode_snapshot(known) == KAFKAS
