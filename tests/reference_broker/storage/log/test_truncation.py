"""A truncation keeps everything before its offset; a crash at any step leaves either the old log or the truncated one.

Method: truncate a log with transactions in several segments on an in-memory disk, at each offset; for some offsets, cut
the power or kill the process at each disk call, and then open the log and compare it with both.
"""

from __future__ import annotations

import dataclasses
import errno

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at
from kafkawire.reference_broker.storage.log.truncation import (
    TRUNCATION,
    Truncation,
    begin_truncation,
    cut_files,
    end_truncation,
    pending_truncation,
    resolve,
)
from kafkawire.reference_broker.storage.producers.markers import Marker
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import (
    FOLDER,
    SMALL,
    Replica,
    batches_of,
    files_of,
    placed,
    rebuilt,
    state_of,
)
from tests.thorough import sampled


def filled(config=SMALL):
    """Return a replica with five epochs, each with transactions of two records, markers and plain batches of three."""
    replica = Replica(config)
    log = replica.log
    for number in range(15):
        if number % 3 == 0:
            log.lead(number // 3)
        data = produced(
            b"t", b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=2 * number, is_transactional=True
        )
        guard = log.producers.begin_verification(7, 0, 2 * number, NOW_MS, has_epoch_per_transaction=False)
        log.append(data, parse_header(data), NOW_MS, lambda result: None, verification=guard)
        data = produced(b"p", b"q", b"%d" % number)
        log.append(data, parse_header(data), NOW_MS + number, lambda result: None)
        log.append_marker(Marker(7, 0, number % 2 > 0, 0), 0, NOW_MS, lambda result: None)
    assert log.next_offset == 90
    assert len(log.segments) > 5
    log.sync()
    log.set_high_watermark(50)
    replica.checkpoint()
    return replica


END = 90


@pytest.mark.parametrize("offset", [*range(0, END, 7), 89, 90, 99])
def test_everything_before_the_end_stays_and_all_state_goes_back(offset):
    replica = filled()
    before, log = batches_of(replica.log), replica.log
    replica.truncate_to(offset)
    assert batches_of(log) == {
        base: data for base, data in before.items() if base + parse_header(data).last_offset_delta < offset
    }
    assert offset - 3 < log.next_offset <= offset or log.next_offset == END
    assert state_of(log) == state_of(rebuilt(replica))
    assert log.recovery_point <= log.next_offset
    assert TRUNCATION not in replica.disk.names(FOLDER)
    # The log can be appended to and reopened.
    data = produced(b"new")
    log.lead(9)
    log.append(data, parse_header(data), NOW_MS, lambda result: None)
    end = log.next_offset
    replica.crash()
    assert replica.log.next_offset == end
    assert replica.log.epochs.current == 9


@pytest.mark.parametrize("offset", [0, 5, 90, 1000])
def test_start_elsewhere(offset):
    replica = filled()
    replica.start_at(offset)
    log = replica.log
    assert (log.log_start_offset, log.high_watermark, log.next_offset) == (offset, offset, offset)
    assert (len(log.producers), log.epochs.entries(), log.size_bytes) == (0, [], 0)
    assert files_of(replica.disk) == {f"{offset:020}.log": b""}
    assert files_of(replica.disk, ".snapshot") == {}
    replica.crash()
    assert replica.log.next_offset == replica.log.log_start_offset == offset


def test_nothing_is_readable_before_the_end():
    replica = filled()
    replica.log.begin_at(44)
    before = replica.log.next_offset
    replica.truncate_to(45)  # inside the batch from about 42 to 44, so only deleted records would remain
    assert replica.log.log_start_offset <= replica.log.next_offset <= 45 < before
    replica.truncate_to(20)
    assert (replica.log.log_start_offset, replica.log.next_offset) == (20, 20)


def calls_of(truncate):
    replica, calls = filled(), []
    replica.disk.plan = calls.append
    truncate(replica)
    return len(calls)


@pytest.mark.parametrize("seed", sampled([None, 1, 2], 3))
@pytest.mark.parametrize(
    "truncate",
    [
        lambda replica: replica.truncate_to(61),
        lambda replica: replica.truncate_to(3),
        lambda replica: replica.start_at(200),
    ],
    ids=["in the middle", "at the start", "elsewhere"],
)
def test_crash_at_every_step_leaves_the_old_log_or_the_truncated_one(truncate, seed):
    old, new = filled(), filled()
    truncate(new)
    expected = []
    for replica in (old, new):
        replica.crash()
        expected.append((batches_of(replica.log), state_of(replica.log)))
    found = []
    for number in range(1, calls_of(truncate) + 1):
        replica = filled()
        replica.disk.plan = cut_power_at(replica.disk.calls + number)
        with pytest.raises(PowerCut):
            truncate(replica)
        replica.crash(None if seed is None else 1000 * seed + number)
        assert TRUNCATION not in replica.disk.names(FOLDER)
        state = batches_of(replica.log), state_of(replica.log)
        found.append(expected.index(state))
        # New appends survive, whatever an earlier checkpoint says.
        data = produced(b"after")
        replica.log.lead(9)
        replica.log.append(data, parse_header(data), NOW_MS, lambda result: None)
        replica.log.sync()
        end = replica.log.next_offset
        replica.crash(number)
        assert replica.log.next_offset == end
    assert found == sorted(found), "once truncated, it stays truncated" if seed is None else ""
    assert set(found) == {0, 1}


@pytest.mark.parametrize("content", [b"", b"7\n", b"7 8", b"x 8\n", b"-1 8\n", b"7 -8\n", b"\0" * 8])
def test_damaged_decision_is_ignored(caplog, content):
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    write_file(disk, f"{FOLDER}/{TRUNCATION}", content)
    assert pending_truncation(disk, FOLDER) is None
    assert "does not describe a truncation" in caplog.text
    assert disk.names(FOLDER) == []


def test_decision_is_read_until_it_is_forgotten():
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    assert pending_truncation(disk, FOLDER) is None
    begin_truncation(disk, FOLDER, Truncation(3, 8))
    assert read_file(disk, f"{FOLDER}/{TRUNCATION}") == b"3 8\n"
    assert pending_truncation(disk, FOLDER) == Truncation(3, 8)
    end_truncation(disk, FOLDER)
    assert pending_truncation(disk, FOLDER) is None


def test_gap_of_compaction_stays_before_the_end():
    replica = Replica(dataclasses.replace(SMALL, is_compacted=True))
    for offset in (0, 20):
        replica.follow(placed(produced(b"a"), offset), 0)
    replica.truncate_to(10)
    assert replica.log.next_offset == 10
    assert list(batches_of(replica.log)) == [0]


def test_damage_before_the_end_ends_the_log_there(caplog):
    replica = filled()
    name = sorted(files_of(replica.disk))[0]
    content = bytearray(files_of(replica.disk)[name])
    content[100] ^= 1
    write_file(replica.disk, f"{FOLDER}/{name}", bytes(content))
    cut = cut_files(replica.disk, FOLDER, SMALL, Truncation(0, 5))
    assert cut.end_offset == cut.tail.next_offset == 2, "the second batch is damaged"
    assert "cutting off" in caplog.text


@pytest.mark.parametrize("offset", [60, 61, 62, 63, 64])
def test_repetition_cuts_where_the_first_attempt_did(offset):
    once, replica = filled(), filled()
    once.truncate_to(offset)
    failures, results = [], []

    def plan(call):
        if call.name == "truncate":
            replica.disk.plan = fail

    def fail(call):
        if call.name in ("open", "create", "names"):
            failures.append(call)
            raise OSError(errno.EMFILE, "planned", call.path)

    replica.disk.plan = plan
    replica.log.truncate_to(offset, results.append)
    assert failures
    assert not results
    replica.disk.plan = None
    replica.log._services.timers.fire(10**13)
    assert results == [None]
    assert state_of(replica.log) == state_of(once.log)


def test_resolved_truncation_ends_at_a_batch():
    disk = filled().disk
    for start, end, expected in (
        (0, 61, (0, 60)),
        (0, 60, (0, 60)),
        (60, 61, (60, 60)),
        (7, 7, (7, 7)),
        (0, 99, (0, 99)),
    ):
        assert resolve(disk, FOLDER, Truncation(start, end)) == expected


@pytest.mark.parametrize("offset", [390, 100], ids=["last segment", "stored segment"])
def test_the_tail_is_read_twice(monkeypatch, offset):
    """The tail is read once to be checked and once for its producers; an index shows where to cut."""
    replica = Replica(dataclasses.replace(SMALL, segment_bytes=2**20, index_interval_bytes=4096))
    for number in range(400):
        data = produced(b"x" * 4_000, producer_id=7, producer_epoch=0, base_sequence=number)
        replica.log.append(data, parse_header(data), NOW_MS, lambda result: None)
    assert len(replica.log.segments) == 2
    (tail, *_), read = replica.log.segments.since(offset), []
    kind, path = type(tail.file), f"{FOLDER}/{tail.base_offset:020}.log"
    file_read = kind.read

    def counted(file, position, size_bytes):
        found = file_read(file, position, size_bytes)
        if file._path == path:
            read.append(len(found))
        return found

    monkeypatch.setattr(kind, "read", counted)
    replica.truncate_to(offset)
    left = replica.log.segments.last.size_bytes
    assert replica.log.next_offset == offset
    assert left < sum(read) < 2 * left + 50_000, "at most, the tail is read twice, plus a little to find its end"


def test_an_index_that_is_wrong_does_not_keep_what_has_to_go():
    replica = Replica(dataclasses.replace(SMALL, segment_bytes=10_000))
    for _ in range(30):
        data = produced(b"x" * 20)
        replica.log.append(data, parse_header(data), NOW_MS, lambda result: None)
    index = replica.log.segments.last._index
    assert index.position_for(20)
    for entry, position in enumerate(index._values):
        index._values[entry] = position + 7
    replica.truncate_to(20)
    assert replica.log.next_offset == 20
