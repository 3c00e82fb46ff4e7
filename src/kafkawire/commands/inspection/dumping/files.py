"""Classify a broker's files by name: kind, first offset and topic.

Source: `LogFileUtils`, `Snapshots`, `UnifiedLog` in Apache Kafka.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kafkawire.commands.inspection.dumping.window import checked_regular
from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC
from kafkawire.sdk.storage import checkpoints, file_names
from kafkawire.sdk.storage.meta_properties import META_PROPERTIES
from kafkawire.sdk.storage.partition_metadata import PARTITION_METADATA
from kafkawire.sdk.storage.partitions import partition_folder
from kafkawire.sdk.storage.quorum_state import QUORUM_STATE

__all__ = ["FileKind", "StoredFile", "files_of", "stored_file"]


class FileKind(Enum):
    """The kind of a file's content; the value is its name in the output."""

    LOG = "log"
    SNAPSHOT = "snapshot of cluster metadata"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCERS = "producer snapshot"
    LEADER_EPOCHS = "leader epochs"
    OFFSETS = "offsets of partitions"
    PROPERTIES = "properties"
    PARTITION_METADATA = "partition metadata"
    QUORUM_STATE = "quorum state"


#: The suffixes, in the order in which a folder's files are shown: a segment, then the files that belong to it.
_SUFFIXES = {
    file_names.METADATA_SNAPSHOT_SUFFIX: FileKind.SNAPSHOT,
    file_names.LOG_SUFFIX: FileKind.LOG,
    file_names.INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    file_names.TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    file_names.TRANSACTION_INDEX_SUFFIX: FileKind.TRANSACTION_INDEX,
    file_names.SNAPSHOT_SUFFIX: FileKind.PRODUCERS,
}
_NAMES = {
    checkpoints.LEADER_EPOCHS: FileKind.LEADER_EPOCHS,
    checkpoints.CLEANER_OFFSETS: FileKind.OFFSETS,
    checkpoints.LOG_START_OFFSETS: FileKind.OFFSETS,
    checkpoints.RECOVERY_POINTS: FileKind.OFFSETS,
    checkpoints.HIGH_WATERMARKS: FileKind.OFFSETS,
    META_PROPERTIES: FileKind.PROPERTIES,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    QUORUM_STATE: FileKind.QUORUM_STATE,
}

#: The suffixes that a broker appends to the name of a file that it is about to add, replace or remove.
_CHANGING = (file_names.CLEANED_SUFFIX, file_names.DELETED_SUFFIX, ".part", file_names.SWAP_SUFFIX)


class StoredFile(NamedTuple):
    """A file, and the facts in its name and its folder's name.

    Attributes:
        path: the path of the file.
        kind: the kind of its content.
        base_offset: the offset in its name; None if there is none.
        epoch: the leader epoch in the name of a snapshot of cluster metadata.
        topic: the topic; empty if the folder's name contains none.
    """

    path: Path
    kind: FileKind
    base_offset: int | None
    epoch: int | None
    topic: str

    @property
    def added_suffix(self) -> str:
        """Return the suffix that a broker appended, such as `.deleted`; empty for a file in use."""
        return _added_suffix(self.path.name)

    def sibling(self, suffix: str) -> Path:
        """Return the path of another file for the same offset, with the same appended suffix, such as `.deleted`."""
        return self.path.with_name(self.path.name.partition(".")[0] + suffix + self.added_suffix)


def stored_file(path: Path) -> StoredFile | None:
    """Classify a file; return None if its name is unknown."""
    name = path.name.removesuffix(_added_suffix(path.name))
    if name in _NAMES:
        return StoredFile(path, _NAMES[name], None, None, _topic(path))
    _, dot, suffix = name.rpartition(".")
    kind = _SUFFIXES.get(dot + suffix)
    if kind is None:
        return None
    offset = file_names.offset_in(name, dot + suffix, is_padded=False)
    if kind is not FileKind.SNAPSHOT:
        return StoredFile(path, kind, offset, None, _topic(path))
    offset, epoch = file_names.offset_and_epoch_in(name, is_padded=False) or (offset, None)
    return StoredFile(path, kind, offset, epoch, CLUSTER_METADATA_TOPIC)


def files_of(paths: Iterable[Path], fail: Callable[[OSError], object]) -> list[Path]:
    """Return all files, including those in folders; a partition's files are ordered by offset, segments before indexes.

    Args:
        paths: files and folders.
        fail: called for each path that does not exist or cannot be listed; the other files are returned anyway.
    """
    found: list[Path] = []
    for path in paths:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            fail(error)
            continue
        if is_folder:
            found += _below(path, fail)
        else:
            found.append(path)
    return found


def _below(folder: Path, fail: Callable[[OSError], object]) -> Iterator[Path]:
    """Yield the files in a folder and in those below it; visit each folder once, even if several links lead to it.

    Folders below a link are skipped, since links can form cycles.
    """
    waiting, links = [folder], list[Path]()
    known: set[tuple[int, int]] = set()
    while waiting or links:
        is_link = not waiting  # links come last, so files are shown at their real location
        here = links.pop() if is_link else waiting.pop()
        files: list[Path] = []
        folders: list[Path] = []
        try:
            found = here.stat()
            if (found.st_dev, found.st_ino) in known:
                continue
            known.add((found.st_dev, found.st_ino))
            with os.scandir(here) as entries:
                for entry in entries:
                    try:
                        if entry.is_file():
                            files.append(here / entry.name)
                        elif entry.is_dir():
                            folders.append(here / entry.name)
                        else:
                            checked_regular(here / entry.name)
                    except OSError as error:  # a dangling or cyclic link is reported like a pipe
                        fail(error)
        except OSError as error:
            fail(error)
        yield from sorted(files, key=_order)
        if not is_link:
            folders.sort(reverse=True)
            waiting += [each for each in folders if not each.is_symlink()]
            links[:0] = [each for each in folders if each.is_symlink()]


def _topic(path: Path) -> str:
    folder = partition_folder(path.absolute().parent.name)
    return "" if folder is None else folder.partition[0]


def _added_suffix(name: str) -> str:
    return next((suffix for suffix in _CHANGING if name.endswith(suffix)), "")


def _order(path: Path) -> tuple[bool, int, int, str]:
    file = stored_file(path)
    if file is None or file.base_offset is None:
        return True, 0, 0, path.name
    return False, file.base_offset, list(FileKind).index(file.kind), path.name
