"""A snapshot of segments is searched by offset and by time, and does not change while the log continues.

Method: use three small segments on an in-memory disk; `test_partition_log.py` tests how a log uses them.
"""

from collections.abc import Iterator

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import BatchHeader, DamagedSegment, parse_header
from kafkawire.reference_broker.storage.disk.disk import File, read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.reference_broker.storage.segments.stored_batches import producer_batches
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import stamp
from kafkawire.sdk.storage.file_names import LOG_SUFFIX, file_name
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, values_in


@pytest.fixture
def disk():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    return disk


@pytest.fixture
def segments(disk):
    """Three segments with the offsets 0 to 3, 4 to 7, and, after a gap, 10 to 13; two records per batch."""
    made = []
    for base in (0, 4, 10):
        segment = Segment.create(disk, "t-0", base, log_config({}))
        for offset in (base, base + 2):
            times = (NOW_MS + 10 * offset, NOW_MS + 10 * offset + 10)
            data = produced(b"%d" % offset, b"%d" % (offset + 1), timestamps=times)
            stamp(data, offset, 7)
            segment.append(data, parse_header(data), offset)
        made.append(segment)
    return Segments(made)


def read(segments, offset, up_to=14, max_bytes=10_000):
    found = segments.read(offset, max_bytes, up_to, at_least_one=True)
    return None if found.records is None else [int(value) for value in values_in(found.records.read())]


@pytest.mark.parametrize(
    ("offset", "up_to", "values"),
    [
        (0, 14, [0, 1, 2, 3]),
        (1, 14, [0, 1, 2, 3]),
        (2, 14, [2, 3]),
        (4, 14, [4, 5, 6, 7]),
        (8, 14, [10, 11, 12, 13]),
        (12, 14, [12, 13]),
        (14, 14, None),
        (0, 2, [0, 1]),
        (0, 4, [0, 1, 2, 3]),
        (2, 2, None),
        (4, 6, [4, 5]),
        (8, 10, None),
    ],
)
def test_read(segments, offset, up_to, values):
    assert read(segments, offset, up_to) == values


def test_snapshot_does_not_change(segments, disk):
    segment = Segment.create(disk, "t-0", 14, log_config({}))
    after = segments.rolled(segment)
    assert (len(segments), len(after)) == (3, 4)
    assert (segments.last.base_offset, after.last) == (10, segment)
    assert [found.base_offset for found in after] == [0, 4, 10, 14]
    assert after.first is segments.first


def test_since(segments):
    bases = [[segment.base_offset for segment in segments.since(offset)] for offset in (0, 3, 4, 9, 10, 99)]
    assert bases == [[0, 4, 10], [0, 4, 10], [4, 10], [4, 10], [10], [10]]


def test_offset_for_timestamp(segments):
    assert segments.offset_for_timestamp(NOW_MS + 15, 0) == (NOW_MS + 20, 2, 7)
    assert segments.offset_for_timestamp(NOW_MS + 5, 1) == (NOW_MS + 10, 1, 7)
    assert segments.offset_for_timestamp(NOW_MS + 5, 5) == (NOW_MS + 50, 5, 7), "earlier records cannot be read"
    assert segments.offset_for_timestamp(NOW_MS + 5, 8) == (NOW_MS + 100, 10, 7)
    assert segments.offset_for_timestamp(NOW_MS + 85, 0) == (NOW_MS + 100, 10, 7)
    assert segments.offset_for_timestamp(NOW_MS + 141, 0) is None
    assert segments.max_timestamp() == NOW_MS + 130


def test_empty(disk):
    segments = Segments([Segment.create(disk, "t-0", 0, log_config({}))])
    assert read(segments, 0) is None
    assert segments.max_timestamp() == NO_TIMESTAMP
    assert (segments.size_bytes, list(segments.headers())) == (0, [])


def test_recovered_segments_without_producers_are_not_read_for_them(segments, disk, monkeypatch):
    data = produced(b"8", producer_id=5, producer_epoch=0, base_sequence=0)
    stamp(data, 8, 7)
    segments.since(4)[0].append(data, parse_header(data), 8)
    asked: list[int] = []

    def noted(file: File, base_offset: int, *offsets: int) -> Iterator[BatchHeader]:
        asked.append(offsets[-1])
        return producer_batches(file, base_offset, *offsets)

    monkeypatch.setattr("kafkawire.reference_broker.storage.segments.segments.producer_batches", noted)

    def found(from_offset: int, end_offset: int) -> list[int]:
        asked.clear()
        return [header.base_offset for _, header in segments.producer_batches(from_offset, end_offset)]

    assert (found(0, 99), asked) == ([8], [4, 9, 14]), "the producers of these batches are unknown"
    assert (found(8, 9), asked) == ([8], [9])
    assert (found(0, 8), found(9, 99)) == ([], [])
    for segment in segments:
        assert segment.recover() == 0
    assert (found(0, 99), asked) == ([8], [9])
    data = produced(b"14", producer_id=5, producer_epoch=0, base_sequence=1)
    stamp(data, 14, 7)
    segments.last.append(data, parse_header(data), 14)
    assert (found(0, 99), asked) == ([8, 14], [9, 15]), "appended batches may belong to a producer"


def test_segment_with_a_marker_has_producers(disk):
    segment = Segment.create(disk, "t-0", 0, log_config({}))
    data, header = build_marker(Marker(5, 0, True, 0), NOW_MS)
    segment.append(data, header, 0)
    segment.recover()
    assert len(list(Segments([segment]).producer_batches(0, 1))) == 1


