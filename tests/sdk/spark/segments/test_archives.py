"""Segments that are compressed or in a tar file are read like any others; unread files next to them are reported.

Method: pack a partition of three segments in every way, and read it in parts, from an offset, and by transactions.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

import pyarrow
import pyarrow.fs

from kafkawire.sdk.spark.segments.archives import is_archive, is_packed, members, open_packed, without_packing
from kafkawire.sdk.spark.segments.end_offsets import PartitionEnds
from kafkawire.sdk.spark.segments.files import nothing_found, packed_names
from kafkawire.sdk.spark.segments.listing import ListedFile
from kafkawire.sdk.spark.segments.plan import Wanted
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import batch, offsets_of, planned, write_segment


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for base in (0, 50, 100):
        write_segment(tmp_path / "data" / "orders-0", [batch(base + 10 * number) for number in range(5)])
    return tmp_path / "data"


def compress(suffix: str, pack: Callable[[bytes], bytes], number: int | None = None) -> Callable[[Path], Path]:
    def act(data: Path) -> Path:
        for path in sorted(data.rglob("*.log"))[slice(None) if number is None else slice(number, number + 1)]:
            path.with_name(path.name + suffix).write_bytes(pack(path.read_bytes()))
            path.unlink()
        return data

    return act


def archive(name: str, mode: Literal["w:", "w:gz", "w:xz"], folder: str = "data") -> Callable[[Path], Path]:
    def act(data: Path) -> Path:
        with tarfile.open(data.parent / name, mode) as packed:
            packed.add(data, folder)
        return data.parent / name

    return act


def with_arrow(codec: str) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, codec) as stream:
            stream.write(content)
        return bytes(sink.getvalue())

    return pack


PACKED = {
    "gz": compress(".gz", gzip.compress),
    "bz2": compress(".bz2", bz2.compress),
    "zst": compress(".zst", with_arrow("zstd")),
    "lz4": compress(".lz4", with_arrow("lz4")),
    "one of them": compress(".gz", gzip.compress, 1),
    "the last one": compress(".gz", gzip.compress, 2),
    "tar": archive("backup.tar", "w:"),
    "tar.gz": archive("backup.tar.gz", "w:gz"),
    "tgz": archive("backup.tgz", "w:gz", "."),
    "tar.xz": archive("backup.tar.xz", "w:xz"),
    "gz in a tar": lambda data: archive("backup.tar", "w:")(compress(".gz", gzip.compress)(data)),
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_the_same_records(data: Path, pack: Callable[[Path], Path]) -> None:
    path = pack(data)
    files = SegmentFiles([str(path)])
    segments = files.find()
    assert [(str(each.folder), each.base_offset, each.end_offset) for each in segments] == [
        ("orders-0", 0, 50),
        ("orders-0", 50, 100),
        ("orders-0", 100, None),
    ]
    assert offsets_of(planned(files), files) == [*range(150)]
    assert offsets_of(planned(files, split_bytes=1), files) == [*range(150)]
    assert offsets_of(planned(files, Wanted(73, 121)), files) == [*range(73, 121)]
    assert PartitionEnds(files).of(segments[-1]).offset == 150


def test_by_a_pattern(data: Path) -> None:
    archive("monday.tar", "w:")(data)
    files = SegmentFiles([str(data.parent / "*.t{ar,gz}")])
    assert offsets_of(planned(files), files) == [*range(150)]


def test_what_is_there_as_it_was_counts(data: Path) -> None:
    """The original may have been kept next to the compressed file, or compression may be in progress."""
    for path in data.rglob("*.log"):
        path.with_name(path.name + ".gz").write_bytes(b"not yet")
    files = SegmentFiles([str(data)])
    assert not any(segment.is_packed for segment in files.find())
    assert offsets_of(planned(files), files) == [*range(150)]


@pytest.mark.parametrize(
    ("content", "suffix"), [(gzip.compress(batch(0))[:-9], ".gz"), (b"garbage", ".gz"), (b"garbage", ".zst")]
)
def test_damage_of_what_is_packed_is_an_error(data: Path, content: bytes, suffix: str) -> None:
    path = sorted(data.rglob("*.log"))[0]
    path.with_name(path.name + suffix).write_bytes(content)
    path.unlink()
    files = SegmentFiles([str(data)])
    with pytest.raises(OSError, match=r"\w"):
        offsets_of(planned(files), files)


def test_what_is_gone(data: Path) -> None:
    path = archive("backup.tar", "w:")(data)
    files = SegmentFiles([str(path)])
    first, *_ = files.find()
    with tarfile.open(path, "w:"):
        pass
    with pytest.raises(FileNotFoundError, match="is no longer in its archive"):
        files.open(first)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        files.open(first)
    assert files.read(f"{data}/nothing.gz") == b""


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    path.write_bytes(b"garbage" * 100)
    with pytest.raises(ConfigurationError, match=r"backup\.tar': not an archive"):
        members(pyarrow.fs.LocalFileSystem(), str(path))


def test_names() -> None:
    assert [is_archive(name) for name in ("a.tar", "a.TGZ", "a.tar.zst", "a.zip", "tar")] == [True, True, *[False] * 3]
    assert without_packing("0.log.gz") == "0.log"
    assert [is_packed(name) for name in ("0.log", "0.log.gz", "a.tar!/0.log", "0.log.xz")] == [False, True, True, False]
    with pytest.raises(FileNotFoundError):
        open_packed(lambda path: open(path, "rb"), "/nowhere/0.log.gz")  # noqa: SIM115 - it raises before it opens a file


def test_what_is_not_read_is_named() -> None:
    """Unread files are named; otherwise, a folder with only such files would look like one without records."""
    names = [
        "0.log.xz",
        "backup.tar.gz",
        "0.log.swap",
        "0.log.deleted",
        "0.index",
        "0.log.gz",
        "a.zip",
        "b.zip",
        "c.7z",
    ]
    listed = [ListedFile(f"/data/t-0/{name}", 1, None) for name in names]
    assert packed_names(each.path for each in listed) == "0.log.xz, backup.tar.gz, a.zip and 2 more"
    assert str(nothing_found("/data", listed)) == (
        "path='/data': no segments were found: expected TOPIC-PARTITION/OFFSET.log; packed files must be "
        "unpacked or, if they are tar files, given as paths: 0.log.xz, backup.tar.gz, a.zip and 2 more"
    )
    assert str(nothing_found("/data", listed[2:5])).endswith("OFFSET.log")


def test_lzma_is_named_and_not_read(data: Path) -> None:
    files = SegmentFiles([str(compress(".xz", lzma.compress)(data))])
    assert files.find() == []
    assert "0.log.xz" in packed_names(each.path for each in files.look()[1])
