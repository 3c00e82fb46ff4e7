"""The parts of segments yield each record once, whatever was cut, damaged, moved or removed.

Method: write segments by hand, cut them at every place that an index may name, and change one thing at a time; compare
the union of the parts with a walk over the whole file.
"""

from __future__ import annotations

import random
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.damage import Mode
from kafkawire.sdk.spark.schema import CORRUPT
from kafkawire.sdk.spark.segments.plan import Wanted
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_parts
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import (
    TIME_MS,
    batch,
    cleaned_batch,
    log_of,
    marker,
    noted_reads,
    offsets_of,
    planned,
    records_of,
    write_segment,
    write_two_segments,
)

#: Sizes of parts: one batch, a few batches, more of them, and the whole segment.
SPLITS = [1, 1000, 3000, 1 << 30]

DROP = ReadOptions(("offset",), Mode.DROPMALFORMED, fails_on_loss=False)


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    return write_two_segments(tmp_path)


def position_of(number: int) -> int:
    """Return the position where a batch in the first segment begins."""
    return sum(len(batch(each * 10)) for each in range(number))


def damage_of(files: SegmentFiles, split_bytes: int = 1 << 30) -> list[Any]:
    """Return the reported damage."""
    options = ReadOptions(("offset", "partition", CORRUPT), Mode.PERMISSIVE, fails_on_loss=False)
    rows = [row for part in planned(files, None, split_bytes) for row in _rows(read_parts([part], files, options))]
    return [row[CORRUPT] for row in rows if row[CORRUPT] is not None]


def _rows(batches: Any) -> list[Any]:
    return [row for each in batches for row in each.to_pylist()]


@pytest.mark.parametrize("split_bytes", SPLITS)
@pytest.mark.parametrize("compression", Compression)
def test_parts(tmp_path: Path, compression: Compression, split_bytes: int) -> None:
    for base in (0, 100):
        batches = [batch(base + number * 10, compression=compression) for number in range(10)]
        write_segment(tmp_path / "orders-0", batches, every=3)
    files = SegmentFiles([str(tmp_path)])
    parts = planned(files, None, split_bytes)
    assert len(parts) == {1: 8, 1 << 30: 2}.get(split_bytes, len(parts))
    for alone in (True, False):
        assert offsets_of(parts, files, alone=alone) == list(range(200))


def test_columns(files: SegmentFiles) -> None:
    options = ReadOptions(("value", "topic", "partition", "offset", "path", "batchPosition"))
    (part, _) = planned(files, Wanted(15, 16))[:1] * 2
    (row,) = _rows(read_parts([part], files, options))
    size = len(batch(0))
    assert row == {
        "value": b"value 15 " * 3,
        "topic": "orders",
        "partition": 0,
        "offset": 15,
        "path": str(log_of(files)),
        "batchPosition": size,
    }


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_offsets_and_times(files: SegmentFiles, split_bytes: int) -> None:
    for start, end in [(0, 0), (0, 1), (5, 6), (9, 10), (10, 30), (95, 105), (100, 200), (150, None), (200, None)]:
        last = 200 if end is None else end
        assert offsets_of(planned(files, Wanted(start, end), split_bytes), files) == list(range(start, last))
        times = Wanted(0, None, TIME_MS + start, None if end is None else TIME_MS + end)
        assert offsets_of(planned(files, times, split_bytes), files) == list(range(start, last))
    assert offsets_of(planned(files, Wanted(90, 20), split_bytes), files) == []


def test_times_of_several_parts(files: SegmentFiles) -> None:
    """One task may have parts with and without a time range."""
    first, second = planned(files)
    timed = [first._replace(wanted=Wanted(0, None, TIME_MS + 98)), second, first._replace(wanted=Wanted(0, 2))]
    later = second._replace(wanted=Wanted(0, None, None, TIME_MS + 101))
    assert sorted(offsets_of([*timed, later], files, alone=False)) == sorted([98, 99, *range(100, 200), 0, 1, 100])


def test_log_append_time(tmp_path: Path) -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME_MS)
    builder.append(1, None, b"v")
    write_segment(tmp_path / "orders-0", [builder.build()])
    files = SegmentFiles([str(tmp_path)])
    for start, expected in [(TIME_MS, [0]), (TIME_MS + 1, [])]:
        assert offsets_of(planned(files, Wanted(start_timestamp_ms=start)), files) == expected


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(tmp_path: Path, magic: int, compression: Compression) -> None:
    sets = []
    for base in range(0, 60, 10):
        builder = MessageSetBuilder(magic, compression, base_offset=base)
        for offset in range(base, base + 10):
            builder.append(TIME_MS + offset, b"k", b"value %d" % offset)
        sets.append(builder.build())
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(sets))
    position = len(sets[0]) + len(sets[1])
    (folder / f"{0:020}.index").write_bytes((20).to_bytes(4, "big") + position.to_bytes(4, "big"))
    files = SegmentFiles([str(tmp_path)])
    parts = planned(files, None, 100)
    assert (len(parts), offsets_of(parts, files)) == (2, list(range(60)))
    for start, end in ((25, 42), (21, 22), (25, 28), (20, 30), (29, 31)):
        assert offsets_of(planned(files, Wanted(start, end), 100), files) == list(range(start, end))


