"""Files are opened where the paths say, even in the workers; a missing file raises a separate error."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import batch, write_segment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for base in (0, 10, 20):
        write_segment(tmp_path / "orders-0", [batch(base)])
    write_segment(tmp_path / "orders-1", [batch(30)])
    return tmp_path


def test_files(root: Path) -> None:
    files = pickle.loads(pickle.dumps(SegmentFiles([str(root / "orders-0"), str(root / "orders-1")])))
    first, *_ = segments = files.find()
    assert [(str(each.folder), each.base_offset) for each in segments] == [
        ("orders-0", 0),
        ("orders-0", 10),
        ("orders-0", 20),
        ("orders-1", 30),
    ]
    assert [each.base_offset for each in files.after(first)] == [10, 20]
    assert files.read(first.sibling(".index")) == b""
    assert files.read(first.sibling(".nothing")) == b""
    with files.open(first) as file:
        assert file.size_bytes == len(batch(0))
        for window in (file.window(), file.leaps()):
            assert bytes(window.at(0, 1 << 20)) == batch(0)
    Path(first.path).unlink()
    with pytest.raises(FileNotFoundError):
        files.open(first)


def test_where_a_log_begins(root: Path) -> None:
    """Segments before the start are omitted, except that the last one is kept; a damaged checkpoint is ignored."""
    checkpoint = root / "log-start-offset-checkpoint"
    files = SegmentFiles([str(root)])
    whole = files.find()
    assert [each.start_offset for each in whole] == [0, 10, 20, 30]
    for text, expected in (
        ("0\n1\norders 0 9\n", [("orders-0", 9), ("orders-0", 10), ("orders-0", 20), ("orders-1", 30)]),
        ("0\n2\norders 0 10\norders 1 35\n", [("orders-0", 10), ("orders-0", 20), ("orders-1", 35)]),
        ("0\n1\norders 0 30\n", [("orders-0", 30), ("orders-1", 30)]),
    ):
        checkpoint.write_text(text)
        assert [(str(each.folder), each.start_offset) for each in files.find()] == expected
    checkpoint.write_text("0\n7\norders 0 9\n")
    assert files.find() == whole


def test_partition_in_several_folders(tmp_path: Path) -> None:
    pattern = r"(?P<topic>\w+)/(?P<partition>\d+)/\w+/(?P<offset>\d{20})\.log"
    for day, base in (("mon", 0), ("tue", 10)):
        write_segment(tmp_path / "orders" / "0" / day, [batch(base)])
    files = SegmentFiles([str(tmp_path)], pattern)
    first, second = files.find()
    assert files.after(first) == [second]


def test_what_has_another_name_by_now(tmp_path: Path) -> None:
    """A broker gives a new segment its final name after the segment was found."""
    path = write_segment(tmp_path / "orders-0", [batch(0), batch(10)])
    names = [path, path.with_suffix(".index")]
    swaps = [name.rename(f"{name}.swap") for name in names]
    files = SegmentFiles([str(tmp_path)])
    (segment,) = files.find()
    index = files.read(segment.sibling(".index"))
    for swap, name in zip(swaps, names, strict=True):
        swap.rename(name)
    assert files.read(segment.sibling(".index")) == index != b""
    with files.open(segment) as file:
        assert file.size_bytes == segment.size_bytes
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.open(segment)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a folder of segments is required"):
        SegmentFiles([])
    with pytest.raises(ConfigurationError, match="path='mock:///a': not on the same file system as "):
        SegmentFiles([str(tmp_path), "mock:///a"])
