"""A stream returns each record once, despite limits, restarts, rolled segments and new partitions.

Method: call the reader in the order in which Spark calls it, with a new reader for a restarted query; Spark does not
run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError, DecodeError, LocalProtocolError

pytest.importorskip("pyarrow")
pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="this pyspark has no limits for streams in Python: 4.2 has"
)

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
)

from kafkawire.sdk.spark.segments.options import parse_options
from kafkawire.sdk.spark.segments.stream import SegmentStreamReader
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, records_of, write_segment
from tests.sdk.spark.stream_query import Rows, StreamQuery, rows_of


class Query(StreamQuery):
    """A query over the segments in a folder."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.folder = folder
        super().__init__(options)

    def new_reader(self) -> SegmentStreamReader:
        return SegmentStreamReader(parse_options({"path": str(self.folder), **self.options}), ("partition", "offset"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for base in (0, 50):
        write_segment(tmp_path / "orders-0", [batch(base + number * 10) for number in range(5)])
    write_segment(tmp_path / "orders-1", [batch(number * 10) for number in range(2)])
    return tmp_path


def test_all(folder: Path) -> None:
    query = Query(folder)
    assert query.take_all() == [120]
    assert query.rows == rows_of(100, 20)
    assert query.offsets == [{"orders-0": 0, "orders-1": 0}, {"orders-0": 100, "orders-1": 20}]
    assert query.reader.reportLatestOffset() == query.offsets[-1]
    assert query.reader.partitions(query.offsets[-1], query.offsets[-1]) == []


@pytest.mark.parametrize(
    "limit",
    [
        {"maxOffsetsPerTrigger": "1"},
        {"maxOffsetsPerTrigger": "7"},
        {"maxOffsetsPerTrigger": "50"},
        {"maxBytesPerTrigger": "1"},
        {"maxBytesPerTrigger": "1000"},
        {"maxBytesPerTrigger": "1g"},
    ],
)
def test_limits(folder: Path, limit: dict[str, str]) -> None:
    """Each micro-batch stays near its limit and reads from every partition; a new reader may plan any micro-batch."""
    query = Query(folder, **limit)
    sizes = []
    while query.plan():
        rows = query.run()
        query.start()
        assert query.run() == rows  # a query repeats this after a crash
        query.rows += rows
        sizes.append(len(rows))
    assert sorted(query.rows) == rows_of(100, 20)
    if "maxOffsetsPerTrigger" in limit:
        assert max(sizes) <= int(limit["maxOffsetsPerTrigger"]) + 1
    elif limit["maxBytesPerTrigger"] == "1000":
        assert 3 <= len(sizes) <= 12


def test_offsets_of_what_is_not_selected(folder: Path) -> None:
    """A new query is refused; one that continues from a checkpoint ignores them. Selected topics may come later."""
    query = Query(folder, topics="orders", startingOffsets='{"orders":{"0":95,"7":5}}')
    query.options["startingOffsets"] = '{"orders":{"0":95},"ordres":{"1":15}}'
    with pytest.raises(ConfigurationError, match="startingOffsets='ordres-1': expected only"):
        Query(folder, **query.options)
    query.start()
    assert query.take_all() == [25]


def test_what_is_reported(folder: Path) -> None:
    """The reported ends are those at the time when the last micro-batch was planned, whatever it takes."""
    query = Query(folder, maxOffsetsPerTrigger="5")
    assert query.reader.reportLatestOffset() is None
    query.plan()
    assert query.reader.reportLatestOffset() == {"orders-0": 100, "orders-1": 20}


def test_default_limits(folder: Path) -> None:
    for options, expected in [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"maxBytesPerTrigger": "1k"}, ReadMaxBytes(1024)),
    ]:
        assert Query(folder, **options).reader.getDefaultReadLimit() == expected


