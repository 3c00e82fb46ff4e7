"""A reopened log has its former producer state, from snapshots, batches, or both.

Method: use a list of batches in place of the log, and snapshots that are missing, damaged, or in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from kafkawire.reference_broker.storage.batches import BatchHeader, parse_header
from kafkawire.reference_broker.storage.disk.disk import Disk, read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.producers.producer_snapshots import encode_snapshot, producer_state_entries
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots, load_producers, note_stored
from kafkawire.reference_broker.storage.producers.producers import AppendedBatch, CompletedTransaction, Producers
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.records import BatchBuilder, empty_batch, stamp
from kafkawire.sdk.records.control import end_transaction_marker
from tests.reference_broker.storage.produced_batches import NOW_MS, produced


class Stored:
    """An in-memory log: batches of one record, each at the offset that equals its index."""

    def __init__(self, batches: Iterable[Buffer]) -> None:
        self.content = b""
        self.headers: list[BatchHeader] = []
        self.asked: list[int] = []
        for data in batches:
            view = bytearray(data)
            stamp(view, len(self.headers), 0)
            self.headers.append(parse_header(view, 0, len(self.content)))
            self.content += view

    def read(self, position: int, size_bytes: int) -> bytes:
        return self.content[position : position + size_bytes]

    def batches(self, offset: int, end_offset: int) -> Iterator[tuple[Stored, BatchHeader]]:
        self.asked.append(offset)
        for header in self.headers[offset:end_offset]:
            yield self, header

    def producers(self, until: int | None = None) -> Producers:
        producers = Producers()
        for header in self.headers[:until]:
            note_stored(producers, self, header)
        return producers


def marker(producer_id: int, is_commit: bool, coordinator_epoch: int = 3) -> bytes:
    builder = BatchBuilder(
        1000, producer_id=producer_id, producer_epoch=0, base_sequence=-1, is_transactional=True, is_control=True
    )
    builder.append(NOW_MS, *end_transaction_marker(is_commit, coordinator_epoch))
    return bytes(builder.build())


def transactional(producer_id: int) -> bytes:
    builder = BatchBuilder(1000, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    builder.append(NOW_MS, b"k", b"v")
    return bytes(builder.build())


STORED = Stored(
    [
        produced(b"0", producer_id=1, producer_epoch=0, base_sequence=0),
        produced(b"1"),
        produced(b"2", producer_id=1, producer_epoch=0, base_sequence=1),
        transactional(5),
        transactional(6),
        produced(b"5", producer_id=2, producer_epoch=4, base_sequence=9),
        marker(5, is_commit=False),
        produced(b"7", producer_id=1, producer_epoch=0, base_sequence=2),
    ]
)
END = len(STORED.headers)
FOLDER = "t-0"


@pytest.fixture
def disk() -> MemoryDisk:
    """Return a disk with an empty partition folder."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    return disk


def snapshots_of(disk: Disk) -> Snapshots:
    found = Snapshots(disk, FOLDER)
    found.find()
    return found


def load(disk: Disk, *, is_clean: bool = False, base_offsets: Iterable[int] = (0,)) -> Producers:
    STORED.asked.clear()
    return load_producers(snapshots_of(disk), list(base_offsets), END, STORED.batches, is_clean=is_clean)


def path_of(offset: int) -> str:
    return f"{FOLDER}/{offset:020}.snapshot"


def names(disk: Disk) -> list[int]:
    return [int(name.partition(".")[0]) for name in disk.names(FOLDER)]


def test_what_is_found_in_the_log() -> None:
    producers = STORED.producers()
    assert (producers.end_offset, producers.first_unstable_offset) == (END, 3)
    by_id = {found.producer_id: found for found in producers}
    assert (by_id[5].transaction_start, by_id[5].coordinator_epoch) == (None, 3)
    assert by_id[6].transaction_start == 4
    assert [entry.last_offset for entry in by_id[1].batches] == [0, 2, 7]


def test_the_transactions_that_a_batch_ends() -> None:
    producers = STORED.producers(6)
    assert note_stored(producers, STORED, STORED.headers[6]) == [CompletedTransaction(5, 3, 6, True, 4)]
    assert note_stored(producers, STORED, STORED.headers[6]) == []


