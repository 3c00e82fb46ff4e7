"""Fetched batches are checked and appended unchanged, which makes a follower's segments equal to its leader's.

Method: append batches that are each damaged, cut off or misplaced in one way, and follow leaders that roll for each
reason.
"""

from __future__ import annotations

import dataclasses
import struct

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.fetched_batches import check_fetched
from kafkawire.reference_broker.storage.producers.markers import Marker, build_marker
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records import MessageSetBuilder, crc32c
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import (
    CONFIG,
    FOLDER,
    SMALL,
    Replica,
    batches_of,
    fetched,
    files_of,
    placed,
    rebuilt,
    state_of,
)

FIRST = placed(produced(b"a", b"b"), 10, 2)
SECOND = placed(produced(b"c"), 12, 3)


def offsets_of(data: bytes, leader_epoch: int = 9) -> list[int]:
    return [batch.base_offset for batch in check_fetched(data, leader_epoch).batches]


def changed(data: bytes, at: int, new: bytes, *, has_right_checksum: bool = False) -> bytes:
    content = bytearray(data)
    content[at : at + len(new)] = new
    if has_right_checksum:
        content[17:21] = struct.pack(">I", crc32c(bytes(content[21:])))
    return bytes(content)


def test_whole_batches_count_wherever_the_buffer_is_cut():
    data = FIRST + SECOND
    for end in range(len(data) + 1):
        assert offsets_of(data[:end]) == [10, 12][: (end >= len(FIRST)) + (end == len(data))]


@pytest.mark.parametrize(("leader_epoch", "offsets"), [(1, []), (2, [10]), (3, [10, 12])])
def test_batches_of_a_later_leader_are_left_out(leader_epoch, offsets):
    assert offsets_of(FIRST + SECOND, leader_epoch) == offsets


def message_set() -> bytes:
    builder = MessageSetBuilder(1)
    builder.append(NOW_MS, b"k", b"v" * 60)
    return bytes(builder.build())


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (changed(FIRST, 70, b"!"), ErrorCode.CORRUPT_MESSAGE, "checksum"),
        (FIRST + changed(SECOND, 65, b"!"), ErrorCode.CORRUPT_MESSAGE, "at offset 12 is damaged: crc"),
        (FIRST + FIRST, ErrorCode.CORRUPT_MESSAGE, "expected offsets from 12 to"),
        (SECOND + FIRST, ErrorCode.CORRUPT_MESSAGE, "expected offsets from 13 to"),
        (
            changed(FIRST, 23, struct.pack(">i", -1), has_right_checksum=True),
            ErrorCode.CORRUPT_MESSAGE,
            "got 10 to 9",
        ),
        (placed(produced(b"a"), 2**63 - 1), ErrorCode.CORRUPT_MESSAGE, "expected offsets from 0 to"),
        (placed(produced(b"a"), -5), ErrorCode.CORRUPT_MESSAGE, "expected offsets from 0 to"),
        (placed(produced(b"a"), 0, -1), ErrorCode.CORRUPT_MESSAGE, "the leader epoch must be 0 or higher, got -1"),
        (
            changed(FIRST, 8, struct.pack(">i", 20)),
            ErrorCode.CORRUPT_MESSAGE,
            "a batch must have at least 61 bytes, got 32",
        ),
        (changed(FIRST, 16, b"\3"), ErrorCode.CORRUPT_MESSAGE, "magic 2, got 3"),
        (message_set(), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "magic 2, got 1"),
    ],
)
def test_refused(data, code, reason):
    with pytest.raises(BrokerError, match=reason) as raised:
        check_fetched(data, 9)
    assert raised.value.code == code
    # The log must stay unchanged.
    replica = Replica()
    with pytest.raises(BrokerError):
        replica.follow(data, 9, 0)
    assert (replica.log.next_offset, replica.log.size_bytes, replica.log.error) == (0, 0, None)


def test_offsets_may_be_far_apart():
    far = placed(produced(b"c"), 2**40, 3)
    assert offsets_of(FIRST + far + placed(produced(b"d"), 2**41, 3)) == [10, 2**40, 2**41]
    replica = Replica()
    replica.follow(FIRST + far + placed(produced(b"d"), 2**41, 3), 9)
    assert replica.log.segments.base_offsets == [0, 2**40, 2**41]
    assert list(batches_of(replica.log)) == [10, 2**40, 2**41]


def test_damaged_marker_is_refused():
    data, _ = build_marker(Marker(1, 0, True, 0), NOW_MS)
    content = placed(bytearray(data), 0)
    assert check_fetched(content, 0).markers[0][0].marker == Marker(1, 0, True, 0)
    # This is the version of the marker's key, which cannot be negative.
    at = content.rindex(b"\0\0\0\1")
    with pytest.raises(BrokerError, match="offset 0 is damaged"):
        check_fetched(changed(content, at, b"\xff\xff", has_right_checksum=True), 0)


