"""Replace several files in a folder together: either all of them or none.

New text is first written beside the old files; if the disk is full, this is the step that fails. After that, files are
only renamed, so undoing a failure needs no free space; the old files are removed last. A process killed halfway leaves
files under other names, and the next call refuses to continue until these have been restored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

__all__ = ["replace_files"]

#: Suffixes of files that are about to replace others or to be removed; no pattern for schemas or modules matches them.
_NEW = ".new~"
_OLD = ".old~"


def replace_files(folder: Path, texts: Mapping[Path, str], removed: Collection[Path] = ()) -> None:
    """Write `texts` into `folder` and remove other files from it.

    Args:
        folder: the folder; created if it is missing.
        texts: the texts, keyed by path relative to `folder`.
        removed: relative paths of the files to remove.

    Raises:
        ValueError: a path leads out of `folder`; nothing is touched.
        FileExistsError: an earlier call was killed halfway; nothing is touched.
        OSError: a file cannot be written, renamed or removed; `folder` is unchanged.
    """
    for path in (*texts, *removed):
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{path} is outside {folder}")
    for path in sorted(folder.rglob(f"*{_OLD}")):
        raise FileExistsError(
            f"{path} is left over from a change that was killed halfway: restore {folder} from version control, or by "
            f"renaming every *{_OLD} file, and remove every *{_NEW} file"
        )
    made = [path for path in _parents(folder, texts) if not path.is_dir()]
    moved: list[tuple[Path, Path]] = []
    try:
        for parent in made:
            parent.mkdir()
        for path, text in texts.items():
            _beside(folder / path, _NEW).write_text(text, encoding="utf-8")
        for path in (*texts, *removed):
            if (folder / path).exists():
                _move(folder / path, _beside(folder / path, _OLD), moved)
        for path in texts:
            _move(_beside(folder / path, _NEW), folder / path, moved)
    except BaseException:
        for source, target in reversed(moved):
            target.replace(source)
        for path in texts:
            _beside(folder / path, _NEW).unlink(missing_ok=True)
        for parent in reversed(made):
            if parent.is_dir():
                parent.rmdir()
        raise
    for path in (*texts, *removed):
        _beside(folder / path, _OLD).unlink(missing_ok=True)


def _move(source: Path, target: Path, moved: list[tuple[Path, Path]]) -> None:
    source.replace(target)
    moved.append((source, target))


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _parents(folder: Path, paths: Collection[Path]) -> list[Path]:
    """Return the folders that `paths` need, each after its parent."""
    needed = {parent for path in paths for parent in (folder / path).parents}
    return sorted(needed, key=lambda path: len(path.parts))