def test_growing(folder: Path) -> None:
    """Batches and half a batch are added; segments are rolled, compacted and removed; and partitions appear."""
    query = Query(folder, maxOffsetsPerTrigger="30")
    query.plan()
    query.rows += query.run()
    path = write_segment(folder / "orders-1", [batch(number * 10) for number in range(4)])
    path.write_bytes(path.read_bytes() + batch(40)[:50])
    write_segment(folder / "orders-2", [batch(0)])
    query.take_all()
    assert sorted(query.rows) == rows_of(100, 40, 10)
    path.write_bytes(path.read_bytes()[:-50] + batch(40))
    write_segment(folder / "orders-1", [batch(50)])
    write_segment(folder / "orders-0", [batch(0, 1)])  # compacted long after it was read
    query.start()
    query.take_all()
    assert sorted(query.rows) == rows_of(100, 60, 10)
    (folder / "orders-0" / f"{0:020}.log").unlink()
    write_segment(folder / "orders-0", [b""], 100)
    assert query.take_all() == []


def test_nothing_yet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A broker may be about to write, but the folder may also be the wrong one."""
    (tmp_path / "orders-0.zip").touch()
    query = Query(tmp_path)
    assert not query.plan()
    assert "no segments were found: expected TOPIC-PARTITION/OFFSET.log; packed files must be unpacked" in caplog.text
    write_segment(tmp_path / "orders-0", [batch(0)])
    query.take_all()
    assert query.rows == rows_of(10)


def test_available_now(folder: Path) -> None:
    query = Query(folder, maxOffsetsPerTrigger="50")
    query.reader.prepareForTriggerAvailableNow()
    write_segment(folder / "orders-1", [batch(number * 10) for number in range(4)])
    write_segment(folder / "orders-2", [batch(0)])
    query.take_all()
    assert sorted(query.rows) == rows_of(100, 20)
    query.start()
    query.reader.prepareForTriggerAvailableNow()
    query.take_all()
    assert sorted(query.rows) == rows_of(100, 40, 10)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("earliest", rows_of(100, 20)),
        ("latest", []),
        ('{"orders":{"0":98}}', [(0, 98), (0, 99), *rows_of(0, 20)]),
        ('{"orders":{"0":-1,"1":-2}}', rows_of(0, 20)),
    ],
)
def test_starting_offsets(folder: Path, offsets: str, expected: Rows) -> None:
    query = Query(folder, startingOffsets=offsets)
    query.take_all()
    assert query.rows == expected
    write_segment(folder / "orders-2", [batch(0, 3)])  # a new partition is read from its beginning
    query.take_all()
    assert query.rows == [*expected, (2, 0), (2, 1), (2, 2)]


def test_preallocated(folder: Path) -> None:
    """The space after the last batch is not part of a micro-batch, and may be cut off before the micro-batch runs."""
    path = folder / "orders-1" / f"{0:020}.log"
    content = path.read_bytes()
    path.write_bytes(content + bytes(10_000))
    query = Query(folder, topics="orders", maxBytesPerTrigger="1m")
    assert query.plan()
    path.write_bytes(content)
    assert query.run() == rows_of(100, 20)


def test_damage_is_met_once(folder: Path) -> None:
    path = folder / "orders-1" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + b"x" * 70)
    query = Query(folder, topics="orders")
    assert query.take_all() == [120]  # these bytes may be a batch that is being written
    path.write_bytes(path.read_bytes() + batch(20))
    query.plan()
    with pytest.raises(DecodeError, match="byte"):
        query.run()
    query.options["mode"] = "DROPMALFORMED"
    query.start()
    assert query.run() == [(1, offset) for offset in range(20, 30)]
    path.write_bytes(path.read_bytes() + batch(30))
    query.options["mode"] = "FAILFAST"
    query.start()
    query.plan()
    assert query.run() == [(1, offset) for offset in range(30, 40)]


@pytest.mark.parametrize("limit", ["1", "3", "7", "12", "15", "1000"])
@pytest.mark.parametrize("offsets", ["earliest", '{"orders":{"0":13}}'])
def test_damage_that_several_micro_batches_end_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: str, offsets: str
) -> None:
    """The first micro-batch reports the damage, once; damage before the start of the query is not reported."""
    damaged = bytearray(batch(10))
    damaged[-1] ^= 1
    write_segment(tmp_path / "orders-0", [batch(0), bytes(damaged), batch(20)])
    query = Query(tmp_path, mode="DROPMALFORMED", maxOffsetsPerTrigger=limit, startingOffsets=offsets)
    query.take_all()
    first = 0 if offsets == "earliest" else 20
    assert query.rows == [(0, offset) for offset in (*range(first, 10), *range(20, 30))]
    assert sum(record.getMessage().startswith("dropped from") for record in caplog.records) == 1


def test_log_that_begins_later(tmp_path: Path) -> None:
    """Like a consumer, a query does not read deleted records, and their absence is a loss."""
    for first in (0, 20, 40):
        write_segment(tmp_path / "orders-0", [batch(first), batch(first + 10)])
    query = Query(tmp_path, startingOffsets='{"orders":{"0":5}}')
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 25\n")
    assert Query(tmp_path).take_all() == [35]
    assert query.plan()
    with pytest.raises(LocalProtocolError, match="orders-0: offsets 5 to 24 are gone; the partition begins at 25"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.start()
    assert query.run() == [(0, offset) for offset in range(25, 60)]


# Loss.


def test_lost_records(folder: Path) -> None:
    query = Query(folder, maxOffsetsPerTrigger="30")
    query.plan()
    query.run()
    query.plan()
    (folder / "orders-0" / f"{0:020}.log").unlink()
    with pytest.raises(LocalProtocolError, match=r"orders-0: offsets 25 to 49 are gone; the partition begins at 50"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.start()
    assert {partition for partition, _ in query.run()} == {1}
    query.take_all()
    assert [offset for partition, offset in query.rows if partition == 0] == list(range(50, 100))


def test_lost_end(folder: Path) -> None:
    query = Query(folder)
    query.take_all()
    write_segment(folder / "orders-1", [batch(0)])
    with pytest.raises(LocalProtocolError, match="orders-1 ends at offset 10, but was to be read from 20 onward"):
        query.plan()
    query.options["failOnDataLoss"] = "false"
    query.start()
    assert not query.plan()


def test_lost_partition(folder: Path) -> None:
    query = Query(folder)
    query.take_all()
    (folder / "orders-1" / f"{0:020}.log").unlink()
    with pytest.raises(LocalProtocolError, match="orders-1 no longer exists, but was to be read from offset 20 onward"):
        query.plan()
    query.options["failOnDataLoss"] = "false"
    query.start()
    assert not query.plan()


def test_each_loss_is_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A loss is logged once, not with each micro-batch, and again if the partition returns and disappears."""
    query = Query(folder, failOnDataLoss="false")
    query.take_all()
    path = folder / "orders-1" / f"{0:020}.log"
    path.unlink()
    told = [
        "lost: orders-0 ends at offset 60, but was to be read from 100 onward",
        "lost: orders-1 no longer exists, but was to be read from offset 20 onward",
    ]
    write_segment(folder / "orders-0", [batch(50)])
    for _ in range(3):
        query.plan()
    assert sorted(caplog.messages) == told
    write_segment(folder / "orders-1", [batch(0), batch(10)])
    query.plan()
    path.unlink()
    query.plan()
    assert sorted(caplog.messages) == [*told, told[1]]


