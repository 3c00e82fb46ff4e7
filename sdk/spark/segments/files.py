"""Find log segments and the files next to them in a file system.

Local files, and all file systems whose schemes `pyarrow.fs` knows (`s3://`, `gs://`, `hdfs://`, …), are read in the
same way: files are listed first, and then read in parts. Folders that begin with `_` are included; Spark's own readers
skip them.

Source: `LogFileUtils`, `UnifiedLog.parseTopicPartitionName` in Apache Kafka.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow.fs

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, INT64_MAX
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.archives import is_archive, is_packed, members, without_packing
from kafkawire.sdk.spark.segments.listing import ListedFile, Listing, list_files, pattern_at
from kafkawire.sdk.storage import partitions
from kafkawire.sdk.storage.file_names import CLEANED_SUFFIX, LOG_SUFFIX, OFFSET_PATTERN, SWAP_SUFFIX

__all__ = [
    "FOLDER_PATTERN",
    "FoundSegment",
    "compiled",
    "find_segments",
    "nothing_found",
    "open_file_system",
    "packed_names",
]

#: Matches a partition's folder and a segment in it, named as brokers name them. Folders of partitions that are being
#: removed or moved have a suffix and do not match.
FOLDER_PATTERN: Final = f"{partitions.FOLDER_PATTERN}/{OFFSET_PATTERN}{re.escape(LOG_SUFFIX)}"

#: Wrapped around a pattern to make it match only whole names.
_BEFORE, _BEHIND = r"(?:^|[/\\])(?:", r")$"

#: Matches the scheme before the `:` in a path on another file system; a single letter is a Windows drive.
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")

#: Schemes whose names in `pyarrow` differ from those in Hadoop.
_HADOOP_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}

#: Matches the start of file system settings after a path; any other `?` is part of a pattern.
_SETTINGS: Final = re.compile(r"\?(?=[a-zA-Z_]+=)")

#: The maximum number of attempts to list files: while a broker is renaming a file, a listing may contain neither the
#: old nor the new name. Renaming takes less time than listing.
_LISTINGS_MAX = 5

#: Possible names of folders that have segments anywhere below them.
_FOLDER = re.compile(r"[^.]+|.+-\d+", re.ASCII | re.DOTALL)

#: Error codes for a path that is not a link or no longer exists.
_NO_LINK: Final = (errno.EINVAL, errno.ENOENT, errno.ENOTDIR)

#: Matches files that may contain segments. An archive in a folder is not opened, because it may contain anything.
_OTHERS: Final = re.compile(
    r"\.log\.(?!swap$|cleaned$|deleted$)\w+$|\.(?:tar|tgz|tbz2|txz|zip|7z|tar\.\w+)$", re.IGNORECASE
)

#: The maximum number of names in an error or a warning.
_NAMES_SHOWN: Final = 3

#: Valid topic names.
_TOPIC_CHARACTERS_MAX = 249

#: Topic, partition, offset.
_Key = tuple[str, int, int]


class FoundSegment(NamedTuple):
    """A segment.

    Attributes:
        path: the path of its `.log` file within the file system.
        folder: the partition.
        base_offset: the base offset in the name of the file.
        size_bytes: its size when it was listed.
        end_offset: the base offset of the partition's next segment; None for its last segment.
        modified_ns: its modification time, if the file system records it.
        log_start: the first offset in the partition that has not been deleted, if the broker has recorded it.
    """

    path: str
    folder: TopicPartition
    base_offset: int
    size_bytes: int
    end_offset: int | None
    modified_ns: int | None = None
    log_start: int = 0

    @property
    def start_offset(self) -> int:
        """The first offset to read."""
        return max(self.base_offset, self.log_start)

    @property
    def is_deleted(self) -> bool:
        """Whether all of its records are before the log start, in which case its broker will remove it later."""
        return self.end_offset is not None and self.end_offset <= self.log_start

    @property
    def is_packed(self) -> bool:
        """Whether the segment is compressed or in an archive; if so, it is read as a whole, and its size is unknown."""
        return is_packed(self.path)

    def sibling(self, suffix: str) -> str:
        """Return the path of an index next to it."""
        if self.path.endswith(SWAP_SUFFIX):
            return self.path.removesuffix(SWAP_SUFFIX).removesuffix(LOG_SUFFIX) + suffix + SWAP_SUFFIX
        return without_packing(self.path).removesuffix(LOG_SUFFIX) + suffix


def open_file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path, and the path within it.

    Raises:
        ConfigurationError: the scheme is unknown.
    """
    scheme = _SCHEME.match(path)
    if scheme is None:
        # The workers' working directories differ from that of the program that names the path.
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)
    if scheme[1].lower() == "file":
        inside = path[scheme.end() :]
        return pyarrow.fs.LocalFileSystem(), unquote(
            f"/{inside[2:].partition('/')[2]}" if inside.startswith("//") else inside
        )
    known = _HADOOP_SCHEMES.get(scheme[1].lower(), scheme[1])
    place, *settings = _SETTINGS.split(f"{known}{path[scheme.end(1) :]}", 1)  # for example, the region of a bucket
    at = pattern_at(place)
    start = place if at is None else place[:at].rpartition("/")[0]
    uri = "?".join([start, *settings]).replace("#", "%23")
    try:
        system, inside = pyarrow.fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        reason = f"pyarrow cannot open it ({error}); read_segments() reads it with Spark's own reader"
        raise ConfigurationError("path", path, reason) from None
    return system, inside + unquote(place[len(start) :])


