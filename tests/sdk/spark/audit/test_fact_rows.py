"""Segments are turned into facts: a row per batch, with its content, sums, commits and damage.

Method: read hand-built partitions through `read_into`, as Spark's workers do; Spark is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")
pytest.importorskip("numpy", reason="numpy is not installed: the extra `spark` brings it")

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES, TimestampType
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder
from kafkawire.sdk.records.batch import set_max_timestamp
from kafkawire.sdk.records.stored import Damage
from kafkawire.sdk.spark.audit.fact_rows import FactRows, NotedFacts
from kafkawire.sdk.spark.audit.facts import COLUMNS_OF, FactKind
from kafkawire.sdk.spark.damage import Mode, Place
from kafkawire.sdk.spark.segments.plan import Wanted
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_into
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.audit.commit_records import key, value
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, planned, records_of, write_segment


def facts(folder: Path, noted: NotedFacts | None = None, **options: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the facts about a folder, keyed by kind, without the columns of other kinds."""
    files = SegmentFiles([str(folder)])
    noted = noted or NotedFacts()
    found: dict[str, list[dict[str, Any]]] = {str(kind): [] for kind in FactKind}
    sink = FactRows(noted, **options)
    for rows in read_into(sink, planned(files), files, ReadOptions((), noted.mode, fails_on_loss=False)):
        for row in rows.to_pylist():
            kind = row.pop("kind", str(FactKind.BATCH))
            found[kind].append({name: row.pop(name) for name in COLUMNS_OF[FactKind(kind)]})
            assert set(row.values()) <= {None}
    return found