def test_memory(tmp_path: Path) -> None:
    """A task keeps a few windows, however many bytes it reads for one Arrow batch."""
    builder = BatchBuilder(1 << 20)
    builder.append(TIME_MS, None, bytes(1000_000))
    content = builder.build()
    batches = [number.to_bytes(8, "big") + content[8:] for number in range(30)]
    write_segment(tmp_path / "orders-0", batches)
    del batches
    files = SegmentFiles([str(tmp_path)])
    tracemalloc.start()
    try:
        assert offsets_of(planned(files), files) == list(range(30))
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_compacted(tmp_path: Path, split_bytes: int) -> None:
    """Any offsets may be missing, but offsets always increase."""
    bases = [0, 7, 30, 31, 90]
    write_segment(tmp_path / "orders-0", [batch(base, 1) for base in bases])
    write_segment(tmp_path / "orders-0", [batch(base, 1) for base in (140, 141)], 100)
    files = SegmentFiles([str(tmp_path)])
    assert offsets_of(planned(files, None, split_bytes), files) == [*bases, 140, 141]


@pytest.mark.parametrize(
    "wanted", [Wanted(5, 2**63), Wanted(5, None, None, 2**63 - 1), Wanted(5, None, TIME_MS, 2**70)]
)
def test_bounds_beyond_all_numbers(files: SegmentFiles, wanted: Wanted) -> None:
    for split_bytes in SPLITS:
        assert offsets_of(planned(files, wanted, split_bytes), files) == list(range(5, 200))


