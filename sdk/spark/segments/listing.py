"""List the files to which paths refer: whole folders, and names with `*`, `?`, `[a-c]`, expanded level by level.

Patterns follow Hadoop's syntax; an existing name with such characters refers to itself.

On a local disk, reading the names in each folder again reveals paths that the listing missed: links with missing
targets, and files that were added, removed or renamed during the listing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow.fs

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["ListedFile", "Listing", "list_files", "pattern_at"]

#: Characters that turn a name into a pattern.
_MAGIC = re.compile(r"[*?]|\[[!^]?[^/\]]+\]|\{[^{}]*\}")

#: Matches the innermost alternatives.
_BRACES = re.compile(r"\{([^{}]*)\}")

#: Matches the parts of a pattern.
_PARTS = re.compile(r"\[[!^]?[^/\]]+\]|.", re.DOTALL)

#: Matches characters with a special meaning between brackets in regular expressions.
_SPECIAL = re.compile(r"([\\\[^&|~])")
_ESCAPED = r"\\\1"


class ListedFile(NamedTuple):
    """A file.

    Attributes:
        path: its path in the file system.
        size_bytes: its size when it was listed.
        modified_ns: its modification time, if the file system records it.
        is_meant: whether a path or a pattern refers to the file itself, and not to a folder that contains it.
    """

    path: str
    size_bytes: int
    modified_ns: int | None
    is_meant: bool = False


class Listing(NamedTuple):
    """The result of a listing.

    Attributes:
        files: the files, each listed once.
        passed_over: paths on a local disk that the listing missed.
        named: the paths of files that were named directly.
        matched: the paths of files that a pattern matches directly.
    """

    files: list[ListedFile]
    passed_over: list[str]
    named: list[str]
    matched: list[str]


def list_files(system: Any, paths: Sequence[str]) -> Listing:
    """Return all files to which paths refer.

    Args:
        system: the file system.
        paths: files, or folders with everything below them. `*` and `?` match part of a name, `[ab]` and `[^a-c]` match
            a character, and `{a,b}` matches either text, unless a file has exactly that name.

    Raises:
        ConfigurationError: a path does not exist, or nothing matches it.
        OSError: a folder cannot be listed.
    """
    found: dict[str, ListedFile] = {}
    passed_over: dict[str, None] = {}
    named: list[str] = []
    matched: list[str] = []
    for path in paths:
        there = system.get_file_info(path.rstrip("/") or "/")
        if there.type is pyarrow.fs.FileType.File:
            named.append(there.path)
        is_there = there.type is not pyarrow.fs.FileType.NotFound
        for info in [there] if is_there else _matching(system, there.path, passed_over):
            inside = [info]
            if info.type is pyarrow.fs.FileType.File and not is_there:
                matched.append(info.path)
            if info.type is pyarrow.fs.FileType.Directory:
                inside += _inside(system, info.path, is_recursive=True)
                folders = [each.path for each in inside if each.type is pyarrow.fs.FileType.Directory]
                passed_over.update(dict.fromkeys(_passed_over(system, folders, inside)))
            for each in inside:
                if each.type is pyarrow.fs.FileType.File:
                    listed = ListedFile(each.path, each.size, each.mtime_ns, each is info)
                    known = found.get(each.path)
                    if known is None or known.is_meant:
                        found[each.path] = listed
    return Listing([*found.values()], [*passed_over], named, matched)


def pattern_at(path: str) -> int | None:
    """Return the position of the first pattern character in a path; None if there is none."""
    match = _MAGIC.search(path)
    return None if match is None else match.start()


def _matching(system: Any, path: str, passed_over: dict[str, None]) -> list[Any]:
    """Return the files and folders that match a pattern, and record the paths missed on the way."""
    if pattern_at(path) is None:
        raise ConfigurationError("path", path, "no such file or folder")
    found = {each.path: each for one in _alternatives(path) for each in _matching_one(system, one, passed_over)}
    if not found:
        raise ConfigurationError("path", path, "no file or folder matches the pattern")
    return [*found.values()]


def _matching_one(system: Any, path: str, passed_over: dict[str, None]) -> list[Any]:
    names = path.split("/")
    first = next((number for number, name in enumerate(names) if pattern_at(name) is not None), len(names))
    found = [system.get_file_info("/".join(names[:first]) or ("/" if path.startswith("/") else ""))]
    for name in names[first:]:
        folders = [each.path for each in found if each.type is pyarrow.fs.FileType.Directory]
        if pattern_at(name) is not None:
            matches = _compiled(name, path).fullmatch
            there = [each for folder in folders for each in _inside(system, folder)]
            others = _passed_over(system, folders, there)
            passed_over.update((other, None) for other in others if matches(other.rpartition("/")[2]))
            found = [each for each in there if matches(each.base_name)]
        else:
            there = system.get_file_info([_joined(folder, name) for folder in folders])
            found = [each for each in there if each.type is not pyarrow.fs.FileType.NotFound]
            if isinstance(system, pyarrow.fs.LocalFileSystem):
                passed_over.update(
                    (each.path, None) for each in there if each not in found and os.path.islink(each.path)
                )
    return [each for each in found if each.type is not pyarrow.fs.FileType.NotFound]


def _alternatives(path: str) -> list[str]:
    """Expand the alternatives `{a,b}` of a pattern, which may be nested and contain slashes."""
    match = _BRACES.search(path)
    if match is None:
        return [path]
    return [
        each
        for text in match[1].split(",")
        for each in _alternatives(path[: match.start()] + text + path[match.end() :])
    ]


def _compiled(name: str, path: str) -> re.Pattern[str]:
    """Return a name pattern as a compiled regular expression.

    Raises:
        ConfigurationError: the pattern is invalid.
    """
    found = "".join(
        ".*" if part == "*" else "." if part == "?" else _class(part) if len(part) > 1 else re.escape(part)
        for part in _PARTS.findall(name)
    )
    try:
        return re.compile(found, re.DOTALL)
    except re.error as error:
        raise ConfigurationError("path", path, f"{name} is not a pattern: {error}") from None


def _class(part: str) -> str:
    """Return the characters between brackets in regular expression syntax."""
    inside = part[1:-1]
    negation = "^" if inside[0] in "!^" else ""
    return f"[{negation}{_SPECIAL.sub(_ESCAPED, inside[len(negation) :])}]"


def _inside(system: Any, folder: str, *, is_recursive: bool = False) -> list[Any]:
    """Return the entries of a folder; empty if it no longer exists."""
    selector = pyarrow.fs.FileSelector(folder, recursive=is_recursive, allow_not_found=True)
    found: list[Any] = system.get_file_info(selector)
    try:
        for each in found:
            each.path  # noqa: B018 - reading a path that is not UTF-8 is an error
    except UnicodeDecodeError:
        found = system.get_file_info([*_with_text(folder, is_recursive=is_recursive)])
    return found


def _with_text(folder: str, *, is_recursive: bool) -> Iterator[str]:
    """Yield the paths in a folder on a local disk, skipping those that are not UTF-8, since no segment's is."""
    for name in os.listdir(folder):
        path = _joined(folder, name)
        try:
            name.encode()
        except UnicodeEncodeError:
            continue
        yield path
        if is_recursive and os.path.isdir(path):
            yield from _with_text(path, is_recursive=True)


def _passed_over(system: Any, folders: Iterable[str], listed: Iterable[Any]) -> Iterator[str]:
    """Yield the paths in folders on a local disk that were not listed."""
    if not isinstance(system, pyarrow.fs.LocalFileSystem):
        return
    known = {each.path for each in listed}
    for folder in folders:
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it no longer exists, or a file has taken its place
        yield from (path for path in (_joined(folder, name) for name in names) if path not in known)


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name
