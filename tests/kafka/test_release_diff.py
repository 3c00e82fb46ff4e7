"""Releases from 2.8 on can be imported and compared with the current schemas; the comparison shows all later changes.

Method: import the jars of each release into an empty folder and into a copy of the schemas, and compare each with the
schemas by means of `kafkawire codegen diff`; all commands run as programs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkawire
from kafkawire.codegen.load import load_folder
from tests.kafka.apache import RELEASE, fetch_jars

SCHEMAS = Path(kafkawire.__file__).parent / "schemas"

TIMEOUT_SECONDS = 120

#: The changes from each release to the current schemas. Before 3.8, the records of KRaft and of the new group types
#: were previews whose formats later changed.
CHANGES = {
    "2.8.2": (
        "FetchRequest 0-3 - version dropped note",
        "AddPartitionsToTxnRequest 0-3 topics renamed to v3_and_below_topics note",
        "OffsetCommitValue 4 - new version compatible",
        "ControlledShutdownRequest 0-3 - version dropped note",
        "LeaderChangeMessage 1 - new version compatible",
    ),
    "3.9.1": (
        "ConsumerGroupHeartbeatRequest 1 - new version compatible",
        "ConsumerGroupHeartbeatRequest 1 subscribed_topic_regex added, string? compatible",
        "ShareGroupPartitionMetadataKey 0 - version dropped note",
    ),
    "4.1.1": (
        "ListOffsetsRequest 11 - new version compatible",
        "DescribeLogDirsResponse 5 results.is_cordoned added, bool compatible",
        "ShareFetchRequest 2 share_acquire_mode added, int8 compatible",
        "StreamsGroupMetadataValue 0 validated_topology_epoch added, int32, tag 0 compatible",
        "WriteTxnMarkersRequest 2 markers.transaction_version added, int8 compatible",
    ),
}


def codegen(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the code generator."""
    return subprocess.run(
        [sys.executable, "-m", "kafkawire.commands.main", "codegen", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("release", CHANGES)
def test_what_came_after_an_older_release(tmp_path: Path, release: str) -> None:
    imported = codegen("import", fetch_jars(release), "--schemas", tmp_path)
    assert (imported.returncode, imported.stderr) == (0, "")
    shown = codegen("diff", tmp_path, SCHEMAS)
    assert shown.stderr == ""
    lines = {" ".join(line.split()) for line in shown.stdout.splitlines()}
    assert set(CHANGES[release]) <= lines
    if release == "4.1.1":
        assert shown.returncode == 0
        assert shown.stdout.endswith(" 0 that break the wire\n")


@pytest.mark.parametrize("release", CHANGES)
def test_import_into_a_copy_of_the_schemas(tmp_path: Path, release: str) -> None:
    older, copy = tmp_path / "older", tmp_path / "schemas"
    assert codegen("import", fetch_jars(release), "--schemas", older).returncode == 0
    shutil.copytree(SCHEMAS, copy)
    imported = codegen("import", fetch_jars(release), "--schemas", copy, "--remove")
    assert (imported.returncode, imported.stderr) == (0, "")
    assert load_folder(copy).keys() == load_folder(older).keys()
    assert codegen("diff", older, copy).stdout.startswith("0 changes: ")
    back = codegen("import", fetch_jars(RELEASE), "--schemas", copy, "--remove", "--forget")
    assert (back.returncode, back.stderr) == (0, "")
    # The remaining changes are history that these jars do not include.
    _columns, *changes, counts = codegen("diff", copy, SCHEMAS).stdout.splitlines()
    assert counts.endswith(" 0 with a note, 0 that break the wire")
    assert {change for change in changes if "known, removed in 4." not in change} == {
        change for change in changes if change.startswith("RequestHeader") and "became ignorable" in change
    }


def test_going_back_breaks_the_wire(tmp_path: Path) -> None:
    assert codegen("import", fetch_jars("4.1.1"), "--schemas", tmp_path).returncode == 0
    shown = codegen("diff", SCHEMAS, tmp_path, "--verdict", "breaks the wire")
    assert (shown.returncode, shown.stderr) == (1, "")
    lines = {" ".join(line.split()) for line in shown.stdout.splitlines()}
    assert "ListOffsetsRequest 11 - the newest version was withdrawn breaks the wire" in lines
