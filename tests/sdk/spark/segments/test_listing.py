"""Paths refer to the files that they name, or match as Hadoop's patterns; unrelated folders are not listed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

import pyarrow.fs

from kafkawire.sdk.spark.segments.listing import ListedFile, list_files
from tests.sdk.spark.segments.logs import write_names

NAMES = [
    "a/orders-0/0.log",
    "a/orders-0/40.log",
    "a/orders-1/0.log",
    "a/x",
    "b[1]/c?/0.log",
    "b1/cc/1.log",
    "d*/e/2.log",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_names(tmp_path, NAMES)


def found(root: Path, *paths: str) -> list[str]:
    listed = list_files(pyarrow.fs.LocalFileSystem(), [f"{root}/{path}" for path in paths])
    assert not listed.passed_over
    return [os.path.relpath(each.path, root) for each in listed.files]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", NAMES),
        ("a/x", ["a/x"]),
        ("b[1]", ["b[1]/c?/0.log"]),
        ("b[1]/c?", ["b[1]/c?/0.log"]),
        ("d*", ["d*/e/2.log"]),
        ("*/*/0.log", ["a/orders-0/0.log", "a/orders-1/0.log", "b[1]/c?/0.log"]),
        ("a/*", NAMES[:4]),
        ("a/o*s-*", NAMES[:3]),
        ("*/orders-0", NAMES[:2]),
        ("a/orders-0/4*", ["a/orders-0/40.log"]),
        ("b*1*/c*", NAMES[4:6]),
        ("a/orders-?", NAMES[:3]),
        ("a/orders-?/?.log", [NAMES[0], NAMES[2]]),
        ("a/orders-[1-9]", NAMES[2:3]),
        ("a/orders-[!1]", NAMES[:2]),
        ("a/orders-[^0a]/*", NAMES[2:3]),
        ("[ab][1[]*/*/0.log", ["b[1]/c?/0.log"]),
        ("b[1]/c?/0.log", ["b[1]/c?/0.log"]),  # a file with this name exists
        ("{a,b1}", NAMES[:4] + NAMES[5:6]),
        ("a/{orders-{0,1},x}", NAMES[:4]),
        ("{a/orders-1,b1/cc}/[01].log", [NAMES[2], NAMES[5]]),
        ("a/orders-{0}", NAMES[:2]),
    ],
)
def test_paths(root: Path, path: str, expected: list[str]) -> None:
    assert sorted(found(root, path)) == sorted(expected)
    assert sorted(found(root, path, path + "/")) == sorted(expected)  # each is found once


def test_what_is_said(root: Path) -> None:
    path = root / NAMES[0]
    listed = list_files(pyarrow.fs.LocalFileSystem(), [str(path)])
    expected = ListedFile(str(path), len(NAMES[0]), path.stat().st_mtime_ns)
    assert listed.files == [expected._replace(is_meant=True)]
    for others in (["", "/a/orders-0/*"], ["/a/*/0.log", "/a"]):  # either way, the list has the whole folder
        listed = list_files(pyarrow.fs.LocalFileSystem(), [f"{root}{each}" for each in others])
        assert [each for each in listed.files if each.path == str(path)] == [expected]


@pytest.mark.parametrize(
    ("paths", "named"),
    [(["a"], []), (["a/*"], []), (["a/*/0.log"], []), (["a/x/", "d*/e/2.log", "a"], ["a/x", "d*/e/2.log"])],
)
def test_files_that_are_named(root: Path, paths: list[str], named: list[str]) -> None:
    """Named files are those that a path names without a pattern."""
    listed = list_files(pyarrow.fs.LocalFileSystem(), [f"{root}/{path}" for path in paths])
    assert listed.named == [f"{root}/{name}" for name in named]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("c", "no such file or folder"),
        ("a??", "no file or folder matches the pattern"),
        ("a[", "no such file or folder"),
        ("a[z-a]*", "a[z-a]* is not a pattern: bad character range z-a at position 2"),
        ("c*", "no file or folder matches the pattern"),
        ("c/*", "no file or folder matches the pattern"),
        ("*/orders-7", "no file or folder matches the pattern"),
        ("a/x/*", "no file or folder matches the pattern"),
    ],
)
def test_refused(root: Path, path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        found(root, path)
    assert str(caught.value) == f"path='{root}/{path}': {reason}"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a", ["a/link", "a/orders-2"]),
        ("a/o*", ["a/orders-2"]),
        ("*/orders-2", ["a/orders-2"]),
        ("a/*/0.log", ["a/link", "a/orders-2"]),
        ("a/orders-0", []),
    ],
)
def test_what_was_passed_over(root: Path, path: str, names: list[str]) -> None:
    """`pyarrow`'s listings omit broken links."""
    (root / "a" / "link").symlink_to("nowhere")
    (root / "a" / "orders-2").symlink_to("nowhere")
    (root / "b1" / "orders-2").mkdir()
    listed = list_files(pyarrow.fs.LocalFileSystem(), [f"{root}/{path}"])
    assert sorted(listed.passed_over) == [f"{root}/{name}" for name in names]


@pytest.mark.parametrize("path", ["", "a", "*", "a/*", "a/orders-0/0.log"])
def test_names_that_are_not_text(root: Path, path: str) -> None:
    """Names that are not UTF-8 are skipped, because no segment has such a name; all other files are found as usual."""
    expected = sorted(found(root, path))
    for folder in (root, root / "a", root / "a" / "orders-0"):
        os.mkdir(os.fsencode(folder) + b"/caf\xe9-0")
        Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9-0/0.log")).touch()
        Path(os.fsdecode(os.fsencode(folder) + b"/\xe9.log")).touch()
    listed = list_files(pyarrow.fs.LocalFileSystem(), [f"{root}/{path}"])
    assert sorted(os.path.relpath(each.path, root) for each in listed.files) == expected


def test_only_what_a_path_is_about(root: Path) -> None:
    """A large tree next to the matches, or an unreadable folder, does no harm."""
    listed: list[str] = []

    class Noted:
        """A file system that records the folders listed."""

        def get_file_info(self, what: Any) -> Any:
            if isinstance(what, pyarrow.fs.FileSelector):
                listed.append(os.path.relpath(what.base_dir, root))
            return pyarrow.fs.LocalFileSystem().get_file_info(what)

    assert len(list_files(Noted(), [f"{root}/*/orders-0"]).files) == 2
    assert listed == [".", "a/orders-0"]
