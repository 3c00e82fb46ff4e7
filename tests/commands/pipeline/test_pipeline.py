"""`kafkawire pipeline` audits segments, and reports errors in one line.

Method: run the command as a process on this machine, on a cluster of two workers, and through spark-submit; kill it
halfway; try wrong arguments in this process. The tests are skipped if Spark or Java is missing.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from kafkawire.commands.main import main
from kafkawire.commands.pipeline import pipeline
from kafkawire.commands.pipeline.pipeline import reason_of, time_ms
from tests.needs import SPARK
from tests.spark_cluster import spark_command, standalone_cluster

pytestmark = pytest.mark.timeout(300)

COMMAND = [sys.executable, "-m", "kafkawire", "pipeline"]

#: For a process with its own Spark: a few short queries gain more from a fast startup than from optimized code.
ENVIRONMENT = {
    **os.environ,
    "PYSPARK_PYTHON": sys.executable,
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


#: The demo with a smaller shop, in a separate process because it stops Spark; the sensors still fill several segments.
DEMO = """
import sys
from functools import partial
from kafkawire.commands import main
from kafkawire.commands.pipeline import shop_day

shop_day.write_day = partial(shop_day.write_day, scale=0.4)
sys.exit(main.main(["pipeline", "demo", *sys.argv[1:]]))
"""


@pytest.fixture
def needs_spark() -> None:
    SPARK.require()


@pytest.fixture
def folder(tmp_path: Path, needs_spark: None) -> Path:
    from tests.sdk.spark.segments.logs import batch, write_segment

    for number in range(3):
        write_segment(tmp_path / "data" / f"orders-{number}", [batch(each * 10) for each in range(20)])
    return tmp_path / "data"


def run(*arguments: str | Path, command: list[str] = COMMAND) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=280, check=False, env=ENVIRONMENT
    )


@pytest.mark.spark
@pytest.mark.thorough
def test_a_cluster_and_a_large_partition(folder: Path, tmp_path: Path) -> None:
    """The audit runs via spark-submit, on a standalone cluster of two workers that share only files with the driver.

    Settings make sorts and windows spill to disk after a few rows, as if the partition did not fit into memory.
    """
    from tests.sdk.spark.segments.logs import batch, write_segment

    write_segment(folder / "large-0", [batch(base, 100) for base in range(0, 30_000, 100)])
    (tmp_path / "events").mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.shuffle.spill.numElementsForceSpillThreshold": "2000",
        "spark.sql.windowExec.buffer.in.memory.threshold": "50",
        "spark.sql.windowExec.buffer.spill.threshold": "50",
    }
    confs = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    with standalone_cluster(tmp_path, 2, ENVIRONMENT) as master:
        command = [spark_command("spark-submit"), "--master", master, *confs, pipeline.__file__]
        found = run("audit", folder, "--out", tmp_path / "audit", "--json", "--no-report", command=command)
        assert found.returncode == 0, found.stderr
        assert all(any((tmp_path / f"worker-{number}").rglob("stderr")) for number in range(2)), "a worker was idle"
    numbers = json.loads(found.stdout)
    assert (numbers["records"], numbers["partitions"], numbers["gaps"]) == (30_600, 4, 0)
    assert numbers["report"] is None
    assert [finding["text"] for finding in numbers["findings"]] == ["large is hardly compressed"]
    events = "".join(path.read_text("utf-8") for path in (tmp_path / "events").rglob("*") if path.is_file())
    spilled = sum(map(int, re.findall(r'"Disk Bytes Spilled":(\d+)', events)))
    assert spilled > 0, "nothing was spilled to disk"


@pytest.mark.spark
@pytest.mark.thorough
def test_killed_and_completed(folder: Path, tmp_path: Path) -> None:
    """A killed audit leaves no usable results, and the next one is complete."""
    out = tmp_path / "audit"
    process = subprocess.Popen(
        [*COMMAND, "audit", str(folder), "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    tables = out / "versions" / "1" / "tables"
    try:
        while not tables.exists():  # wait until all facts are stored and the tables are being written
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                break
        assert process.poll() is None, "the audit ended too soon"
        os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert not (out / "current").exists()
    found = run("audit", folder, "--out", out)
    assert found.returncode == 0, found.stderr
    assert "600 records, 3 partitions, 1 topic\n" in found.stdout
    assert f"report: {out / 'report.html'}" in found.stdout
    assert (out / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert found.stderr == ""
    assert os.readlink(out / "current") == "versions/1"


@pytest.mark.spark
@pytest.mark.thorough
def test_full_disk(folder: Path, tmp_path: Path) -> None:
    """A full disk is reported in one line, the previous audit remains intact, and the next audit succeeds.

    No file may grow beyond 2 MB, so a write fails halfway, as on a full disk.
    """
    from kafkawire.sdk.records import BatchBuilder
    from tests.sdk.spark.segments.logs import write_segment

    out = tmp_path / "audit"
    assert run("audit", folder, "--out", out, "--no-report").returncode == 0
    whole = (out / "current" / "manifest.json").read_bytes()
    builder = BatchBuilder(1 << 24)
    for _ in range(40_000):
        builder.append(0, random.randbytes(100), b"")
    write_segment(folder / "many-keys-0", [builder.build()])
    limited = ["bash", "-c", 'ulimit -f 2000; exec "$@"', "bash", *COMMAND]
    found = run("audit", folder, "--out", out, "--no-report", command=limited)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("kafkawire pipeline: ")
    assert found.stderr.count("\n") == 1
    assert "File too large" in found.stderr
    assert (out / "current" / "manifest.json").read_bytes() == whole
    found = run("audit", folder, "--out", out, "--no-report")
    assert found.returncode == 0, found.stderr
    assert "40,600 records, 4 partitions, 2 topics\n" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["audit", "--out", "o"], "either folders or --bootstrap is required"),
        (
            ["audit", "/nowhere", "--bootstrap", "broker:9092", "--out", "o"],
            "either folders or --bootstrap is required",
        ),
        (["audit", "/nowhere", "--command-config", "f", "--out", "o"], "--command-config: requires --bootstrap"),
        (["audit", "--bootstrap", "b:1", "--command-config", "/no/file", "--out", "o"], "cannot read /no/file"),
        (["audit", "/nowhere", "--split-bytes", "9", "--out", "o"], "--split-bytes: '9': expected 1048576 to"),
        (
            ["audit", "--bootstrap", "b:1", "--split-bytes", "1g", "--out", "o"],
            "cannot be combined with --bootstrap",
        ),
        (["audit", "/nowhere"], "Missing option '--out'"),
        (
            ["audit", "/nowhere", "--out", "o", "--since", "noon"],
            "expected 2026-03-01, 2026-03-01T08:00+01:00 or ms since 1970, got 'noon'",
        ),
        (["audit", "/nowhere", "--out", "o", "--since", "1960-01-01"], "expected 1970 or later, got '1960-01-01'"),
        (
            ["audit", "/nowhere", "--out", "o", "--since", "2026-03-02", "--until", "2026-03-01"],
            "is later than --until",
        ),
        (["audit", "/nowhere", "--out", "o", "--fail-on", "good"], "expected one of bad, warning, note, got 'good'"),
        (["adit"], "No such command 'adit'"),
    ],
)
def test_mistakes(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("name", "status"), [("new", 1), ("empty", 1), ("audit", 2), ("audit/file", 2)])
def test_where_a_demo_goes(
    name: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a new or empty folder is accepted (here, the demo then fails for lack of Spark); others stay unchanged."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "file").touch()
    monkeypatch.setattr(pipeline, "why_not", lambda: "no Java")
    assert main(["pipeline", "demo", "--out", str(tmp_path / name)]) == status
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert ("must be new or empty" if status == 2 else "no Java") in error
    assert (tmp_path / "audit" / "file").exists()


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.usefixtures("needs_spark")
def test_a_demo_to_its_end(tmp_path: Path) -> None:
    """The demo's audit finds the planted damage, and everything else that the shop's day is designed to show."""
    out = tmp_path / "audit"
    found = run("--out", out, "--no-browser", command=[sys.executable, "-c", DEMO])
    assert (found.returncode, found.stderr) == (0, "")
    damage = re.search(
        r"in a copy, a byte of (clicks-\d) is flipped, a batch of (orders-\d) is duplicated, "
        r"a segment of (sensors-\d) is missing\n",
        found.stdout,
    )
    assert damage is not None, found.stdout
    flipped, doubled, removed = damage.groups()
    findings = [line.removeprefix("● ") for line in found.stdout.splitlines() if line.startswith("● ")]
    for expected in (
        rf"1 corrupt region, .+  {flipped}: a wrong checksum",
        rf"1 partition with unexplained gaps  {removed}: ",
        rf"\d+ records? written twice  {doubled}: ",
        r"1 open transaction  payments-\d: ",
        r"\d+ aborted transactions  .+ of those that ended in payments-",
        r"2 groups behind by ",
        r"One key has .+ of the records of sensors",
    ):
        assert any(re.match(expected, finding) for finding in findings), (expected, findings)
    assert f"report: {out / 'report.html'}\n" in found.stdout
    assert "sensors" in (out / "report.html").read_text("utf-8")


@pytest.mark.spark
@pytest.mark.thorough
def test_nothing_to_audit(folder: Path, tmp_path: Path) -> None:
    found = run("audit", tmp_path / "none", "--out", tmp_path / "audit")
    assert found.returncode == 2
    assert found.stderr == f"kafkawire pipeline: path='{tmp_path / 'none'}': no such file or folder\n"


def test_no_spark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pipeline, "why_not", lambda: "no Java 17 or newer was found")
    assert main(["pipeline", "audit", "folder", "--out", "out"]) == 1
    assert capsys.readouterr().err == "kafkawire pipeline: Spark cannot run: no Java 17 or newer was found\n"


@pytest.mark.parametrize(("given", "master"), [((), None), (("--master", "spark://host:7077"), "spark://host:7077")])
def test_where_spark_runs(
    given: tuple[str, ...], master: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    empty_folder(tmp_path, monkeypatch)
    seen = []

    def start_spark(name: str, master: str | None) -> None:
        seen.append((name, master))
        raise OSError("no cluster")

    monkeypatch.setattr(pipeline, "why_not", lambda: None)
    monkeypatch.setattr(pipeline, "start_spark", start_spark)
    assert main(["pipeline", "audit", "folder", "--out", "out", *given]) == 1
    assert seen == [("kafkawire audit", master)]


def test_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments and the options from the file are passed to the audit of brokers."""
    pytest.importorskip("pyarrow")
    from kafkawire.sdk.spark.audit import audit

    seen: list[Any] = []

    def audit_brokers(spark: object, servers: str, out: str, **options: Any) -> None:
        seen.append((servers, out, options["topics"], options["client"]))
        raise OSError("no broker")

    monkeypatch.setattr(pipeline, "why_not", lambda: None)
    monkeypatch.setattr(pipeline, "start_spark", lambda *_: MagicMock())
    monkeypatch.setattr(audit, "audit_brokers", audit_brokers)
    config = tmp_path / "client.properties"
    config.write_text("# of the audit\nsecurity.protocol = SASL_SSL\nsasl.username: audit\n")
    arguments = ["--bootstrap", "b:1,c:2", "--out", "o", "--topics", "x, y", "--command-config", str(config)]
    assert main(["pipeline", "audit", *arguments]) == 1
    client = {"security.protocol": "SASL_SSL", "sasl.username": "audit"}
    assert seen == [("b:1,c:2", "o", ["x", "y"], client)]


