"""Paths of nodes: absolute, with single slashes, and without `.` and `..`.

Source: `PathUtils.validatePath` in Apache ZooKeeper.
"""

from __future__ import annotations

__all__ = ["ancestors_of", "child_path", "parent_of", "path_problem"]


def path_problem(path: str, *, is_sequential: bool = False) -> str | None:
    """Return what is wrong with a path; None if it is valid.

    Args:
        path: the path.
        is_sequential: whether a number will be appended, in which case the path may end with a slash.
    """
    if is_sequential:
        path += "1"
    if not path.startswith("/"):
        return "a path must begin with a slash"
    if path == "/":
        return None
    if path.endswith("/"):
        return "a path must not end with a slash"
    for name in path[1:].split("/"):
        if not name:
            return "a path must not contain empty names"
        if name in (".", ".."):
            return f"a path must not contain the relative name {name!r}"
    for character in path:
        if _is_refused(character):
            return f"a path must not contain the character {character!r}"
    return None


def parent_of(path: str) -> str:
    """Return the parent of a path, which must not be `/`."""
    return path.rpartition("/")[0] or "/"


def child_path(parent: str, name: str) -> str:
    """Return the path of a child."""
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def ancestors_of(path: str) -> list[str]:
    """Return the ancestors of a path below `/`, the topmost first."""
    names = path[1:].split("/")
    return ["/" + "/".join(names[:count]) for count in range(1, len(names))]


def _is_refused(character: str) -> bool:
    return (
        character <= "\u001f"
        or "\u007f" <= character <= "\u009f"
        or "\ud800" <= character <= "\uf8ff"
        # Characters above U+FFFF are surrogates in Java.
        or character >= "\ufff0"
    )
