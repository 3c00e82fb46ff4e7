"""A file that cannot be read is always an error, even if a missing file is not.

Method: let each place that opens or reads a file, and no other place, get an error from a faulty disk or a missing
permission. Then remove the same file, which means loss, retention or a cleaner's work, and is reported or skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.audit.continuation import check_continuation
from kafkawire.sdk.spark.audit.partition_facts import PartitionFacts, read_partition_facts
from kafkawire.sdk.spark.audit.store import AuditStore
from kafkawire.sdk.spark.damage import Mode
from kafkawire.sdk.spark.segments.end_offsets import PartitionEnds
from kafkawire.sdk.spark.segments.files import find_segments
from kafkawire.sdk.spark.segments.reading import ReadOptions
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles
from kafkawire.sdk.storage.checkpoints import LEADER_EPOCHS
from tests.sdk.spark.segments.logs import batch, marker, offsets_of, planned, records_of, write_segment

#: A faulty disk, a missing permission, a stale NFS handle, and too many open files.
FAULTS: Final = (errno.EIO, errno.EACCES, errno.ESTALE, errno.EMFILE)

LOSSY: Final = ReadOptions(("offset",), Mode.DROPMALFORMED, fails_on_loss=False, logs_loss=True)

FIRST: Final = "00000000000000000000"
SECOND: Final = "00000000000000000020"
THIRD: Final = "00000000000000000030"


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    folder = tmp_path / "orders-0"
    write_segment(folder, [records_of(0, 7, 10), batch(10)])
    write_segment(folder, [batch(20)])
    write_segment(folder, [marker(30, 7, is_commit=True), batch(31)])
    (folder / LEADER_EPOCHS).touch()
    return SegmentFiles([str(tmp_path)])


def read(files: SegmentFiles) -> list[int]:
    return offsets_of(planned(files), files, LOSSY)


def read_committed(files: SegmentFiles) -> list[int]:
    return offsets_of(planned(files)[:1], files, LOSSY._replace(is_committed_only=True))


def end(files: SegmentFiles) -> int:
    return PartitionEnds(files).of(files.find()[-1]).offset


def stable(files: SegmentFiles) -> int:
    return PartitionEnds(files).last_stable_offset(files.find(), 0, 41)


def continued(files: SegmentFiles) -> None:
    check_continuation(files, files.find(), {"orders": {"0": 20}}, {}, "/audits/shop")


def split(files: SegmentFiles) -> int:
    return len(planned(files, split_bytes=1))


def facts_of(files: SegmentFiles) -> list[PartitionFacts]:
    return [*read_partition_facts(files, *files.look()).values()]


GONE: Final = FileNotFoundError

#: The function, the file that fails, and the result if the file is gone.
PLACES: Final[list[tuple[Callable[[SegmentFiles], Any], str, Any]]] = [
    (read, f"{FIRST}.log", [*range(20, 30), *range(31, 41)]),
    (read, f"{THIRD}.log", [*range(30)]),
    (read_committed, f"{SECOND}.log", [*range(20)]),
    (read_committed, f"{THIRD}.log", [*range(10, 20)]),
    (read_committed, f"{FIRST}.txnindex", [*range(20)]),
    (end, f"{THIRD}.log", GONE),
    (end, f"{THIRD}.index", 41),
    (stable, f"{FIRST}.log", 41),
    (stable, f"{SECOND}.log", 41),
    (stable, f"{THIRD}.log", 0),
    (continued, f"{FIRST}.log", None),
    (continued, f"{FIRST}.index", None),
    (split, f"{FIRST}.index", 4),
    (split, "log-start-offset-checkpoint", 5),
    (facts_of, "replication-offset-checkpoint", [PartitionFacts(0, 30)]),
    (facts_of, "cleaner-offset-checkpoint", [PartitionFacts(0, 30)]),
    (facts_of, LEADER_EPOCHS, [PartitionFacts(0, 30)]),
]


def named(place: Any) -> str:
    return f"{place.__name__}" if callable(place) and place is not GONE else ""


@pytest.mark.parametrize(("act", "name", "when_gone"), PLACES, ids=named)
def test_who_opens_it_is_told(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, act: Any, name: str, when_gone: Any
) -> None:
    fault = 0
    opens = SegmentFiles._open

    def failing(self: SegmentFiles, path: str) -> Any:
        if fault and path.endswith(name):
            raise OSError(fault, os.strerror(fault), path)
        return opens(self, path)

    monkeypatch.setattr(SegmentFiles, "_open", failing)
    for fault in FAULTS:
        with pytest.raises(OSError, match=name) as raised:
            act(files)
        assert raised.value.errno == fault
    fault = errno.ENOENT
    if when_gone is GONE:
        with pytest.raises(FileNotFoundError):
            act(files)
    else:
        assert act(files) == when_gone


@pytest.mark.parametrize("act", [read, read_committed, end, stable, continued])
def test_who_reads_it_is_told(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """A bad disk block may be read long after the file was opened."""

    def failing(self: OpenFile, position: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.find()
    monkeypatch.setattr(OpenFile, "_read_at", failing)
    with pytest.raises(OSError, match="Input/output error"):
        act(files)


@pytest.mark.parametrize("fault", [*FAULTS, errno.ENOENT, errno.ENOTDIR])
def test_a_folder_that_cannot_be_listed(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    """Names are listed again because files come and go, but this must not hide a failed listing."""
    listed = os.listdir

    def failing(path: Any = ".") -> list[str]:
        if str(path).endswith("orders-0"):
            raise OSError(fault, os.strerror(fault), path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", failing)
    if fault in FAULTS:
        with pytest.raises(OSError, match="orders-0"):
            files.find()
    else:
        assert len(files.find()) == 3


def test_a_link_that_cannot_be_read(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "orders-1").symlink_to("nowhere")

    def failing(path: Any) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(os, "readlink", failing)
    with pytest.raises(OSError, match="Input/output error"):
        files.find()


def test_a_partition_that_cannot_be_listed_is_not_gone(files: SegmentFiles, tmp_path: Path) -> None:
    """The following segments are listed while a segment is being read; a copy placed next to them is an error."""
    first = files.find()[0]
    assert len(files.after(first)) == 2
    (tmp_path / "orders-0" / "orders-0").mkdir()
    (tmp_path / "orders-0" / "orders-0" / f"{SECOND}.log").touch()
    with pytest.raises(Exception, match="has a segment at 20 in"):
        files.after(first)
    for each in sorted(tmp_path.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    assert files.after(first) == []
    assert files.merged(first) is None


def test_a_lock_that_cannot_be_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If a file system has no locks, this does not mean that another audit is running."""
    import fcntl

    def failing(file: Any, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", failing)
    with pytest.raises(OSError, match="No locks available"), AuditStore(tmp_path, {}):
        pass


def test_a_file_system_that_cannot_tell(files: SegmentFiles, tmp_path: Path) -> None:
    """Exceptions from pyarrow are passed on unchanged."""

    class Failing:
        def get_file_info(self, path: Any) -> Any:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(OSError, match="Input/output error"):
        find_segments(Failing(), [str(tmp_path)])