def test_segment_that_goes_before_it_is_read(folder: Path) -> None:
    for option, fails in (("true", True), ("false", False)):
        write_segment(folder / "orders-0", [batch(number * 10) for number in range(5)])
        query = Query(folder, failOnDataLoss=option)
        query.plan()
        tasks = query.reader.partitions(*query.offsets)
        (folder / "orders-0" / f"{0:020}.log").unlink()
        if fails:
            with pytest.raises(DecodeError, match="has since been removed"):
                list(query.reader.read(tasks[0]))
        else:
            assert sum(rows.num_rows for rows in query.reader.read(tasks[0])) == 70


# Transactions.


def test_committed(tmp_path: Path) -> None:
    """The stream stops before the first open transaction, and later returns committed records, whatever the limits."""
    log = [batch(0, 2), records_of(2, 7), records_of(3, 8), batch(4, 1), marker(5, 7, False), records_of(6, 7)]
    log += [marker(7, 8, True), batch(8, 1), marker(9, 7, True)]
    for limit in (1, 3, 100):
        query = Query(tmp_path, isolationLevel="read_committed", maxOffsetsPerTrigger=str(limit))
        seen = []
        for count in range(1, len(log) + 1):
            write_segment(tmp_path / "orders-0", log[:count])
            query.take_all()
            if count % 3 == 0:
                query.start()
            seen.append(len(query.rows))
        assert [offset for _, offset in query.rows] == [0, 1, 3, 4, 6, 8]
        assert seen == [2, 2, 2, 2, 2, 2, 4, 4, 6]