@pytest.mark.parametrize(
    ("from_offset", "offset", "is_taken"),
    [(3, 3, True), (3, 7, True), (3, 2, False), (3, 0, False), (2, 3, False), (4, 4, False)],
    ids=["next", "gap", "overlap", "before", "fetched before", "fetched after"],
)
def test_batches_follow_the_log(from_offset, offset, is_taken):
    replica = Replica()
    replica.follow(placed(produced(b"a", b"b", b"c"), 0), 0)
    data = placed(produced(b"d", b"e"), offset)
    if is_taken:
        result = replica.follow(data, 0, from_offset)
        assert (result.base_offset, result.last_offset) == (offset, offset + 1)
    else:
        with pytest.raises(BrokerError, match="the log ends at 3") as raised:
            replica.follow(data, 0, from_offset)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert list(batches_of(replica.log)) == [0]


def test_first_batch_of_an_empty_log_may_begin_before_its_start():
    replica = Replica()
    replica.start_at(8)
    data = placed(produced(*b"abcdefgh".split(b"|"), b"2", b"3", b"4", b"5", b"6"), 5)
    with pytest.raises(BrokerError, match="the log ends at 8"):
        replica.follow(placed(produced(b"a"), 5), 0)
    replica.follow(data + placed(produced(b"c"), 11), 0)
    assert (replica.log.log_start_offset, replica.log.next_offset) == (8, 12)
    assert list(files_of(replica.disk)) == [f"{5:020}.log"]
    replica.log.sync()
    replica.checkpoint()
    replica.crash(3)
    assert (replica.log.log_start_offset, replica.log.next_offset) == (8, 12)


def test_nothing_whole():
    replica = Replica()
    result = replica.follow(FIRST[:-1], 9)
    assert (result.base_offset, result.last_offset) == (0, -1)


def test_a_part_takes_one_write():
    replica, calls = Replica(CONFIG), []
    replica.follow(placed(produced(b"a"), 0), 0)
    replica.disk.plan = calls.append
    replica.follow(b"".join(placed(produced(b"b"), offset) for offset in range(1, 100)), 0)
    assert [call.name for call in calls] == ["append"]


CONFIGS = {
    "size": SMALL,
    "index": dataclasses.replace(CONFIG, segment_index_bytes=40, index_interval_bytes=80),
    "time index": dataclasses.replace(CONFIG, segment_index_bytes=36, index_interval_bytes=0),
    "age": dataclasses.replace(CONFIG, segment_ms=60, segment_jitter_ms=20),
    "never": CONFIG,
    "append time": dataclasses.replace(SMALL, is_log_append_time=True),
}


@pytest.mark.parametrize("max_bytes", [1, 400, 2**20])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_segments_equal_those_of_the_leader_byte_for_byte(config, max_bytes):
    leader, follower = Replica(config), Replica(config, MemoryDisk())
    log = leader.log
    for number in range(40):
        if number % 10 == 0:
            log.lead(number)
        kind = Compression.GZIP if number % 4 == 0 else Compression.NONE
        at_ms = NOW_MS + 3 * number
        data = produced(
            b"%d" % number * 5,
            b"x",
            timestamps=(at_ms, at_ms - 1),
            compression=kind,
            producer_id=number % 3,
            producer_epoch=0,
            base_sequence=2 * (number // 3),
        )
        log.append(data, parse_header(data), at_ms, lambda result: None)
        if number % 7 == 6:
            log.append_marker(Marker(number % 3, 0, number % 2 > 0, 0), 0, at_ms, lambda result: None)
    while follower.log.next_offset < log.next_offset:
        follower.follow(fetched(log, follower.log.next_offset, max_bytes), 99)
        follower.log.set_high_watermark(log.next_offset)
    log.set_high_watermark(log.next_offset)
    assert state_of(follower.log) == state_of(log) == state_of(rebuilt(follower))
    leader.stop()
    follower.stop()
    assert len(files_of(leader.disk)) > 2 or config is CONFIG
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint"):
        assert files_of(follower.disk, suffix) == files_of(leader.disk, suffix), suffix


@pytest.mark.parametrize("call", ["append", "create"])
def test_failed_disk_ends_the_log(call):
    replica = Replica()
    replica.follow(placed(produced(b"a"), 0), 0)

    def fail(each):
        if each.name == call:
            raise OSError(5, "planned", each.path)

    replica.disk.plan = fail
    with pytest.raises(BrokerError) as raised:
        replica.follow(b"".join(placed(produced(b"b" * 50), offset) for offset in range(1, 30)), 0)
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(BrokerError):
        replica.follow(placed(produced(b"a"), 1), 0)
    replica.disk.plan = None
    before = replica.log.next_offset
    replica.crash()
    assert replica.log.next_offset == before
    assert FOLDER in replica.disk.names("")


def test_a_part_takes_one_write_for_each_segment():
    replica, calls = Replica(), []
    replica.disk.plan = calls.append
    replica.follow(b"".join(placed(produced(b"b"), offset) for offset in range(100)), 0)
    writes = [call for call in calls if call.name == "append" and call.path.endswith(".log")]
    assert len(writes) == len(replica.log.segments) > 10
