"""Segments, and nothing else, are found anywhere below a path; their names give the partition and offset."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.routing.partitions import TopicPartition

pytest.importorskip("pyarrow")

import pyarrow.fs

from kafkawire.sdk.spark.segments import files, listing
from kafkawire.sdk.spark.segments.files import FoundSegment, find_segments, open_file_system
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import batch, write_names, write_segment

NAMES = [
    "a/orders-0/00000000000000000000.log",
    "a/orders-0/00000000000000000040.log",
    "a/orders-0/00000000000000000040.index",
    "a/orders-0/00000000000000000090.log.deleted",
    "a/orders-0/00000000000000000090.log.cleaned",
    "a/orders-0/99.log",
    "a/orders-10/00000000000000000000.log",
    "a/my.topic-with-dashes-7/00000000000000000003.log",
    "a/gone-0.8f3a-delete/00000000000000000000.log",
    "b/__consumer_offsets-3/00000000000000000000.log",
    "b/00000000000000000000.log",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_names(tmp_path, NAMES)


def found(*paths: object, pattern: str | None = None) -> list[str]:
    """Return the segments found below some paths, in a short form."""
    opened = [open_file_system(str(path)) for path in paths]
    arguments = (opened[0][0], [inside for _, inside in opened])
    segments, _ = find_segments(*arguments) if pattern is None else find_segments(*arguments, pattern)
    return [f"{each.folder} {each.base_offset} {each.end_offset}" for each in segments]


ORDERS = ["orders-0 0 40", "orders-0 40 None"]
ALL = ["__consumer_offsets-3 0 None", "my.topic-with-dashes-7 3 None", *ORDERS, "orders-10 0 None"]


def test_segments(root: Path) -> None:
    system, path = open_file_system(str(root))
    _, _, first, second, _ = find_segments(system, [path])[0]
    log = root / NAMES[0]
    assert first == FoundSegment(str(log), TopicPartition("orders", 0), 0, len(NAMES[0]), 40, log.stat().st_mtime_ns)
    assert first.sibling(".index") == str(log.with_suffix(".index"))
    assert (second.base_offset, second.end_offset, str(second.folder)) == (40, None, "orders-0")


def test_paths(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(root) == ALL
    assert found(root / "a", root / "b/") == ALL
    assert found(root / "a" / "orders-0") == ORDERS
    assert found(root / NAMES[1]) == ORDERS[1:]
    assert found(root, root / "a") == ALL  # each is found once
    assert found(f"file://{root}") == found(f"file:{root}") == ALL
    monkeypatch.chdir(root)
    assert found("a/orders-0") == ORDERS
    odd = root / "50% of ä?#1" / "orders-0"
    odd.mkdir(parents=True)
    (odd / f"{0:020}.log").write_bytes(b"x")
    (root / "50% of ä").mkdir()
    assert found(f"file://{root}/50%25%20of%20ä*/*") == ["orders-0 0 None"]
    assert found(f"file://localhost{root}/50%25%20of%20ä?#1") == ["orders-0 0 None"]


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("s3a://bucket/a/orders-0?region=us-east-1", "bucket/a/orders-0"),
        ("s3n://bucket/{a,b}/c-?/[0-9]*?region=us-east-1&scheme=http", "bucket/{a,b}/c-?/[0-9]*"),
        ("S3A://bucket/ab#1/*?region=us-east-1", "bucket/ab#1/*"),
    ],
)
def test_paths_as_hadoop_has_them(path: str, inside: str) -> None:
    """A `?` with no setting after it is part of a pattern."""
    pytest.importorskip("pyarrow._s3fs")
    system, found = open_file_system(path)
    assert (type(system).__name__, found) == ("S3FileSystem", inside)


def test_pattern(root: Path) -> None:
    pattern = r"(?P<topic>orders)-(?P<partition>1)0/(?P<offset>\d+)\.log"
    assert found(root, pattern=pattern) == ["orders-1 0 None"]
    with pytest.raises(ConfigurationError, match=r"pathPattern=.*: missing groups: offset, partition"):
        found(root, pattern="(?P<topic>x)")
    with pytest.raises(ConfigurationError, match=r"pathPattern=.*: not a regular expression"):
        found(root, pattern="(")
    lax = r"(?P<topic>\w+)-(?P<partition>\w+)/(?P<offset>\w+)\.log"
    write_segment(root / "c" / "orders-x", [batch(0)])
    with pytest.raises(ConfigurationError) as caught:
        found(root / "c", pattern=lax)
    value = lax.replace("\\", "\\\\")
    path = root / "c" / "orders-x" / f"{0:020}.log"
    assert (
        str(caught.value)
        == f"pathPattern='{value}': the group `partition` matches 'x' in {path}, which is not a number"
    )
    with pytest.raises(ConfigurationError, match="the group `topic` matches nothing in "):
        found(root / "c", pattern=r"(?P<topic>a)?.*-(?P<partition>x)/(?P<offset>\d+)\.log")


def test_refused(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file or folder"):
        found(root / "c")
    copy = root / "b" / "orders-0"
    os.makedirs(copy)
    (copy / f"{40:020}.log").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"orders-0 also has a segment at 40 in "):
        found(root)
    with pytest.raises(ConfigurationError, match=r"path='dbfs:/data': pyarrow cannot open it .*read_segments\(\)"):
        open_file_system("dbfs:/data")


@pytest.mark.parametrize(
    "name", [f"orders-0/{40:020}.index", f"orders-0/{90:020}.log.deleted", "orders-0/99.log", f"{0:020}.log"]
)
def test_files_that_are_no_segments(root: Path, name: str) -> None:
    """Naming such a file is an error, because nothing would be read; in a folder or matched by a `*`, it is ignored."""
    path = write_names(root / "a", [name]) / name
    assert found(root / "a" / "orders-0" / "*") == ORDERS
    for paths in ([path], [root, path], [f"file://{path}"]):
        with pytest.raises(ConfigurationError) as caught:
            found(*paths)
        assert str(caught.value) == f"path='{path}': not a segment: expected TOPIC-PARTITION/OFFSET.log"
    pattern = r"(?P<topic>\w+)-(?P<partition>\d)/(?P<offset>\d+)\.segment"
    with pytest.raises(ConfigurationError, match="not a segment: expected a path that pathPattern matches"):
        found(path, pattern=pattern)
    swap = write_names(root / "a", [f"orders-7/{5:020}.log.swap"]) / f"orders-7/{5:020}.log.swap"
    assert found(swap) == ["orders-7 5 None"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            f"orders-0/{'9' * 20}.log",
            "offset 99999999999999999999 is more than 9223372036854775807, a broker's maximum",
        ),
        (f"orders-99999999999/{0:020}.log", "partition 99999999999 is more than 2147483647, a broker's maximum"),
    ],
)
def test_names_that_no_broker_gives(tmp_path: Path, name: str, reason: str) -> None:
    """Such segments must not be skipped, because their records would be lost."""
    path = tmp_path / name
    path.parent.mkdir()
    path.write_bytes(b"")
    with pytest.raises(ConfigurationError) as caught:
        found(tmp_path)
    assert str(caught.value).startswith(f"path='{path}': {reason}")


@pytest.mark.parametrize(
    ("uri", "inside"),
    [
        ("mock:///a/orders-*/x.log", "a/orders-*/x.log"),
        ("mock:///day#1/b", "day#1/b"),
        ("mock:///day#1/*/a%20b#2", "day#1/*/a b#2"),
        ("mock:///a/*?region=x", "a/*"),
    ],
)
def test_other_file_systems(uri: str, inside: str) -> None:
    system, path = open_file_system(uri)
    assert (system.type_name, path) == ("mock", inside)


# Links.


@pytest.mark.parametrize("name", [f"orders-0/{90:020}.log", "my.topic-1", "disk2"])
def test_links_to_what_is_gone(root: Path, name: str) -> None:
    (root / "a" / "my.topic-1.txt").symlink_to("/nowhere")  # this file would not be read
    assert found(root / "a")
    link = root / "a" / name
    link.symlink_to("/nowhere/x")
    for path in (root, root / "a" / "*", root / "*" / "*"):
        with pytest.raises(OSError, match=f"{name} is a link to /nowhere/x, which does not exist"):
            found(path)
    link.unlink()
    link.symlink_to(link)
    if name.endswith(".log"):
        with pytest.raises(OSError, match="which cannot be read"):
            found(root)


def test_links(root: Path) -> None:
    (root / "c" / "logs-1").mkdir(parents=True)
    (root / "c" / "logs-0").symlink_to(root / "a" / "orders-0")
    (root / "c" / "logs-1" / f"{7:020}.log").symlink_to(root / NAMES[0])
    assert found(root / "c") == ["logs-0 0 40", "logs-0 40 None", "logs-1 7 None"]


# Segments that a broker is replacing.


def write(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(name.encode())


def log(offset: int, suffix: str = "") -> str:
    return f"{offset:020}.log{suffix}"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        # A segment is cleaned, the old one disappears, and the new one takes its place.
        ([log(0), log(10), log(10, ".swap"), log(30)], [log(0), log(10), log(30)]),
        ([log(0), log(10, ".deleted"), log(10, ".swap"), log(30)], [log(0), log(10, ".swap"), log(30)]),
        ([log(0), log(10, ".deleted"), log(10), log(30)], [log(0), log(10), log(30)]),
        # One segment becomes two.
        ([log(0), log(0, ".cleaned"), log(20, ".swap")], [log(0)]),
        ([log(0), log(0, ".swap"), log(20, ".swap")], [log(0)]),
        ([log(0, ".deleted"), log(0, ".swap"), log(20, ".swap")], [log(0, ".swap"), log(20, ".swap")]),
        ([log(0, ".deleted"), log(0), log(20, ".swap")], [log(0), log(20, ".swap")]),
    ],
)
def test_segments_that_are_replaced(tmp_path: Path, names: list[str], expected: list[str]) -> None:
    write(tmp_path / "orders-0", *names)
    write(tmp_path / "orders-1", log(0), log(10, ".cleaned"))
    segments = SegmentFiles([str(tmp_path)]).find()
    assert [Path(each.path).name for each in segments] == [*expected, log(0)]
    assert [each.base_offset for each in segments[:-1]] == [int(name[:20]) for name in expected]


def test_index_of_a_segment_that_is_replaced() -> None:
    segment = FoundSegment(f"/orders-0/{log(10, '.swap')}", TopicPartition("orders", 0), 10, 1, None)
    assert segment.sibling(".index") == f"/orders-0/{10:020}.index.swap"


@pytest.mark.parametrize("before", [[log(10, ".swap")], []])
def test_listing_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[str]) -> None:
    """A listing may find a segment under neither of its names, but the next listing finds it."""
    folder = tmp_path / "orders-0"
    write(folder, log(0), log(10))
    listed = listing.list_files
    complete = listed(pyarrow.fs.LocalFileSystem(), [str(tmp_path)])
    names = [log(0), *before]
    first = complete._replace(
        files=[each._replace(path=str(folder / name)) for each, name in zip(complete.files, names, strict=False)],
        passed_over=[str(folder / log(10))],
    )
    answers = [first, complete]
    monkeypatch.setattr(files, "list_files", lambda system, paths: answers.pop(0))
    assert found(tmp_path) == ["orders-0 0 10", "orders-0 10 None"]


def test_what_went_while_it_was_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [str(tmp_path / "orders-0" / log(10)), str(tmp_path / "orders-1")]
    monkeypatch.setattr(files, "list_files", lambda system, paths: listing.Listing([], gone, [], []))
    assert found(tmp_path) == []


def test_the_next_partition_is_no_end(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", [batch(0)])
    write_segment(tmp_path / "orders-1", [batch(1000)])
    assert [each.end_offset for each in SegmentFiles([str(tmp_path)]).find()] == [None, None]


def test_a_path_is_that_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have different working directories."""
    monkeypatch.chdir(tmp_path)
    assert open_file_system("data")[1] == str(tmp_path / "data")
