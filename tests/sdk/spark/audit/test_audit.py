"""Audits of the same segments give equal tables, whether they run once, in pieces, or with interruptions.

Method: audit a hand-built folder that has every kind of fact as a whole, in pieces as a broker would append them, and
with an interruption at each step; compare the tables row by row.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire import NewTopic
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records import BatchBuilder, Compression
from kafkawire.sdk.spark.audit import audit as module
from kafkawire.sdk.spark.audit import merging
from kafkawire.sdk.spark.audit.audit import audit, audit_brokers
from kafkawire.sdk.spark.audit.segment_facts import AuditFacts
from kafkawire.sdk.spark.audit.store import Manifest
from kafkawire.sdk.spark.audit.tables import TABLES
from kafkawire.sync import Admin
from kafkawire.testing import Broker
from tests.sdk.spark.audit.commit_records import key, value
from tests.sdk.spark.brokers.topics import create, produce, stored
from tests.sdk.spark.segments.logs import TIME_MS, batch, marker, records_of, write_segment

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


#: The number of records in a partition that is shared by several tasks if each task reads a megabyte.
LARGE = 60_000


def orders() -> list[list[bytes]]:
    """Return a partition's segments."""
    broken = bytearray(batch(30, 5))
    broken[-1] ^= 1
    transactional: dict[str, Any] = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 3,
        "is_transactional": True,
    }
    idempotent: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    return [
        [batch(0, compression=Compression.ZSTD), records_of(10, 7, 3), marker(13, 7, is_commit=False)],
        [batch(20), bytes(broken), batch(35, 5, **idempotent), batch(40, 5, **idempotent)],
        [batch(45, compression=Compression.LZ4), batch(55, 3, **transactional)],
    ]


def commits() -> bytes:
    builder = BatchBuilder(base_offset=0)
    for number in range(4):
        builder.append(TIME_MS, key("billing", "orders", 0), value(number * 10, TIME_MS + number * 20))
    return builder.build()


def write(folder: Path) -> Path:
    for batches, base in zip(orders(), (0, 20, 45), strict=True):
        write_segment(folder / "orders-0", batches, base)
    write_segment(folder / "orders-1", [batch(base, 1000) for base in range(0, LARGE, 1000)])
    write_segment(folder / "__consumer_offsets-0", [commits()])
    return folder


def tables(spark: Any, out: Path) -> dict[str, list[Any]]:
    """Return all of an audit's tables, with their rows in stored order."""
    return {name: spark.read.parquet(str(out / "tables" / name)).collect() for name in TABLES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("segments"))


