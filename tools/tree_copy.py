"""Copy the files of the tree, except for built files.

    python tools/tree_copy.py FOLDER

The copy is like a fresh clone with the current changes. Other files in FOLDER are kept, so an environment is created
only once. Modification times are kept, so up-to-date files stay up to date. This runs on the system's own Python, with
nothing installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["copy_tree"]

ROOT = Path(__file__).resolve().parent.parent


def copy_tree(root: Path, folder: Path, *, with_new: bool) -> None:
    """Copy a tree into a folder, where it replaces an earlier copy.

    Args:
        root: the tree, a git clone.
        folder: the folder; created if it does not exist.
        with_new: whether to include untracked files that are not ignored.

    Raises:
        CalledProcessError: git cannot list the tree.
        FileNotFoundError: a file that git tracks is missing.
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