def timed(base_offset: int, times: list[int], compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(1 << 24, compression, base_offset=base_offset)
    for time in times:
        builder.append(TIME_MS + time, b"k", b"v" * 50)
    return builder.build()


def test_batches(tmp_path: Path) -> None:
    packed, plain = batch(0, compression=Compression.ZSTD), batch(10, 3)
    write_segment(tmp_path / "t-0", [packed, plain, records_of(13, 7, 2), marker(15, 7, is_commit=False)])
    first, second, third, last = facts(tmp_path)["batch"]
    assert (first["baseOffset"], first["lastOffset"], first["records"], first["position"]) == (0, 9, 10, 0)
    assert (first["compression"], first["sizeBytes"], first["plainBytes"]) == ("zstd", len(packed), len(batch(0)))
    assert (first["minTimestampMs"], first["maxTimestampMs"], first["backwards"]) == (TIME_MS, TIME_MS + 9, 0)
    assert (second["compression"], second["plainBytes"], second["position"]) == ("none", len(plain), len(packed))
    assert (third["isTransactional"], third["isControl"], third["producerId"], third["baseSequence"]) == (
        True, False, 7, 0,
    )  # fmt: skip
    assert (last["isControl"], last["controlType"], last["minTimestampMs"]) == (True, "ABORT", None)
    assert {row["reason"] for row in (first, second, third, last)} == {None}
    assert {(row["topic"], row["partition"], row["isCounted"]) for row in (first, second, third, last)} == {
        ("t", 0, True)
    }


def test_headers_alone(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", [batch(0, compression=Compression.ZSTD)])
    found = facts(tmp_path, NotedFacts(reads_records=False, has_all_kinds=False))
    assert found["batch"][0]["records"] == 10
    assert (found["batch"][0]["plainBytes"], found["batch"][0]["minTimestampMs"]) == (None, None)
    assert found["key"] == found["minute"] == []


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_times_that_go_back(tmp_path: Path, compression: Compression) -> None:
    batches = [timed(0, [5, 3, 4, 6, 1], compression), timed(5, [0, 1, 2]), timed(8, [9, 8])]
    write_segment(tmp_path / "t-0", batches)
    rows = facts(tmp_path)["batch"]
    assert [row["backwards"] for row in rows] == [3, 0, 1]
    assert [row["minTimestampMs"] - TIME_MS for row in rows] == [1, 0, 8]


def test_a_batch_that_is_larger_than_an_arrow_batch(tmp_path: Path) -> None:
    builder = BatchBuilder(1 << 25, Compression.ZSTD, base_offset=0)
    for number in range(12):
        builder.append(TIME_MS + (12 - number) * 60_000, b"k%d" % (number % 2), b"v" * 1_000_000)
    write_segment(tmp_path / "t-0", [builder.build(), batch(12, 1)])
    found = facts(tmp_path)
    assert (found["batch"][0]["backwards"], found["batch"][0]["minTimestampMs"]) == (11, TIME_MS + 60_000)
    keys = {row["key"]: (row["records"], row["lastOffset"]) for row in found["key"]}
    assert keys == {b"k0": (6, 10), b"k1": (6, 11), b"key 12": (1, 12)}
    assert sum(row["records"] for row in found["minute"]) == 13


def test_sums_are_of_one_partition(tmp_path: Path) -> None:
    for number in range(3):
        write_segment(tmp_path / f"t-{number}", [batch(0, 2 + number)])
    found = facts(tmp_path)
    assert [row["partition"] for row in found["key"]] == [0] * 2 + [1] * 3 + [2] * 4
    assert [(row["partition"], row["records"]) for row in found["minute"]] == [(0, 2), (1, 3), (2, 4)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_records_that_were_deleted_in_the_middle_of_a_batch(tmp_path: Path, compression: Compression) -> None:
    """Deleted records are on disk, but no reader gets them; the batch is not taken to be thinned out by compaction."""
    write_segment(tmp_path / "t-0", [batch(0), batch(10, compression=compression), batch(20)])
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 14\n")
    found = facts(tmp_path)
    assert [(row["baseOffset"], row["records"], row["lacksRecords"]) for row in found["batch"]] == [
        (10, 6, False),
        (20, 10, False),
    ]
    assert sorted(row["lastOffset"] for row in found["key"]) == [*range(14, 30)]
    assert sum(row["records"] for row in found["minute"]) == 16


@pytest.mark.parametrize(
    ("tail", "kind"),
    [(bytes(4096), "zeros"), (batch(20)[:-9], "cut"), (batch(20)[:16], "cut"), (batch(20)[:9], "cut"), (b"", None)],
)
def test_what_is_behind_the_last_batch(tmp_path: Path, tail: bytes, kind: str | None) -> None:
    """The task that reads the end of the partition reports the tail once; for other tasks, it is not damage."""
    write_segment(tmp_path / "t-0", [batch(0)])
    path = write_segment(tmp_path / "t-0", [batch(10)])
    path.write_bytes(path.read_bytes() + tail)
    write_segment(tmp_path / "t-1", [batch(0)])
    rows = [row for row in facts(tmp_path)["batch"] if row["reason"] is not None]
    assert [(row["tail"], row["partition"], row["baseOffset"], row["sizeBytes"]) for row in rows] == (
        [] if kind is None else [(kind, 0, 20, len(tail))]
    )
    assert all(row["position"] == len(batch(10)) for row in rows)
    alone = facts(tmp_path, NotedFacts(Mode.FAILFAST, has_all_kinds=False))["batch"]
    assert [row["reason"] for row in alone] == [None] * 3


def test_damage(tmp_path: Path) -> None:
    broken = bytearray(batch(10))
    broken[-1] ^= 1
    write_segment(tmp_path / "t-0", [batch(0), bytes(broken), batch(20), batch(40)])
    first, damage, *_ = facts(tmp_path)["batch"]
    assert first["reason"] is None
    assert (damage["baseOffset"], damage["position"], damage["sizeBytes"]) == (10, len(batch(0)), len(broken))
    assert "checksum" in damage["reason"]
    with pytest.raises(DecodeError, match="checksum"):
        facts(tmp_path, NotedFacts(Mode.FAILFAST))
    rows = facts(tmp_path, NotedFacts(Mode.DROPMALFORMED))["batch"]
    assert [row["baseOffset"] for row in rows] == [0, 20, 40]


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    """A batch with a valid checksum whose records cannot be decoded is damage; the next batch is read."""
    broken = BatchBuilder(1 << 20, Compression.NONE, base_offset=10)
    broken.append(TIME_MS, b"k", b"v")
    content = bytearray(broken.build())
    content[-1] = 0x7F  # the number of headers, which do not exist
    set_max_timestamp(content, TimestampType.CREATE_TIME, TIME_MS)  # recomputes the checksum
    write_segment(tmp_path / "t-0", [batch(0), bytes(content), batch(11, 2)])
    rows = facts(tmp_path)["batch"]
    assert [(row["baseOffset"], row["reason"] is None) for row in rows] == [(0, True), (10, False), (11, True)]


def test_a_time_that_is_asked_for(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", [batch(0), batch(10), batch(20)])
    found = facts(tmp_path, NotedFacts(since_ms=TIME_MS + 15, until_ms=TIME_MS + 25))
    assert [row["isCounted"] for row in found["batch"]] == [False, True, False]
    assert sum(row["records"] for row in found["key"]) == 10
    # A batch has the time of its last record. The start of the range is inclusive, and its end is exclusive.
    found = facts(tmp_path, NotedFacts(since_ms=TIME_MS + 9, until_ms=TIME_MS + 29))
    assert [row["isCounted"] for row in found["batch"]] == [True, True, False]


def test_rows_of_batches_do_not_pile_up(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", [batch(number, 1) for number in range(50)])
    found = facts(tmp_path, batches_max=7)
    assert [row["baseOffset"] for row in found["batch"]] == list(range(50))
    assert {row["minTimestampMs"] - TIME_MS - row["baseOffset"] for row in found["batch"]} == {0}


def test_rows_of_damage_do_not_pile_up(tmp_path: Path) -> None:
    """Rows for damage do not pile up, with or without batches in between."""
    broken = [bytearray(batch(number, 1)) for number in range(50)]
    for each in broken:
        each[-1] ^= 1
    sink = FactRows(NotedFacts(), batches_max=7)
    place = Place("t", 0, "file")
    sizes = [rows.num_rows for each in broken for rows in sink.add_damage(place, Damage(0, len(each), "broken"))]
    assert sizes == [7] * 7
    assert [rows.num_rows for rows in sink.finish()] == [1]


@pytest.mark.parametrize("before", [[], [batch(0)]])
def test_where_damage_was_expected(tmp_path: Path, before: list[bytes]) -> None:
    """The expected offset is the end of the previous batch or else the start of the partition, if that is known."""
    broken = bytearray(batch(10))
    broken[-1] ^= 1
    write_segment(tmp_path / "s-0", [batch(0, 3)])
    write_segment(tmp_path / "t-0", [*before, bytes(broken), batch(20)], 0 if before else 10)
    (damage,) = [row for row in facts(tmp_path)["batch"] if row["reason"] is not None]
    assert (damage["topic"], damage["baseOffset"]) == ("t", 10)


@pytest.mark.parametrize("kind", ["checksum", "zeros", "records"])
@pytest.mark.parametrize("start_offset", [0, 10])
@pytest.mark.parametrize("split_bytes", [1, 1 << 30])
def test_damage_where_reading_begins(tmp_path: Path, kind: str, start_offset: int, split_bytes: int) -> None:
    """The expected offset is known even if another run or another task has read the batches before it."""
    broken = bytearray(batch(10, compression=Compression.GZIP))
    if kind == "checksum":
        broken[-1] ^= 1
    elif kind == "zeros":
        broken[:] = bytes(len(broken))
    else:
        broken[BATCH_HEADER_BYTES] ^= 1
        set_max_timestamp(broken, TimestampType.CREATE_TIME, TIME_MS)  # recomputes the checksum
    path = write_segment(tmp_path / "t-0", [batch(0), batch(10, compression=Compression.GZIP), batch(20)])
    path.write_bytes(batch(0) + broken + batch(20))
    files = SegmentFiles([str(tmp_path)])
    parts = planned(files, Wanted(start_offset), split_bytes)
    options = ReadOptions((), Mode.PERMISSIVE)
    tasks = [read_into(FactRows(NotedFacts()), [part], files, options) for part in parts]
    found = [row for task in tasks for rows in task for row in rows.to_pylist() if row["reason"] is not None]
    assert [row["baseOffset"] for row in found] == [10]


def test_old_formats_without_compression(tmp_path: Path) -> None:
    """The plain size of old formats is the size of uncompressed message sets."""
    sets = [MessageSetBuilder(1, compression) for compression in (Compression.NONE, Compression.GZIP)]
    for builder in sets:
        for number, key_ in enumerate((b"key", None, b"")):
            builder.append(TIME_MS + number, key_, None if number == 1 else b"value" * 100)
    plain, packed = (each.build() for each in sets)
    write_segment(tmp_path / "t-0", [packed], 0)
    (row,) = facts(tmp_path)["batch"]
    assert (row["sizeBytes"], row["plainBytes"]) == (len(packed), len(plain))


def test_commits_of_transactions(tmp_path: Path) -> None:
    """Each commit has its batch's attributes, even if the batch is larger than an Arrow batch."""
    batches = []
    for number, producer_id in enumerate((7, -1, 8)):
        sent = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        builder = BatchBuilder(1 << 25, base_offset=number * 24, **(sent if producer_id >= 0 else {}))
        for _ in range(12):
            builder.append(TIME_MS, b"v" * (1_000_000 if producer_id == 8 else 1), b"")
            builder.append(TIME_MS, key("billing", "orders", 2), value(100, TIME_MS))
        batches.append(builder.build())
    write_segment(tmp_path / "__consumer_offsets-4", batches)
    rows = facts(tmp_path)["commit"]
    found = [(row["lastOffset"], row["producerId"], row["isTransactional"]) for row in rows]
    offsets = range(1, 24, 2)
    assert found == [
        *((offset, 7, True) for offset in offsets),
        *((24 + offset, -1, False) for offset in offsets),
        *((48 + offset, 8, True) for offset in offsets),
    ]


def test_commits_of_groups(tmp_path: Path) -> None:
    builder = BatchBuilder(base_offset=0)
    builder.append(TIME_MS, key("billing", "orders", 2), value(100, TIME_MS))
    builder.append(TIME_MS, key("billing", "orders", 2), None)
    write_segment(tmp_path / "__consumer_offsets-4", [builder.build()])
    write_segment(tmp_path / "orders-2", [batch(0, 1)])
    first, second = facts(tmp_path)["commit"]
    assert (first["topic"], first["partition"], first["lastOffset"]) == ("__consumer_offsets", 4, 0)
    assert (first["group"], first["ofTopic"], first["ofPartition"], first["committedOffset"]) == (
        "billing", "orders", 2, 100,
    )  # fmt: skip
    assert (second["committedOffset"], second["lastOffset"]) == (None, 1)
