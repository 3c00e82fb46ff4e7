"""Copy the files of the tree without anything that was built from them.

    python tools/tree_copy.py FOLDER

The copy is as a fresh clone, with what was changed since. What FOLDER holds under other names stays there, so that an
environment is made only once. Times of change are kept: what is up to date stays so. Runs on the system's own Python
with nothing installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["copy_tree"]

ROOT = Path(__file__).resolve().parent.parent


def copy_tree(root: Path, folder: Path, *, with_new: bool) -> None:
    """Copy a tree into a folder, in place of what that has of an earlier copy.

    Args:
        root: the tree, a clone of git.
        folder: is made if it is not there.
        with_new: whether files come along that git does not track yet, but would: those that nothing ignores.

    Raises:
        CalledProcessError: git cannot list the tree.
        FileNotFoundError: a file that git tracks is gone.
    """
    new = ["--others", "--exclude-standard"] if with_new else []
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", *new]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    paths = [Path(name) for name in listed.split("\0") if name]
    for top in {path.parts[0] for path in paths}:
        _remove(folder / top)
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, folder / path, follow_symlinks=False)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    copy_tree(ROOT, Path(sys.argv[1]), with_new=True)