def test_what_compaction_has_left() -> None:
    left = empty_batch(base_offset=0, last_offset_delta=3, producer_id=8, producer_epoch=1, base_sequence=4)
    ended = empty_batch(base_offset=0, last_offset_delta=0, producer_id=8, is_control=True, is_transactional=True)
    producers = Stored([left, ended]).producers()
    (found,) = producers
    assert (found.last_sequence, found.epoch, found.batches[-1].offset_delta) == (7, 1, 3)


@pytest.mark.parametrize("at", [None, *range(1, END + 1)])
def test_a_snapshot_and_what_follows_it(disk: MemoryDisk, at: int | None) -> None:
    if at is not None:
        snapshots_of(disk).prepared(STORED.producers(at))()
        assert names(disk) == [at]
    producers = load(disk)
    assert STORED.asked == ([] if at == END else [at or 0])
    assert producers.end_offset == END
    assert encode_snapshot(producer_state_entries(producers)) == encode_snapshot(
        producer_state_entries(STORED.producers())
    )


def test_a_snapshot_that_a_power_cut_took_is_durable_before_anything_else(disk: MemoryDisk) -> None:
    disk.sync_folder("")
    load(disk, base_offsets=(0, 4))
    for seed in range(20):
        after = disk.crash(seed)
        assert names(after) == [4]
        assert read_file(after, path_of(4)) == encode_snapshot(producer_state_entries(STORED.producers(4)))


def test_a_log_that_was_closed_without_a_snapshot_had_no_producers(disk: MemoryDisk) -> None:
    assert len(load(disk, is_clean=True)) == 0
    assert STORED.asked == []


def test_a_damaged_snapshot_is_removed(disk: MemoryDisk, caplog: pytest.LogCaptureFixture) -> None:
    snapshots = snapshots_of(disk)
    for at in (2, 5):
        snapshots.prepared(STORED.producers(at), is_last=True)()
    write_file(disk, path_of(5), (read_file(disk, path_of(5)) or b"")[:-1])
    producers = load(disk, base_offsets=(0, 2))
    assert STORED.asked == [2]
    assert encode_snapshot(producer_state_entries(producers)) == encode_snapshot(
        producer_state_entries(STORED.producers())
    )
    assert names(disk) == [2]
    assert "offset 5 is damaged" in caplog.text


def test_the_last_snapshot_is_synced_once(disk: MemoryDisk) -> None:
    synced: list[str] = []
    disk.plan = lambda call: synced.append(call.path) if call.name == "sync" else None
    snapshots = snapshots_of(disk)
    snapshots.prepared(STORED.producers(2))()
    assert synced == []
    snapshots.sync_from(2)
    snapshots.prepared(STORED.producers(5), is_last=True)()
    snapshots.sync_from(5)
    assert synced == [path_of(2), path_of(5)]


def test_which_snapshots_are_kept(disk: MemoryDisk) -> None:
    snapshots = snapshots_of(disk)
    for at in (1, 2, 4, 6, END):
        snapshots.prepared(STORED.producers(at))()
    write_file(disk, path_of(END + 3), b"of a log that was longer")
    for name in ("notes", "7", "a" * 20):
        write_file(disk, f"{FOLDER}/{name}.snapshot", b"not one of them")
    load(disk, base_offsets=(0, 2, 4))
    for name in ("notes", "7", "a" * 20):
        disk.remove(f"{FOLDER}/{name}.snapshot")
    assert names(disk) == [2, 4]
    assert STORED.asked == [4]


def test_a_snapshot_that_could_not_be_removed_still_counts(disk: MemoryDisk) -> None:
    snapshots = Snapshots(disk, "t-0")
    snapshots.store(Stored([transactional(1)]).producers())
    disk.plan = fail_at(disk.calls + 1)
    with pytest.raises(OSError, match="planned"):
        snapshots.remove(1)
    assert snapshots.offsets == [1]
    disk.plan = None
    snapshots.remove(1)
    assert snapshots.offsets == []


def test_snapshots_that_are_retired_do_not_count_any_more(disk: MemoryDisk) -> None:
    snapshots = snapshots_of(disk)
    for at in (1, 2, 4):
        snapshots.prepared(STORED.producers(at))()
    assert snapshots.retire([4, 1, 3]) == [f"{path_of(at)}.deleted" for at in (1, 4)]
    assert snapshots.offsets == [2]