def test_damage_is_reported_with_its_segment(segments, disk):
    path = f"t-0/{file_name(4, LOG_SUFFIX)}"
    content = read_file(disk, path)
    assert content is not None
    write_file(disk, path, content[:16] + b"\x09" + content[17:])
    with pytest.raises(DamagedSegment, match="segment 4: magic at byte 0"):
        read(segments, 5)
    with pytest.raises(DamagedSegment, match="segment 4"):
        segments.offset_for_timestamp(NOW_MS + 55, 0)
    assert read(segments, 0) == [0, 1, 2, 3]
    assert read(segments, 11) == [10, 11, 12, 13]


def test_damage_inside_a_batch_is_told_with_its_segment(segments, disk):
    path = f"t-0/{file_name(4, LOG_SUFFIX)}"
    content = read_file(disk, path)
    assert content is not None
    write_file(disk, path, content[:BATCH_HEADER_BYTES] + b"\xff" * 10 + content[BATCH_HEADER_BYTES + 10 :])
    with pytest.raises(DamagedSegment, match="segment 4: batch at byte 0"):
        segments.offset_for_timestamp(NOW_MS + 45, 0)


def test_lost_index_by_offset_is_rebuilt(disk):
    config = log_config({"index.interval.bytes": "0"})
    segment = Segment.create(disk, "t-0", 0, config)
    for offset in range(3):
        data = produced(b"v")
        stamp(data, offset, 7)
        segment.append(data, parse_header(data), offset)
    found = Segment(disk, "t-0", 0, config, 3)
    assert found.offset_from(1) == segment.offset_from(1) == 1


def test_what_is_durable_ends_where_an_index_is_missing(segments):
    assert segments.stored_to == 0
    first, second, last = segments
    for segment in (first, second):
        segment.seal()
        segment.stored()
    assert segments.stored_to == 10
    last.seal()
    last.stored()
    assert segments.stored_to == 14


@pytest.mark.parametrize(
    ("count", "size_in_segments", "base_offset"), [(1, 9, 10), (2, 9, 4), (9, 0, 4), (9, 2, 4), (9, 3, 0), (9, 9, 0)]
)
def test_recent_segments(segments, count, size_in_segments, base_offset):
    size_bytes = size_in_segments * segments.last.size_bytes
    assert segments.recent(count, size_bytes).base_offset == base_offset


def test_highest_timestamp_of_all_is_looked_up_in_time_indexes_once(disk, segments):
    highest = segments.max_timestamp()
    for segment in segments:
        segment.seal()
        segment.sync(with_indexes=True)
    names = [name for name in disk.names("t-0") if name.endswith(".log")]
    stored = Segments([Segment(disk, "t-0", int(name[:20]), log_config({}), int(name[:20]) + 4) for name in names])
    calls = []
    disk.plan = lambda call: calls.append(call.path)
    assert stored.max_timestamp() == stored.max_timestamp() == highest
    assert len(calls) == 2 * len(names), "each time index is opened and read once"
    assert not any(segment._is_indexed for segment in stored), "nothing else is kept in memory"
    assert stored.offset_for_timestamp(highest, 0) is not None
    assert [segment._is_indexed for segment in stored] == [False, False, True]


def test_damaged_segment_without_a_time_index_is_reported(disk, segments):
    for name in disk.names("t-0"):
        content = read_file(disk, f"t-0/{name}")
        assert content is not None
        write_file(disk, f"t-0/{name}", b"\xff" * 12 + content[12:])
    damaged = Segments([Segment(disk, "t-0", 0, log_config({}), 4)])
    with pytest.raises(DamagedSegment, match="segment 0"):
        damaged.max_timestamp()


def test_producers_that_damage_hides_are_reported(segments, disk, caplog):
    data = produced(b"8", producer_id=5, producer_epoch=0, base_sequence=0)
    stamp(data, 8, 7)
    segments.since(4)[0].append(data, parse_header(data), 8)
    path = f"t-0/{file_name(0, LOG_SUFFIX)}"
    content = read_file(disk, path)
    assert content is not None
    write_file(disk, path, (2**40).to_bytes(8, "big") + content[8:])
    assert [header.base_offset for _, header in segments.producer_batches(0, 99)] == [8]
    assert f"{path}: base_offset at byte 0: expected offsets from 0 to 3, got {2**40} to" in caplog.text
    assert "its producers may be unknown" in caplog.text


def test_files_that_a_truncation_has_removed_have_no_size(disk, segments):
    left = sum(segment.size_bytes for segment in segments)
    gone = Segment(disk, "t-0", 20, log_config({}), sealed_at=30)
    assert Segments([*segments, gone]).size_bytes == left


def test_markers_are_found_between_two_offsets(disk, segments):
    data, batch = build_marker(Marker(7, 0, True, 0), NOW_MS)
    stamp(data, 14, 7)
    segments.last.append(data, batch, 14)
    for bounds, expected in (((0, 14), False), ((14, 15), True), ((3, 20), True), ((15, 20), False), ((4, 4), False)):
        assert segments.has_markers(*bounds) is expected, bounds
    file = segments.last.file
    file.truncate(file.size_bytes - 1)
    assert segments.has_markers(11, 20) is True, "perhaps"
