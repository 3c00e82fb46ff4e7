"""The application gets batches starting at the requested offset, without control batches or aborted records.

Method: walk the bytes of hand-built responses as a consumer does.
"""

from __future__ import annotations

from struct import pack_into

import pytest

from kafkawire.sdk.consumer.fetching.queue import Fetched
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.completed_fetch import fetched_batches
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import MessageSetBuilder
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.batches import made, marker

PARTITION = TopicPartition("t", 3)

#: The position where a batch's length field ends, from which the length is counted, and the checksum's position.
LENGTH_END, CRC_BEGIN = 12, 17


def offsets(data: bytes, start: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> list[int]:
    """Return the first offset in each batch that the application gets."""
    fetched = Fetched(PARTITION, 1, start, Position(100), data, aborted=aborted)
    return [batch.records()[0].offset for batch in fetched_batches(fetched, check_crcs=True)]


def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch() -> None:
    assert offsets(made(0, b"a", b"b") + made(2, b"c") + made(3, b"d")[:-1]) == [0, 2]


def test_a_fetch_begins_with_the_batch_that_has_its_offset() -> None:
    assert offsets(made(0, b"a") + made(1, b"b", b"c", b"d") + made(4, b"e"), start=3) == [1, 4]


def test_control_batches_are_left_out() -> None:
    assert offsets(made(0, b"a") + marker(1, 7, is_commit=True) + made(2, b"b")) == [0, 2]


def test_aborted_transactions_are_left_out() -> None:
    """One of two producers that share a partition aborts a transaction, then commits the next one."""
    data = (
        made(0, b"kept", producer=8)
        + made(1, b"dropped", producer=7)
        + made(2, b"kept", producer=8)
        + made(3, b"dropped", producer=7)
        + marker(4, 7, is_commit=False)
        + made(5, b"kept", producer=7)
        + marker(6, 8, is_commit=True)
        + marker(7, 7, is_commit=True)
        + made(8, b"kept")
    )
    assert offsets(data, aborted=((1, 7),)) == [0, 2, 5, 8]
    assert offsets(data) == [0, 1, 2, 3, 5, 8]


def test_an_empty_control_batch_ends_nothing() -> None:
    """Compaction removes old markers but may keep their empty batch, which has the producer's last sequence number."""
    empty = bytearray(marker(1, 7, is_commit=False)[:BATCH_HEADER_BYTES])
    pack_into(">i", empty, 8, BATCH_HEADER_BYTES - LENGTH_END)
    pack_into(">i", empty, BATCH_HEADER_BYTES - 4, 0)
    pack_into(">I", empty, CRC_BEGIN, crc32c(empty[CRC_BEGIN + 4 :]))
    data = made(0, b"x", producer=7) + bytes(empty) + made(2, b"x", producer=7) + marker(3, 7, is_commit=False)
    assert offsets(data + made(4, b"kept", producer=7), aborted=((0, 7),)) == [4]


def test_a_second_abort_of_the_same_producer() -> None:
    data = (
        made(0, b"x", producer=7)
        + marker(1, 7, is_commit=False)
        + made(2, b"kept", producer=7)
        + marker(3, 7, is_commit=True)
        + made(4, b"x", producer=7)
        + marker(5, 7, is_commit=False)
    )
    assert offsets(data, aborted=((0, 7), (4, 7))) == [2]


def test_an_abort_that_began_before_the_fetch() -> None:
    data = made(5, b"x", producer=7) + marker(6, 7, is_commit=False) + made(7, b"kept")
    assert offsets(data, start=5, aborted=((1, 7),)) == [7]


def test_damage_is_found_when_it_is_reached() -> None:
    damaged = bytearray(made(1, b"b"))
    damaged[-1] ^= 1
    found = fetched_batches(Fetched(PARTITION, 1, 0, Position(2), made(0, b"a") + bytes(damaged)), check_crcs=True)
    assert next(found).base_offset == 0
    with pytest.raises(DecodeError, match="checksum"):
        next(found)


def test_older_messages() -> None:
    messages = MessageSetBuilder(1, base_offset=40)
    messages.append(5, b"key", b"value")
    messages.append(5, b"key", b"value")
    assert offsets(messages.build(), start=41) == [41]