def test_a_snapshot_is_written_once(disk: MemoryDisk) -> None:
    snapshots = snapshots_of(disk)
    producers = STORED.producers()
    snapshots.prepared(producers)()
    write_file(disk, path_of(END), b"as it was")
    snapshots.prepared(producers, is_last=True)()
    assert read_file(disk, path_of(END)) == b"as it was"


def test_a_snapshot_is_of_the_moment_in_which_it_was_prepared(disk: MemoryDisk) -> None:
    producers = STORED.producers(2)
    write = snapshots_of(disk).prepared(producers)
    note_stored(producers, STORED, STORED.headers[2])
    write()
    assert read_file(disk, path_of(2)) == encode_snapshot(producer_state_entries(STORED.producers(2)))


def test_a_snapshot_whose_sync_has_failed_is_written_anew(disk: MemoryDisk) -> None:
    write = snapshots_of(disk).prepared(STORED.producers(), is_last=True)
    disk.plan = fail_at(disk.calls + 4)
    with pytest.raises(OSError, match="planned, sync"):
        write()
    write()
    assert read_file(disk, path_of(END)) == encode_snapshot(producer_state_entries(STORED.producers()))


def sent(sequence: int, producer_id: int = 1, epoch: int = 0) -> bytes:
    return bytes(produced(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([sent(n) for n in range(3)], [0, 1, 2]),
        ([sent(n) for n in range(9)], [4, 5, 6, 7, 8]),
        ([sent(0), sent(1), sent(3), sent(4)], [3, 4]),
        ([sent(0), sent(1), sent(0, epoch=1), sent(1, epoch=1)], [0, 1]),
        ([sent(0), sent(7, producer_id=2), sent(1), sent(8, producer_id=2)], [0, 1]),
        ([sent(2**31 - 1), sent(0), sent(1)], [2**31 - 1, 0, 1]),
    ],
)
def test_batches_before_the_last_one_are_found_again(
    disk: MemoryDisk, batches: list[bytes], expected: list[int]
) -> None:
    stored = Stored(batches)
    end = stored.headers[-1].last_offset + 1
    running = stored.producers(end)
    snapshots_of(disk).prepared(running)()

    def batches_of(recalled_from: int | None) -> list[AppendedBatch]:
        found = load_producers(
            snapshots_of(disk), [0], end, stored.batches, is_clean=False, recalled_from=recalled_from
        ).get(1)
        assert found is not None
        return list(found.batches)

    assert [batch.last_sequence for batch in batches_of(0)] == expected
    known = running.get(1)
    assert known is not None
    assert batches_of(0) == list(known.batches)[-len(expected) :]
    assert [batch.last_sequence for batch in batches_of(None)] == expected[-1:]


@pytest.mark.parametrize(
    ("committed_to", "marker_from", "read_from"),
    [(8, None, []), (7, 7, []), (6, 6, [3]), (2, 2, [0])],
    ids=["all decided", "ended before", "ended after", "before each snapshot"],
)
def test_older_snapshot_counts_only_while_a_later_marker_is_undecided(
    disk: MemoryDisk, committed_to: int, marker_from: int | None, read_from: list[int]
) -> None:
    for at in (3, END):
        snapshots_of(disk).prepared(STORED.producers(at))()
    asked = []

    def has_markers(from_offset: int, end_offset: int) -> bool:
        asked.append((from_offset, end_offset))
        return any(header.is_control for header in STORED.headers[from_offset:end_offset])

    STORED.asked.clear()
    load_producers(
        snapshots_of(disk),
        [0, 3],
        END,
        STORED.batches,
        is_clean=True,
        committed_to=committed_to,
        has_markers=has_markers,
    )
    assert STORED.asked == read_from
    assert asked == ([] if marker_from is None else [(marker_from, END)])


def test_snapshot_of_producers_without_transactions_is_complete(disk: MemoryDisk) -> None:
    stored = Stored([produced(b"0", producer_id=1, producer_epoch=0, base_sequence=number) for number in range(4)])
    for at in (1, 4):
        snapshots_of(disk).prepared(stored.producers(at))()
    load_producers(snapshots_of(disk), [0, 1], 4, stored.batches, is_clean=True, committed_to=3)
    assert stored.asked == []