def test_a_part_begins_at_its_cut(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part reads nothing before its cut."""
    part = planned(files, None, 1000)[2]
    read = noted_reads(monkeypatch)
    assert offsets_of([part], files)
    assert min(read) == part.cuts[2].position > 0


# Indexes.


def test_cut_or_missing_indexes(files: SegmentFiles) -> None:
    for suffix in (".index", ".timeindex"):
        whole = log_of(files).with_suffix(suffix).read_bytes()
        for size in range(len(whole)):
            log_of(files).with_suffix(suffix).write_bytes(whole[:size] + bytes(24))  # as in an active segment's index
            for wanted in (Wanted(), Wanted(42, 77), Wanted(0, None, TIME_MS + 42, TIME_MS + 77)):
                start, end = (0, 200) if wanted == Wanted() else (42, 77)
                assert offsets_of(planned(files, wanted, 1), files) == list(range(start, end))
        log_of(files).with_suffix(suffix).unlink()
    assert offsets_of(planned(files, None, 1), files) == list(range(200))


@pytest.mark.thorough
def test_every_bit_of_an_index(files: SegmentFiles) -> None:
    """If no batch or the wrong batch begins at an index position, no record is lost or repeated."""
    index = log_of(files).with_suffix(".index")
    whole = index.read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        index.write_bytes(damaged)
        assert offsets_of(planned(files, None, 1), files) == list(range(200)), bit
        assert offsets_of(planned(files, Wanted(42, 77), 1), files) == list(range(42, 77)), bit


# Damage.


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_damaged_batch(files: SegmentFiles, split_bytes: int) -> None:
    """The batch is skipped, and the part in which it begins reports it once."""
    content = bytearray(log_of(files).read_bytes())
    content[position_of(3) + 100] ^= 1
    log_of(files).write_bytes(content)
    parts = planned(files, None, split_bytes)
    assert offsets_of(parts, files, DROP) == [*range(30), *range(40, 200)]
    (found,) = damage_of(files, split_bytes)
    assert (found["path"], found["position"], found["size"]) == (str(log_of(files)), position_of(3), len(batch(30)))
    with pytest.raises(
        DecodeError, match=rf"{log_of(files).name} \(orders-0\), batch of offset 30 at byte {position_of(3)}: crc"
    ):
        offsets_of(parts, files)


def test_damage_that_is_not_asked_for(files: SegmentFiles) -> None:
    content = bytearray(log_of(files).read_bytes())
    content[position_of(3) + 100] ^= 1
    log_of(files).write_bytes(content)
    log_of(files).with_suffix(".index").unlink()
    for start, end in [(0, 30), (40, 200), (41, 45)]:
        assert offsets_of(planned(files, Wanted(start, end)), files) == list(range(start, end))
    for start, end in [(0, 31), (39, 200), (33, 34)]:
        with pytest.raises(DecodeError):
            offsets_of(planned(files, Wanted(start, end)), files)


def test_every_bit_of_a_base_offset(files: SegmentFiles) -> None:
    """No checksum covers the base offset; no record may be lost silently or have another record's offset."""
    whole = log_of(files).read_bytes()
    for number in (1, 2, 9):
        for bit in range(64):
            content = bytearray(whole)
            content[position_of(number) + bit // 8] ^= 128 >> bit % 8
            log_of(files).write_bytes(content)
            for split_bytes in (1, 1 << 30):
                found = offsets_of(planned(files, None, split_bytes), files, DROP)
                assert found == [*range(number * 10), *range(number * 10 + 10, 200)], (number, bit, split_bytes)
                assert len(damage_of(files, split_bytes)) == 1


@pytest.mark.thorough
def test_random_damage(files: SegmentFiles) -> None:
    """Parts yield the same records as the whole file: every undamaged record, and nothing that was not written."""
    chance = random.Random(20)
    whole = log_of(files).read_bytes()
    starts = [position_of(number) for number in range(10)]
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        log_of(files).write_bytes(content)
        sound = [content[start:end] == whole[start:end] for start, end in pairwise([*starts, len(whole)])]
        least = {number * 10 + each for number, is_sound in enumerate(sound) if is_sound for each in range(10)}
        found = [offsets_of(planned(files, None, split_bytes), files, DROP) for split_bytes in (1 << 30, 1, 1000)]
        damage = [damage_of(files, split_bytes) for split_bytes in (1 << 30, 1, 1000)]
        assert found[0] == sorted(set(found[0]))
        assert least | set(range(100, 200)) <= set(found[0]) <= set(range(200))
        assert bool(damage[0]) == (len(found[0]) < 200)
        assert found[1:] == found[:1] * 2
        assert damage[1:] == damage[:1] * 2


def test_end_of_a_growing_file(files: SegmentFiles) -> None:
    """The last segment may end with zeros or inside a batch; no other segment may."""
    for number, is_last in ((0, False), (1, True)):
        path = log_of(files, number)
        whole = path.read_bytes()
        for tail in (bytes(5), bytes(5000), batch(200)[:30], batch(200)[:-1]):
            path.write_bytes(whole + tail)
            assert offsets_of(planned(files, None, 1), files, DROP) == list(range(200))
            assert len(damage_of(files)) == (not is_last)
        path.write_bytes(whole)


def test_batch_that_was_finished_meanwhile(files: SegmentFiles) -> None:
    """A batch that begins before the planned end is read; batches appended after that are not."""
    path = log_of(files, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + batch(200)[:30])
    parts = planned(files)
    path.write_bytes(whole + batch(200) + batch(210))
    assert offsets_of(parts, files) == list(range(210))


# Files that change.


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_segment_that_is_gone(files: SegmentFiles, split_bytes: int) -> None:
    parts = planned(files, None, split_bytes)
    path = log_of(files)
    path.unlink()
    with pytest.raises(DecodeError, match=rf"{path.name} \(orders-0\) at byte 0: the file existed"):
        offsets_of(parts, files)
    assert offsets_of(parts, files, DROP) == list(range(100, 200))
    tolerant = ReadOptions(("offset",), Mode.FAILFAST, fails_on_loss=False)
    assert offsets_of(parts, files, tolerant) == list(range(100, 200))


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_segment_that_was_cleaned_meanwhile(files: SegmentFiles, split_bytes: int) -> None:
    """Each part finds its own remaining offsets, wherever they are now."""
    parts = planned(files, None, split_bytes)
    kept = [0, 30, 50, 90]
    write_segment(log_of(files).parent, [batch(base, 5) for base in kept])
    with pytest.raises(DecodeError, match="4570 when the work was planned"):
        offsets_of(parts, files)
    expected = [offset for base in kept for offset in range(base, base + 5)]
    assert offsets_of(parts, files, DROP) == [*expected, *range(100, 200)]


def test_segments_that_overlap_after_a_crash(files: SegmentFiles) -> None:
    """If a merged segment overlaps those that it replaces, the later one is used, as a broker does, without damage."""
    write_segment(log_of(files).parent, [batch(number * 10) for number in range(20)])
    for split_bytes in SPLITS:
        assert offsets_of(planned(files, None, split_bytes), files) == list(range(200))
    # Cleaning may have removed records and batches from the merged segment.
    cleaned = [cleaned_batch(number * 10) for number in (0, 3, 9, 12, 15)]
    write_segment(log_of(files).parent, cleaned)
    assert offsets_of(planned(files), files) == [0, 30, 90, *range(100, 200)]
    # Overlapping records that no other segment has are damage.
    write_segment(log_of(files).parent, [batch(number * 10) for number in (0, 1, 50)])
    assert len(damage_of(files)) == 1


# Transactions.


@pytest.fixture
def transactions(tmp_path: Path) -> SegmentFiles:
    """Return three segments; one transaction is in the first, others span two or all three, and one is open."""
    folder = tmp_path / "orders-0"
    batches = [
        [batch(0, 1), records_of(1, 7), records_of(2, 8), marker(3, 7, False), records_of(4, 9), records_of(5, 7)],
        [batch(6, 1), marker(7, 8, True), records_of(8, 7), records_of(9, 5), records_of(10, 8)],
        [marker(11, 9, False), marker(12, 7, True), records_of(13, 7), marker(14, 8, False)],
    ]
    for each in batches:
        write_segment(folder, each)
    return SegmentFiles([str(tmp_path)])


COMMITTED = [0, 2, 5, 6, 8]


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_committed(transactions: SegmentFiles, split_bytes: int) -> None:
    parts = planned(transactions, None, split_bytes)
    committed = ReadOptions(("offset",), is_committed_only=True)
    for alone in (True, False):
        assert offsets_of(parts, transactions, committed, alone=alone) == COMMITTED
    assert offsets_of(parts, transactions) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 13]
    assert offsets_of(planned(transactions, Wanted(2, 6), split_bytes), transactions, committed) == [2, 5]


def test_committed_without_the_last_segment(transactions: SegmentFiles) -> None:
    log_of(transactions, 2).unlink()
    committed = ReadOptions(("offset",), is_committed_only=True)
    assert offsets_of(planned(transactions), transactions, committed) == [0, 2, 6]


def test_a_time_that_an_index_names(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", [batch(0), batch(10), batch(20, 1)])
    files = SegmentFiles([str(tmp_path)])
    assert offsets_of(planned(files, Wanted(0, None, TIME_MS + 19)), files) == [19, 20]


def test_damage_has_no_time(files: SegmentFiles) -> None:
    """Damage is reported for any time range, because it may have contained a wanted record."""
    content = bytearray(log_of(files).read_bytes())
    content[-1] ^= 1
    log_of(files).write_bytes(content)
    options = ReadOptions(("offset", CORRUPT), Mode.PERMISSIVE)
    rows = _rows(read_parts(planned(files, Wanted(0, None, TIME_MS + 50)), files, options))
    assert sum(row[CORRUPT] is not None for row in rows) == 1


@pytest.mark.parametrize("split_bytes", SPLITS)
def test_times_that_spark_cannot_hold(tmp_path: Path, split_bytes: int) -> None:
    """Such times count as later than any time that Spark can hold; they are damage only if the column is requested."""
    builder = BatchBuilder()
    for time_ms in (1000, INT64_MAX // 1000 + 1, 2000, INT64_MAX):
        builder.append(time_ms, None, b"v")
    write_segment(tmp_path / "orders-0", [builder.build(), batch(4, 1)])
    files = SegmentFiles([str(tmp_path)])
    for start, end, expected in [
        (None, 1500, [0]),
        (None, INT64_MAX // 1000 + 1, [0, 2, 4]),
        (1500, None, [1, 2, 3, 4]),
        (INT64_MAX // 1000 + 2, None, [3]),
        (1500, TIME_MS, [2]),
        (None, INT64_MAX, [0, 1, 2, 4]),
    ]:
        parts = planned(files, Wanted(start_timestamp_ms=start, end_timestamp_ms=end), split_bytes)
        assert offsets_of(parts, files) == expected
        with pytest.raises(DecodeError, match="is outside Spark's range"):
            offsets_of(parts, files, ReadOptions(("offset", "timestamp")))
        options = ReadOptions(("offset", "timestamp", CORRUPT), Mode.PERMISSIVE)
        rows = [row for part in parts for row in _rows(read_parts([part], files, options))]
        assert [row["offset"] for row in rows if row[CORRUPT] is None] == expected
        assert sum(row[CORRUPT] is not None for row in rows) == 2


def test_a_shorter_file_is_reported_once(files: SegmentFiles) -> None:
    parts = [part for part in planned(files, None, 1) if part.segment.base_offset == 0]
    log_of(files).write_bytes(log_of(files).read_bytes()[:-1])
    options = ReadOptions(("offset", CORRUPT), Mode.PERMISSIVE, fails_on_loss=False)
    rows = [row for part in parts for row in _rows(read_parts([part], files, options))]
    assert sum(row[CORRUPT] is not None and "was planned" in row[CORRUPT]["reason"] for row in rows) == 1
