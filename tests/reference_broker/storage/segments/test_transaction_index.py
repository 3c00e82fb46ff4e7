"""The index of aborted transactions has the same bytes as Apache Kafka's, and finds the entries that overlap a range.

Method: read an entry written by Apache Kafka 4.3.0; check a table of ranges, and compare random ranges with a full
search; read damaged files, and files that are longer or shorter than expected.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at
from kafkawire.reference_broker.storage.producers.producers import CompletedTransaction
from kafkawire.reference_broker.storage.segments.transaction_index import TransactionIndex
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

KAFKAS = bytes.fromhex("00000000000000000000000000000000000d000000000000000e000000000000000f")

ENTRIES = [
    AbortedTransaction(1, 10, 15, 5),
    AbortedTransaction(2, 5, 20, 21),
    AbortedTransaction(3, 22, 40, 30),
    AbortedTransaction(4, 30, 50, 51),
]

PATH = "0.txnindex"


def ended(entry: AbortedTransaction) -> CompletedTransaction:
    return CompletedTransaction(entry.producer_id, entry.first_offset, entry.last_offset, True, entry[3])


def filled(entries: Iterable[AbortedTransaction] = ENTRIES, disk: MemoryDisk | None = None) -> TransactionIndex:
    index = TransactionIndex(disk or MemoryDisk(), PATH, 0)
    for entry in entries:
        index.append(ended(entry))
    return index


def loaded(disk: MemoryDisk, base_offset: int = 0) -> TransactionIndex:
    index = TransactionIndex(disk, PATH, base_offset)
    index.load()
    return index


def test_an_entry_of_kafka() -> None:
    disk = MemoryDisk()
    write_file(disk, PATH, KAFKAS)
    assert list(loaded(disk, 14)) == [AbortedTransaction(0, 13, 14, 15)]
    written = MemoryDisk()
    assert filled([AbortedTransaction(0, 13, 14, 15)], written).store()
    assert read_file(written, PATH) == KAFKAS


def test_markers_come_in_order() -> None:
    index = filled()
    with pytest.raises(ValueError, match="50"):
        index.append(ended(ENTRIES[-1]))
    assert list(index) == ENTRIES


@pytest.mark.parametrize(
    ("first", "end", "producers", "is_complete"),
    [
        (0, 100, [1, 2, 3, 4], False),
        (0, 5, [], True),
        (0, 6, [2], True),
        (10, 11, [1, 2], True),
        (15, 16, [1, 2], True),
        (16, 20, [2], True),
        (16, 21, [2], True),
        (16, 22, [2], True),
        (21, 22, [], True),
        (21, 30, [3], True),
        (21, 31, [3, 4], True),
        (41, 52, [4], False),
        (51, 51, [], True),
        (51, 52, [], False),
    ],
)
def test_collect(first: int, end: int, producers: list[int], is_complete: bool) -> None:
    found, is_all = filled().collect(first, end)
    assert ([entry.producer_id for entry in found], is_all) == (producers, is_complete)


@pytest.mark.parametrize("seed", range(20))
def test_random_ranges_beside_a_search_through_all_entries(seed: int) -> None:
    chance = random.Random(seed)
    entries, offset, stable = [], 0, 0
    for number in range(chance.choice((0, 1, 40, 255, 256, 257, 1000))):
        offset += chance.randint(1, 10)
        stable = chance.randint(stable, offset + 1)
        entries.append(AbortedTransaction(number, chance.randint(0, offset), offset, stable))
    disk = MemoryDisk()
    index = filled(entries, disk)
    if chance.random() < 0.5:
        index.store()
        index = loaded(disk)
    for _ in range(100):
        first = chance.randint(0, offset + 2)
        end = chance.randint(first + 1, offset + 5)
        found, is_complete = [], False
        for entry in entries:
            if entry.last_offset >= first and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                is_complete = True
                break
        answer, is_all = index.collect(first, end)
        assert answer == found
        # Entries before the range say nothing about later ones; if the search ends early, it misses nothing.
        assert is_all == is_complete


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_old_range_looks_at_few_entries_though_a_transaction_was_open(
    is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    entries = [AbortedTransaction(1, 10 * number + 5, 10 * number + 9, 3) for number in range(10_000)]
    entries[7_000] = AbortedTransaction(2, 8, 70_009, 3)
    entries[9_999] = AbortedTransaction(3, 3, 99_999, 100_000)
    index = filled(entries, disk)
    if is_loaded:
        index.store()
        index = loaded(disk)
    looked_at = []
    entry = index._entry

    def counted(number: int) -> AbortedTransaction:
        looked_at.append(number)
        return entry(number)

    monkeypatch.setattr(index, "_entry", counted)
    found = index.collect(10, 30)
    assert found == ([entries[1], entries[2], entries[7_000], entries[9_999]], True)
    assert len(looked_at) <= 900
    index.forget()
    assert index.collect(10, 30) == ([], False)


def test_only_what_is_new_is_written() -> None:
    disk = MemoryDisk()
    index = filled([], disk)
    assert not index.store()
    assert read_file(disk, PATH) is None
    index.append(ended(ENTRIES[0]))
    assert index.store()
    index.append(ended(ENTRIES[1]))
    calls = []
    disk.plan = calls.append
    assert not index.store()
    assert [call.name for call in calls] == ["open", "append", "sync"]
    assert not index.store()
    assert len(calls) == 3
    disk.plan = None
    assert list(loaded(disk)) == ENTRIES[:2]


def test_what_is_found_again_replaces_the_file() -> None:
    filled(disk=(disk := MemoryDisk())).store()
    index = loaded(disk)
    assert index.is_complete
    index.forget()
    assert (len(index), index.is_complete) == (0, False)
    index.append(ended(ENTRIES[1]))
    index.store()
    assert list(loaded(disk)) == [ENTRIES[1]]


@pytest.mark.parametrize("is_lossy", [False, True], ids=["kill", "power"])
def test_a_crash_leaves_the_old_file_or_what_was_found_again(is_lossy: bool) -> None:
    left = set()
    for number in range(1, 10):
        filled(disk=(disk := MemoryDisk())).store()
        disk.sync_folder("")
        index = loaded(disk)
        index.forget()
        for entry in ENTRIES[:2]:
            index.append(ended(entry))
        disk.plan = cut_power_at(disk.calls + number)
        with contextlib.suppress(PowerCut):
            index.store()
        left.add(tuple(loaded(disk.crash(number if is_lossy else None))))
    assert left == {tuple(ENTRIES), tuple(ENTRIES[:2])}


def test_the_file_goes_if_nothing_is_found_again() -> None:
    filled(disk=(disk := MemoryDisk())).store()
    index = loaded(disk)
    index.forget()
    assert index.store()
    assert read_file(disk, PATH) is None
    assert not index.store()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0\1" + KAFKAS[2:], "version 1"),
        (b"\xff\xff" + KAFKAS[2:], "version -1"),
        (KAFKAS[:10] + KAFKAS[26:] + KAFKAS[18:], "a transaction begins at offset 15 and ends at offset 14"),
        (KAFKAS[:-1], "the last entry has only 33 of 34 bytes"),
        (KAFKAS + b"\0", "the last entry has only 1 of 34 bytes"),
        (KAFKAS + KAFKAS, "a marker at offset 14 follows one at 14"),
        (b"\0\0" + bytes(32), "a marker at offset 0 follows one at 0"),
    ],
)
def test_a_damaged_file_leaves_the_index_incomplete(
    content: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    write_file(disk, PATH, content)
    index = loaded(disk, 1)
    assert (len(index), index.is_complete) == (0, False)
    assert reason in caplog.text
    index.append(ended(ENTRIES[0]))
    index.store()
    assert list(loaded(disk)) == ENTRIES[:1]
