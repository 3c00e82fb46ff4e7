"""The kinds of files and folders are recognized from their names.

Method: try names that Apache Kafka uses, and other names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafkawire.commands.inspection.dumping.files import FileKind, files_of, stored_file


@pytest.mark.parametrize(
    ("name", "kind", "offset", "epoch", "topic"),
    [
        ("a.b-c-12/00000000000000000007.log", FileKind.LOG, 7, None, "a.b-c"),
        ("t-0/7.log", FileKind.LOG, 7, None, "t"),
        ("t-0/copy.log", FileKind.LOG, None, None, "t"),
        ("t-0/99999999999999999999.log", FileKind.LOG, None, None, "t"),
        ("t-0/00000000000000000007.log.deleted", FileKind.LOG, 7, None, "t"),
        ("t-0/00000000000000000007.index", FileKind.OFFSET_INDEX, 7, None, "t"),
        ("t-0/00000000000000000007.timeindex.swap", FileKind.TIME_INDEX, 7, None, "t"),
        ("t-0/00000000000000000007.txnindex", FileKind.TRANSACTION_INDEX, 7, None, "t"),
        ("t-0/00000000000000000007.snapshot", FileKind.PRODUCERS, 7, None, "t"),
        (f"t-0.{'0a' * 16}-delete/00000000000000000007.log", FileKind.LOG, 7, None, "t"),
        (f"t-0.{'0a' * 16}-stray/00000000000000000007.log", FileKind.LOG, 7, None, "t"),
        ("data/00000000000000000007.log", FileKind.LOG, 7, None, ""),
        (
            "__cluster_metadata-0/00000000000000000007-0000000003.checkpoint",
            FileKind.SNAPSHOT,
            7,
            3,
            "__cluster_metadata",
        ),
        ("x/00000000000000000007-0000000003.checkpoint.part", FileKind.SNAPSHOT, 7, 3, "__cluster_metadata"),
        ("x/bootstrap.checkpoint", FileKind.SNAPSHOT, None, None, "__cluster_metadata"),
        ("t-0/leader-epoch-checkpoint", FileKind.LEADER_EPOCHS, None, None, "t"),
        ("t-0/partition.metadata", FileKind.PARTITION_METADATA, None, None, "t"),
        ("data/recovery-point-offset-checkpoint", FileKind.OFFSETS, None, None, ""),
        ("__cluster_metadata-0/quorum-state", FileKind.QUORUM_STATE, None, None, "__cluster_metadata"),
    ],
)
def test_what_a_file_is(name: str, kind: FileKind, offset: int | None, epoch: int | None, topic: str) -> None:
    path = Path("/data", name)
    assert stored_file(path) == (path, kind, offset, epoch, topic)


@pytest.mark.parametrize("name", [".lock", "notes.txt", "log", ".kafka_cleanshutdown"])
def test_what_no_name_says(name: str) -> None:
    assert stored_file(Path(name)) is None


def test_siblings() -> None:
    file = stored_file(Path("t-0/00000000000000000007.timeindex"))
    assert file is not None
    assert file.sibling(".log") == Path("t-0/00000000000000000007.log")
    file = stored_file(Path("t-0/00000000000000000007.timeindex.deleted"))
    assert file is not None
    assert file.sibling(".log") == Path("t-0/00000000000000000007.log.deleted")


def test_folders_are_listed_by_offset_and_a_segment_before_its_indexes(tmp_path: Path) -> None:
    names = ["t-1/10.log", "t-1/9.timeindex", "t-1/9.log", "t-1/9.index", "t-1/leader-epoch-checkpoint", "t-0/0.log"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "meta.properties").touch()
    found = listed(tmp_path)
    assert found == [
        "meta.properties",
        "t-0/0.log",
        "t-1/9.log",
        "t-1/9.index",
        "t-1/9.timeindex",
        "t-1/10.log",
        "t-1/leader-epoch-checkpoint",
    ]
    assert listed(tmp_path, tmp_path / "t-1/10.log") == ["t-1/10.log"]


def test_what_cannot_be_listed_is_reported_and_the_rest_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-0/0.log", "b-0/0.log", "c-0/0.log", "c-0/deep/er/0.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = ["a-0/0.log", "c-0/0.log", "c-0/deep/er/0.log"]
    folders = [tmp_path / name for name in ("a-0", "none", "c-0")]
    errors: list[OSError] = []
    assert listed(tmp_path, *folders, errors=errors) == expected
    assert [error.filename for error in errors] == [str(tmp_path / "none")]

    scandir = os.scandir

    def refuse(path: Path) -> Any:
        if path.name == "b-0":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    errors.clear()
    assert listed(tmp_path, errors=errors) == expected
    assert [error.filename for error in errors] == [str(tmp_path / "b-0")]


def test_links(tmp_path: Path) -> None:
    """A partition may be on another disk. Link cycles end, no file is returned twice, and broken links are reported."""
    data = tmp_path / "data"
    other = tmp_path / "other/t-0"
    (other / "deep").mkdir(parents=True)
    (other / "0.log").touch()
    (data / "u-0").mkdir(parents=True)
    (data / "u-0/0.log").touch()
    (data / "t-0").symlink_to(other)
    (other / "deep/up").symlink_to(tmp_path)
    (data / "again").symlink_to(data)
    (data / "other-name").symlink_to(data / "u-0")
    assert listed(data) == ["u-0/0.log", "t-0/0.log"]
    (data / "nowhere.log").symlink_to(data / "none")
    (data / "circle").symlink_to(data / "circle")
    errors: list[OSError] = []
    assert listed(data, errors=errors) == ["u-0/0.log", "t-0/0.log"]
    assert {error.filename for error in errors} == {str(data / "circle"), str(data / "nowhere.log")}


def test_what_is_no_regular_file_is_reported(tmp_path: Path) -> None:
    """A pipe is not opened: reading it would wait for a writer."""
    os.mkfifo(tmp_path / "0.log")
    (tmp_path / "1.log").touch()
    errors: list[OSError] = []
    assert listed(tmp_path, errors=errors) == ["1.log"]
    assert [str(error) for error in errors] == [f"[Errno 22] Not a regular file: '{tmp_path / '0.log'}'"]


def listed(folder: Path, *paths: Path, errors: list[OSError] | None = None) -> list[str]:
    """Return the relative names of the files below a folder, and add errors about unreadable ones to `errors`."""
    told: list[OSError] = []
    found = files_of(paths or [folder], told.append)
    if errors is None:
        assert told == []
    else:
        errors += told
    return [str(path.relative_to(folder)) for path in found]
