"""Both the extension and Python keep the last record for each key, in write order.

Method: compare with a dictionary, using random batches with few and with many keys; add batches of every kind in a row,
cut at every byte, and with each byte changed.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.records import BatchBuilder, Compression, crc32c
from kafkawire.sdk.records.engines import selection
from kafkawire.sdk.records.engines.python_latest import LatestRecords
from tests.sdk.records.conftest import message_set

KINDS = [LatestRecords] if selection.built is None else [LatestRecords, selection.built.LatestRecords]
Kind = Callable[[], LatestRecords]


def batch(base_offset: int, *records: tuple[bytes | None, bytes | None], **options: Any) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, **options)
    for key, value in records:
        builder.append(5, key, value)
    return builder.build()


PLAIN = batch(10, (b"a", b"1"), (b"b", b"2"), (None, b"no key"), (b"a", None))
NEXT = batch(14, (b"c", b""), (b"", b"3"))
ODD = [
    batch(16, (b"a", b"4"), compression=Compression.GZIP),
    batch(16, (b"a", b"4"), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
    batch(16, (b"\0\0\0\1", b"\0\0\0\0\0\0"), is_control=True),
    message_set(0),
]


def content(records: LatestRecords) -> list[tuple[bytes, tuple[int, bytes | None]]]:
    return list(records)


@pytest.mark.parametrize("kind", KINDS)
def test_last_record_of_each_key_in_the_order_of_writing(kind: Kind) -> None:
    records = kind()
    assert (len(records), content(records), records.end_offset, records.get(b"a")) == (0, [], 0, None)
    deleted: list[bytes] = []
    assert records.add(PLAIN + NEXT, deleted=deleted) == len(PLAIN + NEXT)
    assert content(records) == [(b"b", (13, b"2")), (b"a", (13, None)), (b"c", (15, b"")), (b"", (15, b"3"))]
    assert (deleted, records.end_offset, len(records)) == ([b"a"], 16, 4)
    records.put(b"b", 20, b"longer than before")
    records.put(b"d", 21, None)
    assert content(records)[-2:] == [(b"b", (20, b"longer than before")), (b"d", (21, None))]
    assert [records.get(key) for key in (b"", b"d", b"e")] == [(15, b"3"), (21, None), None]
    assert records.end_offset == 16, "only batches may change the end offset"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [b"a", b"b", b"c"])
@pytest.mark.parametrize("read", [1, 2])
def test_record_that_is_noted_while_the_records_are_read_ends_that(kind: Kind, key: bytes, read: int) -> None:
    records = kind()
    records.add(PLAIN)
    entries = iter(records)
    assert [next(entries)[0] for _ in range(read)] == [b"b", b"a"][:read]
    records.put(key, 20, b"new")
    with pytest.raises(RuntimeError, match="a record was noted"):
        next(entries)
    assert content(records)[-1] == (key, (20, b"new"))


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_a_large_value_is_given_back_when_a_small_one_follows(kind: Kind) -> None:
    records = kind()
    keys = [b"%d" % number for number in range(100)]
    tracemalloc.start()
    try:
        for size in (10_000, 5, 0):
            for key in keys:
                records.put(key, 1, bytes(size))
            held, _ = tracemalloc.get_traced_memory()
            assert (held >= 1_000_000) == (size == 10_000)
    finally:
        tracemalloc.stop()
    assert content(records) == [(key, (1, b"")) for key in keys]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", ODD)
def test_what_is_not_plain_is_left_to_others(kind: Kind, odd: bytes) -> None:
    records = kind()
    data = PLAIN + odd + NEXT
    assert records.add(data) == len(PLAIN)
    assert records.add(memoryview(data), len(PLAIN)) == len(PLAIN)
    assert (len(records), records.end_offset) == (2, 14)
    assert records.add(data, len(PLAIN + odd)) == len(data)
    assert (len(records), records.end_offset) == (4, 16)


@pytest.mark.parametrize("kind", KINDS)
def test_cut_batch_is_left_for_later(kind: Kind) -> None:
    for size in range(len(PLAIN), len(PLAIN + NEXT)):
        records = kind()
        assert (records.add((PLAIN + NEXT)[:size]), len(records)) == (len(PLAIN), 2), size


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_taken_of_a_damaged_batch(kind: Kind) -> None:
    for position in range(8, len(NEXT)):
        damaged = bytearray(NEXT)
        damaged[position] ^= 0x41
        records = kind()
        stopped = records.add(PLAIN + bytes(damaged))
        # The checksum does not cover the leader epoch.
        assert (stopped, len(records)) == ((len(PLAIN), 2) if not 12 <= position < 16 else (len(PLAIN + NEXT), 4))


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_are_wrong_are_refused_in_spite_of_their_checksum(kind: Kind) -> None:
    for count in (1, 3):
        wrong = bytearray(NEXT)
        wrong[57:61] = count.to_bytes(4, "big")
        wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
        records = kind()
        assert (records.add(wrong), len(records), records.end_offset) == (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments(kind: Kind) -> None:
    records: Any = kind()
    for start in (-1, len(PLAIN) + 1):
        with pytest.raises(ValueError, match=f"position {start} is outside the {len(PLAIN)} bytes"):
            records.add(PLAIN, start)
    with pytest.raises(TypeError):
        records.add("text")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keys", [3, 40, 5_000])
def test_random_batches_leave_what_a_dictionary_has(kind: Kind, keys: int) -> None:
    chance = random.Random(keys)
    records, model, offset = kind(), LatestRecords(), 0
    for _ in range(60):
        chosen = [
            (b"%d" % chance.randrange(keys), chance.choice((None, bytes(chance.randrange(30)))))
            for _ in range(chance.randrange(1, 200))
        ]
        for key, value in chosen:
            model.put(key, offset + len(chosen) - 1, value)
        data = batch(offset, *chosen)
        assert records.add(data) == len(data)
        offset += len(chosen)
    assert content(records) == content(model)
    assert all(records.get(key) == stored for key, stored in model)