def test_how_much_a_task_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    empty_folder(tmp_path, monkeypatch)
    from kafkawire.sdk.spark.audit import audit

    seen: list[Any] = []

    def audit_segments(spark: object, path: list[str], out: str, **options: Any) -> None:
        seen.append((path, options.get("split_bytes")))
        raise OSError("no folder")

    monkeypatch.setattr(pipeline, "why_not", lambda: None)
    monkeypatch.setattr(pipeline, "start_spark", lambda *_: MagicMock())
    monkeypatch.setattr(audit, "audit", audit_segments)
    assert main(["pipeline", "audit", "folder", "--out", "o", "--split-bytes", "1g"]) == 1
    assert main(["pipeline", "audit", "folder", "--out", "o"]) == 1
    assert seen == [(["folder"], 1 << 30), (["folder"], None)]


@pytest.mark.parametrize(
    ("found", "fails_on"),
    [([], []), (["note"], ["note"]), (["warning", "note"], ["warning", "note"]), (["bad"], ["bad", "warning", "note"])],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_what_a_finding_makes_of_the_status(
    found: list[str], fails_on: list[str], more: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    empty_folder(tmp_path, monkeypatch)
    from kafkawire.sdk.spark.audit import audit
    from kafkawire.sdk.spark.audit.findings import Finding, Severity

    numbers: dict[str, int | float | None] = dict.fromkeys(("records", "partitions", "topics"), 0)
    findings = tuple(Finding(Severity(severity), "text", "detail") for severity in found)
    seen: list[bool] = []

    def audit_segments(spark: object, path: list[str], out: str, **options: Any) -> audit.AuditResult:
        seen.append(options["reread"])
        return audit.AuditResult(Path(out), 1, numbers, findings, None)

    monkeypatch.setattr(pipeline, "why_not", lambda: None)
    monkeypatch.setattr(pipeline, "start_spark", lambda *_: MagicMock())
    monkeypatch.setattr(audit, "audit", audit_segments)
    arguments = ["pipeline", "audit", "folder", "--out", "o", *more]
    assert main([*arguments, "--reread"]) == 0
    for severity in ("bad", "warning", "note"):
        assert main([*arguments, "--fail-on", severity]) == (3 if severity in fails_on else 0), severity
    assert seen == [True, False, False, False]


def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder that contains an empty folder, and preserve this process's environment."""
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "starting_quickly", lambda: None)


@pytest.mark.parametrize(
    ("path", "small_bytes", "quick"),
    [("folder", 1 << 30, [True]), ("folder", 3, []), ("s3://bucket/kafka", 1 << 30, [])],
)
def test_what_is_known_before_spark_starts(
    path: str, small_bytes: int, quick: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For small data, the JVM uses only its quick compiler; other file systems are not checked first."""
    pytest.importorskip("pyarrow")
    empty_folder(tmp_path, monkeypatch)
    segment = tmp_path / "folder" / "orders-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(b"xyz")
    seen: list[bool] = []
    monkeypatch.setattr(pipeline, "_SMALL_BYTES", small_bytes)
    monkeypatch.setattr(pipeline, "starting_quickly", lambda: seen.append(True))
    pipeline._prepare([path])
    assert seen == quick


def test_a_mistaken_path_is_reported_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")

    def start_spark(name: str, master: str | None) -> None:
        raise AssertionError("Spark must not start: it takes half a minute on a busy machine")

    monkeypatch.setattr(pipeline, "why_not", lambda: None)
    monkeypatch.setattr(pipeline, "start_spark", start_spark)
    assert main(["pipeline", "audit", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"kafkawire pipeline: path='{tmp_path / 'none'}': no such file or folder\n"


def test_reasons() -> None:
    java = "An error occurred while calling None.JavaSparkContext.\n: org.apache.SparkException: no master\n\tat a.b"
    assert reason_of(ValueError(java)) == "org.apache.SparkException: no master"
    causes = "\nCaused by: java.io.IOException: a\n\t... 9 more\nCaused by: java.io.IOException: full\n\tat c.d"
    assert reason_of(ValueError(java + causes)) == "org.apache.SparkException: no master: java.io.IOException: full"
    assert reason_of(ValueError("[PATH_NOT_FOUND] it is gone\nmore")) == "[PATH_NOT_FOUND] it is gone"
    worker = "An exception was thrown from the Python worker:\nTraceback:\n  File\nOSError: disk full"
    assert reason_of(ValueError(worker)) == "OSError: disk full"
    assert reason_of(ValueError()) == "ValueError"


def test_times() -> None:
    assert time_ms("--since", "") is None
    assert time_ms("--since", "1970-01-02") == 86_400_000
    assert time_ms("--since", "1970-01-01T01:00+01:00") == 0
    assert time_ms("--since", "1700000000000") == 1_700_000_000_000