def find_segments(
    system: Any, paths: Sequence[str], pattern: str = FOLDER_PATTERN
) -> tuple[list[FoundSegment], list[ListedFile]]:
    """Return all segments, sorted by topic, partition and offset, and all files listed.

    Args:
        system: the file system.
        paths: folders with segments anywhere below them, or segments; see `list_files`.
        pattern: a regular expression for the end of a segment's path, with the groups `topic`, `partition` and
            `offset`.

    Raises:
        ConfigurationError: the pattern lacks a group, a path does not exist or is a file other than a segment, or a
            name contains an impossible number.
        OSError: a folder cannot be listed, or the target of a link no longer exists.
    """
    meant = compiled(pattern)
    listings = 0
    while True:
        listing = _with_members(system, list_files(system, paths))
        listings += 1
        _check_named(listing, meant, pattern)
        found, swaps = _named(listing, meant)
        if not (_was_changing(listing, meant) or swaps) or listings == _LISTINGS_MAX:
            break
    for key, file in swaps.items():
        _add(found, key, file)  # a broker would also complete the replacement at startup
    keys = sorted(found)
    following = [*keys[1:], None][: len(keys)]
    segments = [
        FoundSegment(
            found[key].path,
            TopicPartition(*key[:2]),
            key[2],
            found[key].size_bytes,
            after[2] if after is not None and after[:2] == key[:2] else None,
            found[key].modified_ns,
        )
        for key, after in zip(keys, following, strict=True)
    ]
    return segments, listing.files


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern for the end of a segment's path.

    Raises:
        ConfigurationError: the pattern is not a regular expression, or lacks a group.
    """
    try:
        meant = re.compile(f"{_BEFORE}{pattern}{_BEHIND}", re.ASCII)
    except re.error as error:
        raise ConfigurationError("pathPattern", pattern, f"not a regular expression: {error}") from None
    if missing := {"topic", "partition", "offset"} - meant.groupindex.keys():
        raise ConfigurationError("pathPattern", pattern, f"missing groups: {', '.join(sorted(missing))}")
    return meant


def nothing_found(paths: str, listed: Iterable[ListedFile]) -> ConfigurationError:
    """Return the error for paths without segments, naming files that may contain some.

    Args:
        paths: the paths that were searched.
        listed: the files that exist.
    """
    reason = "no segments were found: expected TOPIC-PARTITION/OFFSET.log"
    if names := packed_names(file.path for file in listed):
        reason += f"; packed files must be unpacked or, if they are tar files, given as paths: {names}"
    return ConfigurationError("path", paths, reason)


def packed_names(paths: Iterable[str]) -> str:
    """Return the names of unread files that may contain segments; empty if there are none."""
    names = [path.rpartition("/")[2] for path in paths if _OTHERS.search(path) and not _is_log(path)]
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown} and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else shown


def _is_log(path: str) -> bool:
    """Return whether a file name ends like that of a segment, compressed or not."""
    return without_packing(path).endswith(LOG_SUFFIX)


def _with_members(system: Any, listing: Listing) -> Listing:
    """Return a listing that includes the files in archives that are named directly or matched by a pattern."""
    archives = [path for path in (*listing.named, *listing.matched) if is_archive(path)]
    inside = [member for path in dict.fromkeys(archives) for member in members(system, path)]
    return listing._replace(files=[*listing.files, *inside])


def _check_named(listing: Listing, meant: re.Pattern[str], pattern: str) -> None:
    """Raise an error for a directly named file that would not be read, such as an index."""
    for path in listing.named:
        if not is_archive(path) and _key(without_packing(path).removesuffix(SWAP_SUFFIX), meant) is None:
            expected = "TOPIC-PARTITION/OFFSET.log" if pattern == FOLDER_PATTERN else "a path that pathPattern matches"
            raise ConfigurationError("path", path, f"not a segment: expected {expected}")


def _named(listing: Listing, meant: re.Pattern[str]) -> tuple[dict[_Key, ListedFile], dict[_Key, ListedFile]]:
    """Return the segments, keyed by name, including replacements for segments that no longer exist."""
    found: dict[_Key, ListedFile] = {}
    swaps: dict[_Key, ListedFile] = {}
    cleaned: dict[_Key, ListedFile] = {}
    packed: dict[_Key, ListedFile] = {}
    for file in listing.files:
        key = _key(without_packing(file.path), meant)
        if key is not None:
            _add(packed if is_packed(file.path) else found, key, file)
            continue
        for suffix, others in ((SWAP_SUFFIX, swaps), (CLEANED_SUFFIX, cleaned)):
            key = _key(file.path.removesuffix(suffix), meant) if file.path.endswith(suffix) else None
            if key is not None:
                _add(others, key, file)
    found = {**packed, **found}  # if the original segment also exists, it is used
    # Brokers first give all new segments this name, starting with the last. Then they remove the old ones, starting
    # with the first.
    first = {key[:2]: key for key in sorted(swaps, reverse=True)}
    incomplete = {key[:2]: key for key in sorted(cleaned, reverse=True)}
    return found, {
        key: file
        for key, file in swaps.items()
        if key not in found and first[key[:2]] not in found and (key[:2] not in incomplete or key < incomplete[key[:2]])
    }


def _key(path: str, meant: re.Pattern[str]) -> _Key | None:
    """Return topic, partition and offset of a segment; None for other files."""
    match = meant.search(path)
    if match is None:
        return None
    topic, partition, offset = match.group("topic", "partition", "offset")
    texts = (("partition", partition, INT32_MAX), ("offset", offset, INT64_MAX))
    value = meant.pattern[len(_BEFORE) : -len(_BEHIND)]
    for group, text in (("topic", topic), ("partition", partition), ("offset", offset)):
        if text is None:
            raise ConfigurationError("pathPattern", value, f"the group `{group}` matches nothing in {path}")
    for group, text, _ in texts:
        if not (text.isascii() and text.isdigit()):
            reason = f"the group `{group}` matches {text!r} in {path}, which is not a number"
            raise ConfigurationError("pathPattern", value, reason)
    if len(topic) > _TOPIC_CHARACTERS_MAX:
        return None
    for group, text, limit in texts:
        if int(text) > limit:
            raise ConfigurationError("path", path, f"{group} {text} is more than {limit}, a broker's maximum")
    return topic, int(partition), int(offset)


def _add(found: dict[_Key, ListedFile], key: _Key, file: ListedFile) -> None:
    other = found.setdefault(key, file)
    if other.path != file.path:
        reason = f"{key[0]}-{key[1]} also has a segment at {key[2]} in {other.path}"
        raise ConfigurationError("path", file.path, reason)


def _was_changing(listing: Listing, meant: re.Pattern[str]) -> bool:
    """Return whether a segment was added or removed while files were being listed.

    Raises:
        OSError: the target of a link to a segment, or to a folder that may contain some, no longer exists.
    """
    is_changing = False
    for path in listing.passed_over:
        is_segment = meant.search(path.removesuffix(SWAP_SUFFIX)) is not None
        if not is_segment and _FOLDER.fullmatch(path.rpartition("/")[2]) is None:
            continue
        is_changing |= is_segment
        try:
            target = os.readlink(path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            continue
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise OSError(f"{path} is a link to {target}, which does not exist") from None
        except OSError as error:
            if is_segment:
                raise OSError(f"{path} is a link to {target}, which cannot be read: {error}") from None
    return is_changing
