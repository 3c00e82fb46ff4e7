"""A log ends transactions with markers, which wait, roll the log and fail like any other append.

Aborted transactions are in the index of the segment that contains the marker, whatever happens to the file.

Method: use in-memory logs, and background work that happens immediately or when the test releases it; let processes
crash, and damage or lose files.
"""

from __future__ import annotations

import dataclasses

import pytest

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.transaction_index import AbortedTransaction
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.transacting_logs import (
    CONFIG,
    FOLDER,
    SMALL,
    TransactingLog,
    aborted_in,
    index_files,
)

PRODUCER, OTHER = 1, 2


def test_a_marker_ends_a_transaction() -> None:
    log = TransactingLog()
    log.plain(b"before")
    log.append(PRODUCER, b"a", b"b")
    assert (log.log.high_watermark, log.log.last_stable_offset) == (3, 1)
    assert log.end(PRODUCER, is_commit=True) == Appended(3, 3, NO_TIMESTAMP)
    assert (log.log.high_watermark, log.log.last_stable_offset) == (4, 4)


def test_the_oldest_open_transaction_holds_back_what_is_stable() -> None:
    log = TransactingLog()
    log.append(PRODUCER, b"a")
    log.append(OTHER, b"b")
    log.commit(OTHER)
    assert log.log.last_stable_offset == 0
    log.append(OTHER, b"c")
    log.abort(PRODUCER)
    assert log.log.last_stable_offset == 3
    log.commit(OTHER)
    assert log.log.last_stable_offset == log.log.high_watermark == 6


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "code"),
    [
        (0, 5, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 4, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (1, 5, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_fencing(epoch: int, coordinator_epoch: int, version: int, code: ErrorCode) -> None:
    log = TransactingLog()
    log.append(PRODUCER, b"a", epoch=1)
    log.end(PRODUCER, True, 1, coordinator_epoch=5)
    log.append(PRODUCER, b"b", epoch=1)
    with pytest.raises(BrokerError) as refused:
        log.end(PRODUCER, True, epoch, coordinator_epoch, version)
    assert refused.value.code == code
    assert (log.log.next_offset, log.log.last_stable_offset) == (3, 2)


def test_a_transaction_begins_only_verified() -> None:
    log = TransactingLog()
    guard_of_another = TransactingLog().log.producers.begin_verification(
        PRODUCER, 0, 0, 0, has_epoch_per_transaction=False
    )
    log.log.producers.begin_verification = lambda *_, **__: guard_of_another  # type: ignore[method-assign]  # of another log
    with pytest.raises(BrokerError) as refused:
        log.append(PRODUCER, b"a")
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE


def test_markers_wait_for_a_new_segment_in_order() -> None:
    work = HeldWork()
    log = TransactingLog(SMALL, background=work)
    log.append(PRODUCER, b"x" * 300)
    waiting = [
        log.submit(OTHER, b"x" * 100),
        log.submit_end(PRODUCER, is_commit=True),
        log.submit_end(OTHER, is_commit=True),
    ]
    assert waiting == [[], [], []]
    work.run()
    assert [results[0].base_offset for results in waiting if isinstance(results[0], Appended)] == [1, 2, 3]
    assert len(log.log.segments) == 2
    assert log.log.last_stable_offset == 4


def test_a_marker_begins_a_segment_when_there_is_no_room() -> None:
    log = TransactingLog(SMALL)
    log.append(PRODUCER, b"x" * 360)
    log.abort(PRODUCER)
    assert log.log.segments.base_offsets == [0, 1]


def test_what_waits_is_answered_when_the_log_ends() -> None:
    work = HeldWork()
    log = TransactingLog(SMALL, background=work)
    log.append(PRODUCER, b"x" * 360)
    waiting = log.submit_end(PRODUCER, is_commit=True)
    log.log.fail(OSError("broken"))
    (error,) = waiting
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    (again,) = log.submit_end(PRODUCER, is_commit=True)
    assert again == error


# The index of aborted transactions.


def some_aborted(config: LogConfig = SMALL) -> TransactingLog:
    """Return a log of several segments in which every third transaction is committed."""
    log = TransactingLog(config)
    for number in range(12):
        log.append(PRODUCER, b"%d" % number, b"x" * 40)
        log.append(OTHER, b"other")
        log.end(PRODUCER, is_commit=number % 3 == 0)
        if number % 2:
            log.end(OTHER, is_commit=False)
    return log


def test_what_was_aborted_is_in_the_index_of_the_segment_with_the_marker() -> None:
    log = TransactingLog(SMALL)
    log.append(PRODUCER, b"x" * 300)
    log.plain(b"x" * 100)
    log.append(OTHER, b"b")
    assert log.abort(PRODUCER) == 3
    log.commit(OTHER)
    assert log.log.segments.base_offsets == [0, 1]
    assert aborted_in(log.log) == {1: [AbortedTransaction(PRODUCER, 0, 3, 2)]}


def test_a_log_without_aborted_transactions_has_no_index_of_them() -> None:
    log = TransactingLog(SMALL)
    for _ in range(5):
        log.append(PRODUCER, b"x" * 200)
        log.commit(PRODUCER)
    log.log.close()
    assert not index_files(log.disk)


def test_the_index_survives_a_shutdown() -> None:
    log = some_aborted()
    before = aborted_in(log.log)
    assert len(before) > 3
    log.log = log.closed()
    assert aborted_in(log.log) == before
    assert {base: len(content) for base, content in index_files(log.disk).items()} == {
        base: 34 * len(entries) for base, entries in before.items()
    }
    log.append(PRODUCER, b"more")
    marker = log.abort(PRODUCER)
    assert [entry for entries in aborted_in(log.log).values() for entry in entries][-1].last_offset == marker


@pytest.mark.parametrize("config", [SMALL, CONFIG], ids=["small", "one"])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_crash_rebuilds_the_index(config: LogConfig, is_reopened: bool) -> None:
    """This also holds if there is a snapshot in the middle of the last segment, as left by a clean shutdown."""
    log = some_aborted(config)
    if is_reopened:
        log.log = log.closed()
    log.append(PRODUCER, b"last")
    log.abort(PRODUCER)
    log.append(OTHER, b"open")
    before = aborted_in(log.log)
    again = log.opened(is_clean=False)
    assert aborted_in(again) == before
    assert again.last_stable_offset == log.log.last_stable_offset == again.next_offset - 1


def test_a_crash_that_loses_a_marker_loses_its_entry() -> None:
    log = TransactingLog()
    log.append(PRODUCER, b"a")
    log.abort(PRODUCER)
    log.append(PRODUCER, b"b")
    end = log.log.size_bytes
    log.abort(PRODUCER)
    log.log.close()
    assert len(index_files(log.disk)[0]) == 2 * 34
    log.disk.open(f"{FOLDER}/{0:020}.log").truncate(end + 10)
    again = log.opened(is_clean=False)
    assert aborted_in(again) == {0: [AbortedTransaction(PRODUCER, 0, 1, 2)]}
    assert again.last_stable_offset == 2
    again.close()
    assert len(index_files(log.disk)[0]) == 34


def test_the_file_goes_when_a_crash_has_lost_all_markers() -> None:
    log = TransactingLog()
    log.append(PRODUCER, b"a")
    end = log.log.size_bytes
    log.abort(PRODUCER)
    log.log.close()
    log.disk.open(f"{FOLDER}/{0:020}.log").truncate(end)
    again = log.opened(is_clean=False)
    assert not aborted_in(again)
    again.close()
    assert not index_files(log.disk)


@pytest.mark.parametrize("number", range(4))
def test_a_damaged_index_is_rebuilt(number: int, caplog: pytest.LogCaptureFixture) -> None:
    log = some_aborted()
    before = aborted_in(log.log)
    log.log.close()
    files = index_files(log.disk)
    base = sorted(files)[number]
    log.disk.open(f"{FOLDER}/{base:020}.txnindex").truncate(33)
    again = log.opened(is_clean=True, recovery_point=log.log.recovery_point)
    assert aborted_in(again) == before
    assert "it is rebuilt" in caplog.text
    again.close()
    assert index_files(log.disk) == files


def test_a_damaged_index_is_rebuilt_without_snapshots() -> None:
    log = some_aborted()
    before = aborted_in(log.log)
    log.log.close()
    for name in log.disk.names(FOLDER):
        if name.endswith(".snapshot"):
            log.disk.remove(f"{FOLDER}/{name}")
        if name.endswith(".txnindex"):
            log.disk.open(f"{FOLDER}/{name}").truncate(1)
    assert aborted_in(log.opened(is_clean=True, recovery_point=log.log.recovery_point)) == before


def test_what_is_durable_has_its_entries() -> None:
    """A segment that is durable to its end is not read again after a crash, even if it was still active."""
    log = TransactingLog(dataclasses.replace(SMALL, flush_messages=1))
    log.append(PRODUCER, b"x" * 300)
    log.abort(PRODUCER)
    assert isinstance(log.disk, MemoryDisk)
    left = log.disk.crash(0)
    # The existence of the next segment shows that the first one is complete.
    left.open(f"{FOLDER}/{2:020}.log", create=True)
    again = log.opened(is_clean=False, disk=left, recovery_point=2)
    assert again.segments.base_offsets == [0, 2]
    assert aborted_in(again) == {0: [AbortedTransaction(PRODUCER, 0, 1, 2)]}


def test_the_index_goes_with_its_segment() -> None:
    log = some_aborted()
    log.log.close()
    log.log.segments.first.delete()
    assert not [name for name in log.disk.names(FOLDER) if name.startswith(f"{0:020}.") and "snapshot" not in name]


def test_an_index_without_its_segment_is_removed() -> None:
    log = some_aborted()
    log.log.close()
    base = log.log.segments.base_offsets[1]
    log.disk.remove(f"{FOLDER}/{base:020}.log")
    log.opened(is_clean=True, recovery_point=log.log.recovery_point)
    assert base not in index_files(log.disk)


@pytest.mark.parametrize("left", [b"", b"\xff" * 34, None], ids=["gone", "wrong", "snapshot"])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("number", "offset"), [(14, 1), (5, 4), (6, 3), (5, 11), (2, 2**62)])
def test_a_damaged_offset_does_not_stop_a_log_from_opening(
    number: int, offset: int, left: bytes | None, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Markers before the last one used to raise ValueError; transactions with equal first offsets, KeyError."""
    log = TransactingLog()
    for _ in range(4):
        log.append(PRODUCER, b"v")
        log.append(OTHER, b"v")
        log.abort(PRODUCER)
        log.abort(OTHER)
    position = [header.position for _, header in log.log.headers()][number]
    log.log.close()
    path = f"{FOLDER}/{0:020}.log"
    content = bytearray(read_file(log.disk, path) or b"")
    content[position : position + 8] = offset.to_bytes(8, "big")
    write_file(log.disk, path, bytes(content))
    kind = ".snapshot" if left is None else ".txnindex"
    for name in log.disk.names(FOLDER):
        if name.endswith(kind):
            write_file(log.disk, f"{FOLDER}/{name}", left or b"x")
    again = log.opened(is_clean=is_clean, recovery_point=16)
    assert not again.is_offline
    end = 12 if (number, offset) == (5, 11) else number
    assert again.next_offset == (16 if is_clean else end)
    if left is None and is_clean:
        assert "its producers may be unknown" in caplog.text
