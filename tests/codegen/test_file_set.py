"""The files in a folder change together: after a failure at any step, everything is as it was before.

Method: in a folder, change one file, add one (in a new folder) and remove one, while each disk operation fails in turn.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kafkawire.codegen.file_set import replace_files

OLD = {Path("changed.txt"): "old", Path("removed.txt"): "gone", Path("other/kept.txt"): "kept"}
TEXTS = {Path("changed.txt"): "né", Path("new/deep/added.txt"): "added"}
REMOVED = (Path("removed.txt"),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    replace_files(tmp_path / "folder", OLD)
    return tmp_path / "folder"


def contents(folder: Path) -> dict[Path, str | None]:
    """Return the text of every file below a folder, and None for each folder."""
    return {
        path.relative_to(folder): path.read_text(encoding="utf-8") if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_all_together(folder: Path) -> None:
    replace_files(folder, TEXTS, REMOVED)
    assert {path: text for path, text in contents(folder).items() if text is not None} == {
        Path("changed.txt"): "né",
        Path("new/deep/added.txt"): "added",
        Path("other/kept.txt"): "kept",
    }


@contextmanager
def failing(step: int) -> Iterator[list[str]]:
    """Make one disk operation, counted from 0, fail; undoing the change succeeds. Yield the attempted operations."""
    tried: list[str] = []

    def fail(name: str) -> Any:
        original = getattr(Path, name)

        def operation(path: Path, *arguments: Any, **options: Any) -> Any:
            tried.append(name)
            if len(tried) == step + 1:
                if name == "write_text":
                    original(path, "half", **options)
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(path, *arguments, **options)

        return patch.object(Path, name, operation)

    with fail("mkdir"), fail("write_text"), fail("replace"):
        yield tried


#: The number of steps: two folders, two texts, two files moved away, and two moved into place.
STEPS = 8


@pytest.mark.parametrize("step", range(STEPS))
def test_a_failure_leaves_everything_as_before(folder: Path, step: int) -> None:
    before = contents(folder)
    with failing(step), pytest.raises(OSError, match="No space left"):
        replace_files(folder, TEXTS, REMOVED)
    assert contents(folder) == before


def test_every_step_was_tried(folder: Path) -> None:
    with failing(STEPS) as tried:
        replace_files(folder, TEXTS, REMOVED)
    assert len(tried) == STEPS


def test_an_interrupt_is_a_failure_too(folder: Path) -> None:
    before = contents(folder)
    with patch.object(Path, "replace", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        replace_files(folder, {Path("changed.txt"): "new"})
    assert contents(folder) == before


def test_what_a_killed_process_left_is_not_lost(folder: Path) -> None:
    left = folder / "other" / "kept.txt.old~"
    left.write_text("the only copy")
    before = contents(folder)
    with pytest.raises(
        FileExistsError, match=re.escape(f"{left} is left over from a change that was killed halfway: ")
    ):
        replace_files(folder, TEXTS, REMOVED)
    assert contents(folder) == before


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("path", [Path("../outside.txt"), Path("new/../../outside.txt"), Path("/outside.txt")])
def test_nothing_outside_the_folder_is_touched(folder: Path, path: Path, is_removed: bool) -> None:
    outside = folder.parent / "outside.txt"
    outside.write_text("precious")
    before = contents(folder)
    texts, removed = (TEXTS, (*REMOVED, path)) if is_removed else ({**TEXTS, path: "evil"}, REMOVED)
    with pytest.raises(ValueError, match=re.escape(f"{path} is outside {folder}")):
        replace_files(folder, texts, removed)
    assert (contents(folder), outside.read_text()) == (before, "precious")
