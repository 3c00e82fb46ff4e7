"""A copy of the tree contains the files that git tracks or would add, but no build output and no deleted files.

Method: copy a small git repository into one folder twice.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.tree_copy import copy_tree

#: A modification time that no new file can have.
CHANGED_AT = 1_700_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with a source, a link to its folder, a build output, and a file not added yet."""
    folder = tmp_path / "root"
    (folder / "sdk").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "src" / "sdk").symlink_to("../sdk")
    for name in ("sdk/frames.py", "sdk/native.so", "sdk/new.py"):
        (folder / name).write_text(name, "utf-8")
    (folder / ".gitignore").write_text("*.so\n", "utf-8")
    os.utime(folder / "sdk" / "frames.py", (CHANGED_AT, CHANGED_AT))
    for command in (["init", "--quiet"], ["add", ".gitignore", "src", "sdk/frames.py"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()}


@pytest.mark.parametrize(("with_new", "more"), [(True, {"sdk/new.py"}), (False, set())])
def test_what_is_copied(root: Path, tmp_path: Path, with_new: bool, more: set[str]) -> None:
    copy = tmp_path / "copy"
    copy_tree(root, copy, with_new=with_new)
    assert files(copy) == {".gitignore", "src/sdk", "sdk/frames.py"} | more
    assert (copy / "src" / "sdk").readlink() == Path("../sdk")
    assert (copy / "sdk" / "frames.py").stat().st_mtime == CHANGED_AT


def test_a_second_copy_replaces_the_first(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy_tree(root, copy, with_new=True)
    (copy / ".venv").mkdir()
    (copy / "sdk" / "native.so").touch()
    (root / "sdk" / "new.py").unlink()
    copy_tree(root, copy, with_new=True)
    assert files(copy) == {".gitignore", "src/sdk", "sdk/frames.py"}
    assert (copy / ".venv").exists()


def test_a_file_that_is_gone_is_an_error(root: Path, tmp_path: Path) -> None:
    (root / "sdk" / "frames.py").unlink()
    with pytest.raises(FileNotFoundError):
        copy_tree(root, tmp_path / "copy", with_new=False)
