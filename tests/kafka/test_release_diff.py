"""A release that is imported can be compared with the present schemas, which shows what changed since.

Method: the jars of Kafka 4.1.1 into an empty folder, then `kafkawire codegen diff` of that folder and the schemas, both
as programs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kafkawire
from tests.kafka.apache import fetch_jars

SCHEMAS = Path(kafkawire.__file__).parent / "schemas"
OLDER_RELEASE = "4.1.1"

TIMEOUT_SECONDS = 120


def codegen(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the code generator."""
    return subprocess.run(
        [sys.executable, "-m", "kafkawire.commands.main", "codegen", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def test_what_came_after_an_older_release(tmp_path: Path) -> None:
    imported = codegen("import", fetch_jars(OLDER_RELEASE), "--schemas", tmp_path)
    assert (imported.returncode, imported.stderr) == (0, "")
    shown = codegen("diff", tmp_path, SCHEMAS)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = {" ".join(line.split()) for line in shown.stdout.splitlines()}
    for line in (
        "ListOffsetsRequest 11 - new version compatible",
        "DescribeLogDirsResponse 5 results.is_cordoned added, bool compatible",
        "ShareFetchRequest 2 share_acquire_mode added, int8 compatible",
        "StreamsGroupMetadataValue 0 validated_topology_epoch added, int32, tag 0 compatible",
        "WriteTxnMarkersRequest 2 markers.transaction_version added, int8 compatible",
    ):
        assert line in lines
    assert shown.stdout.endswith(" 0 that break the wire\n")


def test_going_back_breaks_the_wire(tmp_path: Path) -> None:
    assert codegen("import", fetch_jars(OLDER_RELEASE), "--schemas", tmp_path).returncode == 0
    shown = codegen("diff", SCHEMAS, tmp_path, "--verdict", "breaks the wire")
    assert (shown.returncode, shown.stderr) == (1, "")
    lines = {" ".join(line.split()) for line in shown.stdout.splitlines()}
    assert "ListOffsetsRequest 11 - the newest version was taken back breaks the wire" in lines