@pytest.fixture(scope="module")
def whole(spark: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return the tables from one audit of the whole folder."""
    out = tmp_path_factory.mktemp("whole") / "audit"
    result = audit(spark, folder, out)
    assert result.version == 1
    assert result.numbers["records"] == 10 + 3 + 10 + 5 + 5 + 10 + 3 + LARGE + 4
    assert [finding.text for finding in result.findings if finding.severity == "bad"] == [
        "11 records probably lost",
        "1 corrupt region, 261 B",
        "1 partition with unexplained gaps",
    ]
    assert result.report is not None
    page = result.report.read_text("utf-8")
    assert "1 open transaction" in page
    assert str(folder) in page
    return tables(spark, out)


@pytest.mark.smoke
def test_tables(whole: dict[str, list[Any]]) -> None:
    assert [tuple(row)[1:] for row in whole["gaps"]] == [(0, 14, 20, 6, "unknown"), (0, 30, 35, 5, "damage")]
    assert [(row.baseOffset, row.records) for row in whole["duplicates"]] == [(40, 5)]
    assert [(row.firstOffset, row.outcome) for row in whole["transactions"]] == [(10, "ABORT"), (55, "OPEN")]
    assert [(row.position, row.expectedOffset) for row in whole["corrupt"]] == [(len(batch(20)), 30)]
    assert [(row.group, row.committedOffset, row.logEndOffset, row.lag) for row in whole["groups"]] == [
        ("billing", 30, 58, 28)
    ]
    assert [(row.committedOffset, row.logEndOffset) for row in whole["group_commits"]] == [
        (0, None),
        (10, 14),
        (20, 40),
        (30, 58),
    ]
    assert {(row.topic, row.partition): row.records for row in whole["partitions"]} == {
        ("__consumer_offsets", 0): 4,
        ("orders", 0): 46,
        ("orders", 1): LARGE,
    }
    assert sum(row.records for row in whole["rates"]) == 50 + LARGE
    for name, table in TABLES.items():
        places = [tuple(row[column] for column in table.order) for row in whole[name]]
        assert len(set(places)) == len(places), f"the order of {name} does not identify each row"


def test_the_same_again(spark: Any, folder: Path, whole: dict[str, list[Any]], tmp_path: Path) -> None:
    """The second audit writes to another folder, in smaller tasks; the third uses the same folder, without new data."""
    out = tmp_path / "audit"
    paths = [folder / "orders-0", folder / "orders-1", folder / "__consumer_offsets-0"]
    assert (folder / "orders-1" / f"{0:020}.log").stat().st_size > 3 << 20
    first = audit(spark, paths, out, split_bytes=1 << 20)
    assert tables(spark, out) == whole
    again = audit(spark, folder, out, with_report=False)
    assert (again.version, again.report) == (2, None)
    assert again.numbers == first.numbers
    assert tables(spark, out) == whole


def test_from_brokers(spark: Any, whole: dict[str, list[Any]], tmp_path: Path) -> None:
    """The tables equal those from segments, except for positions in files."""
    with Broker(tmp_path / "data") as broker, Admin(broker.bootstrap) as admin:
        admin.create_topics(NewTopic("orders", 2, configs={"retention.ms": "-1"}))
    for path in (tmp_path / "data").glob("orders-*/0*"):
        path.unlink()
    write(tmp_path / "data")
    with Broker(tmp_path / "data") as broker:  # a clean shutdown, so the broker does not search for damage
        out = tmp_path / "audit"
        result = audit_brokers(spark, broker.bootstrap, out, topics=["orders"])
        assert result.report is not None
        assert broker.bootstrap in result.report.read_text("utf-8")
    found = tables(spark, out)
    for name in sorted(TABLES.keys() - {"groups", "group_commits"}):
        expected = [row.asDict() for row in whole[name] if row.topic == "orders"]
        for row in expected:
            row.update({place: None for place in ("path", "position") if place in row})
            row.update({"segments": 0, "logStartOffset": 0} if "segments" in row else {})
        assert [row.asDict() for row in found[name]] == expected, name
    with pytest.raises(ConfigurationError, match="the audit was made with"):
        audit(spark, tmp_path / "data", out)


def test_a_time_from_brokers(spark: Any, tmp_path: Path) -> None:
    """The end of a time range is exclusive, the client gets its options, and a recreated topic is refused."""
    with stored(tmp_path / "data", *(batch(first) for first in range(0, 50, 10))) as broker:
        options: dict[str, Any] = {"since_ms": TIME_MS + 19, "until_ms": TIME_MS + 39}
        options["client"] = {"client.id": "auditor"}
        found = audit_brokers(spark, broker.bootstrap, tmp_path / "audit", with_report=False, **options)
        assert found.numbers["records"] == 20
        with pytest.raises(ConfigurationError, match="different options need another folder"):
            audit_brokers(spark, broker.bootstrap, tmp_path / "audit")
        with pytest.raises(ConfigurationError, match=r"client\.idd"):
            audit_brokers(spark, broker.bootstrap, tmp_path / "other", client={"client.idd": "auditor"})
        with Admin(broker.bootstrap) as admin:
            admin.delete_topics(["orders"])
        create(broker, orders=1)
        produce(broker, "orders", 0, 60)
        with pytest.raises(ConfigurationError, match=f"out='{tmp_path / 'audit'}': topic orders was"):
            audit_brokers(spark, broker.bootstrap, tmp_path / "audit", with_report=False, **options)


def test_in_pieces(
    spark: Any, folder: Path, whole: dict[str, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker writes between the audits; the first audit sees half a batch, and the second merges the facts."""
    monkeypatch.setattr(merging, "RUNS_MAX", 1)
    segments, out = tmp_path / "segments", tmp_path / "audit"
    shutil.copytree(folder, segments)
    later = segments / "orders-0" / f"{45:020}.log"
    content = later.read_bytes()
    later.write_bytes(content[:-20])
    shutil.rmtree(segments / "orders-1")
    first = audit(spark, segments, out, with_report=False)
    assert first.numbers["partitions"] == 2
    shutil.rmtree(segments)
    shutil.copytree(folder, segments)
    audit(spark, segments, out, with_report=False)
    assert [path.name for path in (out / "facts").iterdir()] == ["run=3"]
    found = tables(spark, out)
    for name in TABLES:
        # The files are in another place.
        rows = [row.asDict() | ({"path": None} if "path" in row else {}) for row in found[name]]
        assert rows == [row.asDict() | ({"path": None} if "path" in row else {}) for row in whole[name]], name


def test_what_is_idle(spark: Any, tmp_path: Path) -> None:
    """A partition continues where it ended, whatever other partitions have received; nothing is counted twice."""
    segments, out = tmp_path / "segments", tmp_path / "audit"
    counts = []
    for first, second in ((1, 1), (1, 2), (2, 2)):
        for partition, batches in enumerate((first, second)):
            write_segment(segments / f"t-{partition}", [batch(number * 10) for number in range(batches)])
        audit(spark, segments, out, with_report=False)
        rows = tables(spark, out)
        counts.append([(row.records, row.startOffset, row.endOffset, row.keys) for row in rows["partitions"]])
        assert not rows["gaps"]
        assert not rows["duplicates"]
    ten, twenty = (10, 0, 10, 10), (20, 0, 20, 20)
    assert counts == [[ten, ten], [ten, twenty], [twenty, twenty]]


def test_a_report_that_could_not_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing package is reported before anything is read."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    reason = r"with_report=True: jinja2 is not installed \(pip install"
    with pytest.raises(ConfigurationError, match=reason):
        audit(MagicMock(), folder, tmp_path / "audit")
    with pytest.raises(ConfigurationError, match=reason):
        audit_brokers(MagicMock(), "localhost:1", tmp_path / "audit")
    assert not (tmp_path / "audit").exists()


def test_partitions_that_do_not_go_on(spark: Any, tmp_path: Path) -> None:
    """A partition that now ends earlier or was recreated is refused, and the tables stay as they were."""
    segments, out = tmp_path / "segments", tmp_path / "audit"
    write_segment(segments / "t-0", [batch(0), batch(10)])
    audit(spark, segments, out, with_report=False)
    before = tables(spark, out)
    anew: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
    for batches, reason in (
        ([batch(0)], f"out='{out}': t-0 was read up to offset 20, but now ends at 10"),
        ([batch(first, **anew, base_sequence=first) for first in (0, 10, 20)], "has a different batch there now"),
    ):
        write_segment(segments / "t-0", batches)
        with pytest.raises(ConfigurationError, match=reason):
            audit(spark, segments, out, with_report=False)
    assert tables(spark, out) == before
    write_segment(segments / "t-0", [batch(0), batch(10), batch(20)])
    assert audit(spark, segments, out, with_report=False).numbers["records"] == 30


def test_segments_without_those_of_topics_that_were_deleted(tmp_path: Path) -> None:
    """Facts about deleted topics stay in the audit; a topic that never existed is an error."""
    write_segment(tmp_path / "a-0", [batch(0)])
    texts = {"path": str(tmp_path), "topics": "a,gone"}
    before = Manifest(next_offsets={"a": {"0": 7}, "gone": {"0": 5}})
    _, found, noted = module._segments(texts, ["a", "gone"], before)
    assert (texts["topics"], [segment.folder.topic for segment in found]) == ("a", ["a"])
    assert [partition.topic for partition in noted] == ["a"]
    assert texts["startingOffsets"] == '{"a": {"0": 7}}'
    AuditFacts(texts).reader(None)  # type: ignore[arg-type]  # unused
    for topics in ["a", "gone"], ["gone"]:
        with pytest.raises(ConfigurationError, match="topics='gone': available topics: a"):
            module._segments({"path": str(tmp_path), "topics": ",".join(topics)}, topics, Manifest())
    with pytest.raises(ConfigurationError, match="topics='gone': available topics: a"):
        module._segments({**texts, "topics": "gone"}, ["gone"], Manifest(next_offsets={"gone": {"0": 5}}))


def test_a_topic_of_which_no_segment_is_left(tmp_path: Path) -> None:
    """A topic without segments must be audited nevertheless, because the audit has to report the loss."""
    write_segment(tmp_path / "a-0", [batch(0)]).unlink()
    texts = {"path": str(tmp_path), "topics": "a"}
    _, found, noted = module._segments(texts, ["a"], Manifest())
    assert (found, [str(partition) for partition in noted]) == ([], ["a-0"])
    reader = AuditFacts(texts).reader(None)  # type: ignore[arg-type]  # unused
    assert reader.partitions() == []


def test_compaction_of_single_records(spark: Any, tmp_path: Path) -> None:
    """In this case, compaction removes whole batches, so only the broker's checkpoint shows that it has run."""
    for topic in ("cleaned", "holes"):
        write_segment(tmp_path / "data" / f"{topic}-0", [batch(offset, 1) for offset in (0, 1, 5, 9, 30)])
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 9\n")
    audit(spark, tmp_path / "data", tmp_path / "audit", with_report=False)
    assert [(row.topic, row.startOffset, row.cause) for row in tables(spark, tmp_path / "audit")["gaps"]] == [
        ("cleaned", 2, "cleaning"),
        ("cleaned", 6, "cleaning"),
        ("cleaned", 10, "unknown"),
        *(("holes", start, "unknown") for start in (2, 6, 10)),
    ]


def test_what_is_removed_between(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause of the gap is kept, even after the facts from several runs have been merged."""
    monkeypatch.setattr(merging, "RUNS_MAX", 1)
    segments, out = tmp_path / "segments", tmp_path / "audit"
    for first in (0, 20, 30):
        shutil.rmtree(segments, ignore_errors=True)
        write_segment(segments / "t-0", [batch(first)])
        found = audit(spark, segments, out, with_report=False)
    assert [tuple(row)[2:] for row in tables(spark, out)["gaps"]] == [(10, 20, 10, "retention")]
    assert [finding.severity for finding in found.findings] == ["note"]


def test_interrupted(spark: Any, folder: Path, whole: dict[str, list[Any]], tmp_path: Path) -> None:
    out = tmp_path / "audit"

    class StoppedError(Exception):
        """The exception that stops an audit."""

    for stop in ("reading segments", "tables, 1", "report"):

        def on_step(step: str, stop: str = stop) -> None:
            if step.startswith(stop):
                raise StoppedError

        with pytest.raises(StoppedError):
            audit(spark, folder, out, on_step=on_step)
        assert not (out / "current").exists()
    audit(spark, folder, out, with_report=False)
    assert tables(spark, out) == whole
    assert sorted(path.name for path in (out / "facts").iterdir()) == ["run=1"]


def test_a_time_and_topics(spark: Any, folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"topics": ["orders"], "since_ms": TIME_MS + 25, "until_ms": TIME_MS + 45}
    result = audit(spark, folder, tmp_path / "audit", with_report=False, **options)
    assert (result.numbers["topics"], result.numbers["records"], result.numbers["gaps"]) == (1, 10 + 5 + 5, 2)
    with pytest.raises(ConfigurationError, match="different options need another folder"):
        audit(spark, folder, tmp_path / "audit")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"since_ms": "2026"}, "since_ms='2026': expected ms since the epoch"),
        ({"until_ms": True}, "until_ms=True: expected ms since the epoch"),
        ({"since_ms": -1}, "since_ms=-1: expected ms since the epoch, 0 to"),
        ({"since_ms": 9, "until_ms": 1}, "since_ms=9: expected at most until_ms=1"),
        ({"split_bytes": 1024}, "split_bytes=1024: expected at least 1048576 bytes"),
        ({"split_bytes": "1g"}, "split_bytes='1g': expected at least 1048576 bytes"),
        ({"topics": " , "}, "topics=' , ': expected names, separated by commas"),
        ({"topics": "orders,order"}, "topics='order': available topics: __consumer_offsets, orders"),
    ],
)
def test_options_that_are_refused(folder: Path, tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    """Invalid options are refused before anything is read, and leave nothing behind."""
    with pytest.raises(ConfigurationError, match=reason):
        audit(MagicMock(), folder, tmp_path / "audit", **options)
    assert not (tmp_path / "audit" / "current").exists()


def test_times_that_are_refused_before_brokers_are_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="since_ms=9: expected at most until_ms=1"):
        audit_brokers(MagicMock(), "localhost:1", tmp_path / "audit", since_ms=9, until_ms=1)
    assert not (tmp_path / "audit").exists()


def test_refused(spark: Any, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no segments were found"):
        audit(spark, tmp_path, tmp_path / "audit")
    with pytest.raises(ConfigurationError, match=r"topics='order': available topics: __consumer_offsets, orders"):
        audit(spark, folder, tmp_path / "audit", topics=["order"])
    with pytest.raises(ConfigurationError, match="no such file or folder"):
        audit(spark, tmp_path / "none", tmp_path / "audit")
