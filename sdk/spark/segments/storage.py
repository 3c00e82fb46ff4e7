"""A data source's files: one file system, and the paths of the segments in it.

Spark's workers get a copy of this object. A file may be gone when a task starts to read it, because a broker removes
old segments; the reader then gets a `FileNotFoundError`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

import pyarrow.fs

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records.sound_batches import WINDOW_BYTES
from kafkawire.sdk.records.stored import Window
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.archives import is_packed, open_packed
from kafkawire.sdk.spark.segments.files import (
    FOLDER_PATTERN,
    FoundSegment,
    find_segments,
    open_file_system,
)
from kafkawire.sdk.spark.segments.listing import ListedFile
from kafkawire.sdk.storage.checkpoints import LOG_START_OFFSETS, parse_offsets
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.file_names import SWAP_SUFFIX

__all__ = ["FILES_AT_A_TIME", "OpenFile", "SegmentFiles", "data_folder", "offsets_in"]

_log = logging.getLogger("kafkawire.spark")

#: Number of bytes to read at a time for callers that need only headers and skip through a file on a local disk. On
#: other file systems, reading a header takes as long as reading a whole window.
LEAP_BYTES: Final = 4096

#: Number of files to read concurrently, since most file systems have a high latency.
FILES_AT_A_TIME: Final = 16


class OpenFile:
    """A file opened for reading.

    Args:
        file: a `pyarrow` file.
        leap_bytes: the number of bytes to read for a header.

    Attributes:
        size_bytes: its size when it was opened.
    """

    def __init__(self, file: Any, leap_bytes: int) -> None:
        self.size_bytes: int = file.size()
        self._file = file
        self._leap_bytes = leap_bytes

    def window(self) -> Window:
        """Return its bytes for a caller that reads all of them."""
        return Window(self._read_at, self.size_bytes)

    def leaps(self) -> Window:
        """Return its bytes for a caller that reads only headers."""
        return Window(self._read_at, self.size_bytes, self._leap_bytes)

    def _read_at(self, position: int, size: int) -> bytes:
        return bytes(self._file.read_at(size, position))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class SegmentFiles:
    """Segments and their indexes.

    Args:
        paths: folders or segments, all on the same file system; see `find_segments`.
        pattern: a regular expression for the path of a segment.

    Raises:
        ConfigurationError: a scheme is unknown, or the paths are on different file systems.
    """

    def __init__(self, paths: Iterable[str], pattern: str = FOLDER_PATTERN) -> None:
        opened = [(path, *open_file_system(path)) for path in paths]
        if not opened:
            raise ConfigurationError("path", "", "a folder of segments is required")
        self._system = opened[0][1]
        for path, system, _ in opened:
            if system != self._system:
                raise ConfigurationError("path", path, f"not on the same file system as {opened[0][0]}")
        self._paths = [inside for _, _, inside in opened]
        self._pattern = pattern
        self._leap_bytes = LEAP_BYTES if isinstance(self._system, pyarrow.fs.LocalFileSystem) else WINDOW_BYTES

    def find(self) -> list[FoundSegment]:
        """Return the segments with records, sorted by topic, partition and offset.

        Segments before the log start recorded by the broker are omitted, because the broker will remove them later.

        Raises:
            ConfigurationError: a path does not exist, or a segment exists twice.
            OSError: a folder cannot be listed, a file cannot be read, or the target of a link no longer exists.
        """
        return [each for each in self.look()[0] if not each.is_deleted]

    def look(self) -> tuple[list[FoundSegment], list[ListedFile]]:
        """Return all segments, including those before the log start, and all files; see `find`."""
        found, listed = find_segments(self._system, self._paths, self._pattern)
        if not self.are_folders:
            return found, listed
        folders = sorted({data_folder(segment.path) for segment in found})
        starts = {folder: self.offsets(f"{folder}/{LOG_START_OFFSETS}") for folder in folders}
        return [each._replace(log_start=starts[data_folder(each.path)].get(each.folder, 0)) for each in found], listed

    @property
    def are_folders(self) -> bool:
        """Whether the segments are in a broker's folders, surrounded by its other files."""
        return self._pattern == FOLDER_PATTERN

    def offsets(self, path: str) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint; empty if it is missing or damaged.

        Raises:
            OSError: the checkpoint cannot be read.
        """
        return offsets_in(self.read(path), path)

    def after(self, segment: FoundSegment) -> list[FoundSegment]:
        """Return the current segments of a partition that follow a given one.

        If cleaning has merged the given segment with following ones, the merged segment is included, although it does
        not begin later.

        Raises:
            OSError: a folder cannot be listed.
        """
        end = segment.end_offset
        return [
            each
            for each in self._partition(segment)
            if each.base_offset > segment.base_offset
            or (end is not None and each.end_offset is not None and each.end_offset > end)
        ]

    def merged(self, segment: FoundSegment) -> FoundSegment | None:
        """Return the segment into which cleaning has merged a segment that is gone; None if there is none.

        Raises:
            OSError: a folder cannot be listed.
        """
        for each in self._partition(segment):
            if each.base_offset <= segment.base_offset and (each.end_offset or 0) > segment.base_offset:
                return each
        return None

    def _partition(self, segment: FoundSegment) -> list[FoundSegment]:
        """Return the current segments of a segment's partition."""
        # A broker keeps a partition in one folder; with other patterns, it may be spread over several.
        paths = [segment.path.rpartition("/")[0]] if self.are_folders else self._paths
        try:
            found, _ = find_segments(self._system, paths, self._pattern)
        except ConfigurationError:
            there = self._system.get_file_info(paths)
            if any(each.type is not pyarrow.fs.FileType.NotFound for each in there):
                raise
            return []  # the whole partition is gone
        return [each for each in found if each.folder == segment.folder]

    def read(self, path: str) -> bytes:
        """Return the content of a small file; empty if there is none.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            with self._open(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return b""

    def open(self, segment: FoundSegment) -> OpenFile:
        """Open a segment.

        Raises:
            FileNotFoundError: the segment is gone.
            OSError: the segment cannot be opened.
        """
        return OpenFile(self._open(segment.path), self._leap_bytes)

    def _open(self, path: str) -> Any:
        if is_packed(path):
            return open_packed(self._system.open_input_file, path)
        try:
            return self._system.open_input_file(path)
        except FileNotFoundError:
            if not path.endswith(SWAP_SUFFIX):
                raise
            return self._system.open_input_file(path.removesuffix(SWAP_SUFFIX))  # it has just been renamed


def data_folder(path: str) -> str:
    """Return the folder that contains the folder of a segment's partition.

    Args:
        path: the path of the segment.
    """
    return path.rpartition("/")[0].rpartition("/")[0]


def offsets_in(content: bytes, path: str) -> dict[TopicPartition, int]:
    """Return the offsets in a broker's checkpoint file; empty if it is missing or damaged. Damage is logged.

    Source: `OffsetCheckpointFile` in Apache Kafka.

    Args:
        content: the content of the file; empty if it is missing.
        path: the path of the file.
    """
    if not content:
        return {}
    try:
        return {TopicPartition(*partition): offset for partition, offset in parse_offsets(content)}
    except DamagedContent as damage:
        _log.warning("%s is damaged and ignored: %s", path, damage)
        return {}