def test_latest_of_committed(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", [batch(0, 2), records_of(2, 7), batch(3, 1)])
    query = Query(tmp_path, isolationLevel="read_committed", startingOffsets="latest")
    assert query.offsets == [{"orders-0": 2}]
    write_segment(tmp_path / "orders-0", [batch(0, 2), records_of(2, 7), batch(3, 1), marker(4, 7, True)])
    query.take_all()
    assert query.rows == [(0, 2), (0, 3)]


def test_options(folder: Path) -> None:
    with pytest.raises(ValueError, match="only batch queries support this option"):
        parse_options({"path": str(folder), "endingOffsets": "latest"}).check_stream()


def test_starting_timestamp(folder: Path) -> None:
    query = Query(folder, startingTimestamp=str(TIME_MS + 95))
    query.take_all()
    assert query.rows == [(0, offset) for offset in range(95, 100)]


def test_a_loss_in_any_mode(folder: Path) -> None:
    query = Query(folder, mode="DROPMALFORMED")
    query.take_all()
    (folder / "orders-1" / f"{0:020}.log").unlink()
    with pytest.raises(LocalProtocolError, match="orders-1 no longer exists"):
        query.plan()


def test_a_log_that_is_shorter_than_planned(folder: Path) -> None:
    query = Query(folder)
    query.plan()
    write_segment(folder / "orders-1", [batch(0)])
    with pytest.raises(LocalProtocolError, match="orders-1: offsets 10 to 19 are gone; the partition ends at 10"):
        query.run()


def test_a_partition_that_is_gone_is_reported_still(folder: Path) -> None:
    query = Query(folder, failOnDataLoss="false")
    query.take_all()
    (folder / "orders-1" / f"{0:020}.log").unlink()
    query.plan()
    assert query.reader.reportLatestOffset() == {"orders-0": 100, "orders-1": 20}


def test_preallocated_room_is_nothing_to_take(folder: Path) -> None:
    path = folder / "orders-0" / f"{50:020}.log"
    path.write_bytes(path.read_bytes() + bytes(1 << 20))
    query = Query(folder, maxBytesPerTrigger="3000")
    query.plan()
    assert {partition for partition, _ in query.run()} == {0, 1}


def test_tasks_of_a_size(folder: Path) -> None:
    query = Query(folder, splitBytes="1m")
    query.plan()
    assert len(query.reader.partitions(*query.offsets[-2:])) == 3  # opening a file costs 4 MiB


def test_partitions_that_come_later(folder: Path) -> None:
    """New partitions begin at the configured offset or their start; a partition that disappears unread is a loss."""
    query = Query(folder, startingOffsets='{"orders":{"0":95,"2":15,"3":-1}}')
    for partition in (2, 3):
        write_segment(folder / f"orders-{partition}", [batch(number * 10) for number in range(2)])
    query.take_all()
    assert sorted(query.rows) == [
        *((0, offset) for offset in range(95, 100)),
        *((1, offset) for offset in range(20)),
        *((2, offset) for offset in range(15, 20)),
        *((3, offset) for offset in range(20)),
    ]
    write_segment(folder / "orders-4", [batch(0)])
    assert query.plan()
    shutil.rmtree(folder / "orders-4")
    with pytest.raises(LocalProtocolError, match="orders-4 no longer exists, but was to be read up to offset 10"):
        query.run()


def test_latest_is_before_an_open_transaction(folder: Path) -> None:
    """The stream ends before an open transaction, wherever the transaction began."""
    write_segment(folder / "orders-2", [batch(0), records_of(10, 7), batch(11, 5)])
    write_segment(folder / "orders-2", [batch(16, 6)])
    query = Query(folder, startingOffsets="latest", isolationLevel="read_committed", topics="orders")
    assert query.offsets[0]["orders-2"] == 10
