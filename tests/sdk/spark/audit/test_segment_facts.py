"""The audit's data sources have the right columns, options and rows, even without Spark's JVM."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.errors import ConfigurationError, DecodeError
from kafkawire.sdk.spark.audit.facts import FactKind, fact_ddl
from kafkawire.sdk.spark.audit.segment_facts import AuditFacts, KafkaBatches, OpenedBatches
from kafkawire.sdk.spark.damage import Mode
from tests.sdk.spark.segments.logs import TIME_MS, batch, write_segment

pytestmark = pytest.mark.filterwarnings("ignore")


def test_columns() -> None:
    assert AuditFacts({}).schema() == fact_ddl()
    assert KafkaBatches({}).schema() == OpenedBatches({}).schema() == fact_ddl(FactKind.BATCH)
    assert len({source.name() for source in (AuditFacts, KafkaBatches, OpenedBatches)}) == 3


def test_what_a_task_reads(tmp_path: Path) -> None:
    """Batches outside the time range have a row but are not counted; a reader can be sent to workers."""
    write_segment(tmp_path / "t-0", [batch(0), batch(10), batch(20)])
    options = {"path": str(tmp_path), "startingTimestamp": str(TIME_MS + 15), "startingOffsets": '{"t":{"0":10}}'}
    reader = pickle.loads(pickle.dumps(AuditFacts(options).reader(None)))  # type: ignore[arg-type]  # unused
    (task,) = reader.partitions()
    rows = [row for rows in reader.read(task) for row in rows.to_pylist()]
    assert [(row["baseOffset"], row["isCounted"]) for row in rows if row["kind"] == "batch"] == [(10, True), (20, True)]
    assert sum(row["records"] for row in rows if row["kind"] == "key") == 20
    options["startingTimestamp"] = str(TIME_MS + 25)
    (task,) = (reader := AuditFacts(options).reader(None)).partitions()  # type: ignore[arg-type]  # unused
    rows = [row for rows in reader.read(task) for row in rows.to_pylist()]  # type: ignore[union-attr]  # Arrow batches
    assert [row["isCounted"] for row in rows if row["kind"] == "batch"] == [False, True]


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_is_removed_meanwhile(tmp_path: Path, caplog: pytest.LogCaptureFixture, is_gone: bool) -> None:
    """The loss is logged, whether the file is gone or shorter; in some modes, a query of batches has a row for it."""
    options = {"path": str(tmp_path), "mode": "PERMISSIVE"}
    left = [] if is_gone else [None]
    for source, expected in ((AuditFacts, [*left, None]), (KafkaBatches, ["planned", *left, None])):
        first = write_segment(tmp_path / "t-0", [batch(0, 5), batch(5, 5)])
        write_segment(tmp_path / "t-0", [batch(10)])
        reader = source(options).reader(None)  # type: ignore[arg-type]  # unused
        tasks = reader.partitions()
        if is_gone:
            first.unlink()
        else:
            first.write_bytes(batch(0, 5))
        rows = [row for task in tasks for rows in reader.read(task) for row in rows.to_pylist()]  # type: ignore[union-attr]  # Arrow batches
        reasons = [row["reason"] for row in rows if row.get("kind", "batch") == "batch"]
        assert [reason and "planned" for reason in reasons] == expected
    assert "when the work was planned" in caplog.text


@pytest.mark.parametrize("mode", Mode)
def test_who_decides_what_becomes_of_damage(tmp_path: Path, mode: Mode) -> None:
    """For queries of batches, the option decides; an audit has a row for damage, whatever the option says."""
    broken = bytearray(batch(0))
    broken[-1] ^= 1
    write_segment(tmp_path / "t-0", [bytes(broken)], 0)

    def reasons(source: type[KafkaBatches]) -> list[str]:
        reader = source({"path": str(tmp_path), "mode": str(mode)}).reader(None)  # type: ignore[arg-type]  # unused
        (task,) = reader.partitions()
        return [row["reason"] for rows in reader.read(task) for row in rows.to_pylist()]  # type: ignore[union-attr]  # Arrow batches

    assert len(reasons(AuditFacts)) == 1
    if mode is Mode.FAILFAST:
        with pytest.raises(DecodeError, match="checksum"):
            reasons(KafkaBatches)
    else:
        assert len(reasons(KafkaBatches)) == (mode is Mode.PERMISSIVE)


@pytest.mark.parametrize("option", ["isolationLevel", "pushdown"])
def test_refused(tmp_path: Path, option: str) -> None:
    value = {"isolationLevel": "read_committed", "pushdown": "true"}[option]
    with pytest.raises(ConfigurationError, match=f"{option}=.*only supported when records are read"):
        KafkaBatches({"path": str(tmp_path), option: value}).reader(None)  # type: ignore[arg-type]  # unused
