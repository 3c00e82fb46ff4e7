"""Find log segments in a file system, and what is beside them.

Local files, and every file system that `pyarrow.fs` knows by the scheme of a path (`s3://`, `gs://`, `hdfs://`, …), in
the same way: a listing, then reads of parts of files. Folders that begin with `_` count; Spark's own readers pass over
them.

Source: `LogFileUtils`, `UnifiedLog.parseTopicPartitionName` in Apache Kafka.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.fs

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import ConfigurationError

__all__ = ["FOLDER_PATTERN", "FoundSegment", "compiled", "find_segments", "open_file_system"]

#: A partition's folder and a segment in it, as brokers name them. Folders of partitions that are being removed or moved
#: have a suffix, and do not match.
FOLDER_PATTERN: Final = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)/(?P<offset>\d{20})\.log"

#: What begins the part of a path that is a pattern.
_WILDCARD = re.compile(r"[*?\[]")

#: Names of a topic that a broker makes.
_TOPIC_CHARACTERS_MAX = 249


class FoundSegment(NamedTuple):
    """A segment.

    Attributes:
        path: of its `.log` file, as the file system names it.
        folder: the partition.
        base_offset: by the name of the file.
        size_bytes: when it was listed.
        end_offset: the base offset of the partition's next segment; None for its last one.
        modified_ns: when it was last written, as far as the file system knows.
    """

    path: str
    folder: TopicPartition
    base_offset: int
    size_bytes: int
    end_offset: int | None
    modified_ns: int | None = None

    def sibling(self, suffix: str) -> str:
        """Return the path of an index beside it."""
        return self.path.removesuffix(".log") + suffix


def open_file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path, and the path as that names it.

    Raises:
        ConfigurationError: nobody knows the scheme.
    """
    scheme = urlsplit(path).scheme
    if not scheme or len(scheme) == 1:  # one letter is a drive of Windows
        # Workers have other current folders than the program that names the path.
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), unquote(urlsplit(path.replace("?", "%3F")).path)
    wildcard = _WILDCARD.search(path)
    start = path if wildcard is None else path[: wildcard.start()].rpartition("/")[0]
    try:
        system, inside = pyarrow.fs.FileSystem.from_uri(start)
    except (OSError, ValueError, pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        reason = f"pyarrow cannot open it ({error}); read_segments() reads it with Spark's own reader"
        raise ConfigurationError("path", path, reason) from None
    return system, inside + path[len(start) :]


def find_segments(system: Any, paths: Sequence[str], pattern: str = FOLDER_PATTERN) -> list[FoundSegment]:
    """Return all segments, by topic, partition and offset.

    Args:
        system: the file system.
        paths: of folders that have segments anywhere below them, or of segments; `*`, `?` and `[…]` match parts of
            names.
        pattern: a regular expression for the end of a segment's path, with the groups `topic`, `partition` and
            `offset`.

    Raises:
        ConfigurationError: the pattern lacks a group, or a path does not exist.
        OSError: a folder cannot be listed.
    """
    meant = compiled(pattern)
    found: dict[tuple[str, int, int], tuple[str, int, int | None]] = {}
    for path, size, modified_ns in _listed(system, paths):
        match = meant.search(path)
        if match is None or len(match["topic"]) > _TOPIC_CHARACTERS_MAX:
            continue
        key = match["topic"], int(match["partition"]), int(match["offset"])
        other = found.setdefault(key, (path, size, modified_ns))
        if other[0] != path:
            raise ConfigurationError("path", path, f"{key[0]}-{key[1]} has a segment at {key[2]} in {other[0]}, too")
    keys = sorted(found)
    following = [*keys[1:], None][: len(keys)]
    return [
        FoundSegment(
            found[key][0],
            TopicPartition(*key[:2]),
            key[2],
            found[key][1],
            after[2] if after is not None and after[:2] == key[:2] else None,
            found[key][2],
        )
        for key, after in zip(keys, following, strict=True)
    ]


def compiled(pattern: str) -> re.Pattern[str]:
    """Return what matches the end of a segment's path.

    Raises:
        ConfigurationError: it is no regular expression, or lacks a group.
    """
    try:
        meant = re.compile(rf"(?:^|[/\\])(?:{pattern})$", re.ASCII)
    except re.error as error:
        raise ConfigurationError("pathPattern", pattern, f"no regular expression: {error}") from None
    if missing := {"topic", "partition", "offset"} - meant.groupindex.keys():
        raise ConfigurationError("pathPattern", pattern, f"it has no group {', '.join(sorted(missing))}")
    return meant


def _listed(system: Any, paths: Iterable[str]) -> Iterator[tuple[str, int, int | None]]:
    """Yield path, size and time of all files that are meant, each once."""
    seen: set[str] = set()
    for path in paths:
        for info in _infos(system, path.rstrip("/") or "/"):
            if info.type is pyarrow.fs.FileType.File and info.path not in seen:
                seen.add(info.path)
                yield info.path, info.size, info.mtime_ns


def _infos(system: Any, path: str) -> Iterator[Any]:
    wildcard = _WILDCARD.search(path)
    if wildcard is None:
        info = system.get_file_info(path)
        if info.type is pyarrow.fs.FileType.NotFound:
            raise ConfigurationError("path", path, "it does not exist")
        if info.type is pyarrow.fs.FileType.Directory:
            yield from system.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
        else:
            yield info
        return
    base = path[: wildcard.start()].rpartition("/")[0]
    depth = path.count("/")
    matches = re.compile(translate(path)).match
    for info in system.get_file_info(pyarrow.fs.FileSelector(base or "/", recursive=True, allow_not_found=True)):
        # The pattern names a file, or a folder above it; a `*` matches no more than one name.
        if matches("/".join(info.path.split("/")[: depth + 1])):
            yield info
