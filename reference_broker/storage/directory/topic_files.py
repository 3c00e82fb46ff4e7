"""The files of topics in the folder `topics`, where a crash leaves each topic whole or not at all.

    <name>.topic          the topic exists: its id, number of partitions, configurations
    <topic id>.creating   its partitions are being created; a restart removes them
    <topic id>.changing   its configurations or partitions are changing; a restart removes new partitions
    <topic id>.deleting   it is deleted; its folders are being renamed, and a restart renames the rest

A topic exists once `.creating` is renamed to `.topic`, after everything else is durable; a change takes effect when
`.changing` is renamed. A topic ceases to exist once `.deleting` is durable. Removing its renamed folders one by one
takes a long time; a stop leaves the rest, and a startup does not wait for their removal. Every step blocks, and runs in
the background.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, count
from operator import ne
from typing import NamedTuple

from kafkawire.reference_broker.storage.checkpoints import (
    DIRECTORY_FILES,
    DamagedFile,
    read_properties,
)
from kafkawire.reference_broker.storage.disk.disk import (
    TEMPORARY_SUFFIX,
    Disk,
    has_file,
    is_short_of_descriptors,
    read_file,
    remove_tree,
    replace_file,
    write_file,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.partition_metadata import (
    PARTITION_METADATA,
    parse_partition_metadata,
    partition_metadata_content,
)
from kafkawire.sdk.storage.partitions import folder_of
from kafkawire.sdk.storage.properties import properties_content

__all__ = ["TopicFile", "TopicFiles", "UndecidedError"]

logger = logging.getLogger("kafkawire.broker")

_FOLDER = "topics"
_TOPIC = ".topic"
_CREATING = ".creating"
_CHANGING = ".changing"
_DELETING = ".deleting"
#: Suffixes of folders whose files are being removed, and of folders that belong to no topic.
_DELETED = "-delete"
_STRAY = "-stray"

#: Largest size of `partition.metadata`; a larger file is something else.
_METADATA_BYTES_MAX = 1024

#: A content that differs from ours in at most this many bytes is damaged: the ids of two topics differ in almost all.
_DAMAGED_BYTES_MAX = 4

_TOPIC_ID = "topic.id"
_TOPIC_NAME = "topic.name"
_PARTITIONS = "partitions"


class TopicFile(NamedTuple):
    """The file content of a topic.

    Attributes:
        name: unique among the present topics.
        topic_id: 16 bytes, never reused.
        partitions: their number.
        configs: configurations that differ from the defaults.
    """

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str]


class TopicFiles:
    """The files of topics on a disk; steps that a crash has interrupted are completed or undone.

    Args:
        disk: the data directory.

    Raises:
        DamagedFile: a file of a topic is malformed.
        OSError: the disk failed.

    Attributes:
        doomed: folders left by earlier deletions, to be removed by `remove`.
        is_ending: whether remaining folders of deleted topics stay until the next startup.
    """

    def __init__(self, disk: Disk) -> None:
        self.is_ending = False
        self._disk = disk
        disk.make_folder(_FOLDER)
        self._tidy()
        self.doomed = [name for name in disk.names("") if name.endswith(_DELETED)]

    def topics(self) -> list[TopicFile]:
        """Return the topics that exist.

        Raises:
            DamagedFile: a file of a topic is malformed.
            OSError: the disk failed.
        """
        return [self._read(name) for name in self._disk.names(_FOLDER) if name.endswith(_TOPIC)]

    def create(self, topic: TopicFile, make_partition: Callable[[int], None]) -> None:
        """Create a topic.

        Args:
            topic: its file content.
            make_partition: creates the content of a partition's folder.

        Raises:
            OSError: the disk failed; the topic does not exist.
        """
        journal = self._journal(topic, _CREATING)
        try:
            replace_file(self._disk, journal, _content(topic))
            self._make_partitions(topic, 0, make_partition)
            self._commit(topic, journal)
        except OSError:
            self._undo_create(topic)
            raise

    def change(self, before: TopicFile, after: TopicFile, make_partition: Callable[[int], None]) -> None:
        """Change the configurations of a topic, or add partitions to it.

        Args:
            before: its current file content.
            after: its new file content, with at least as many partitions.
            make_partition: creates the content of a partition's folder.

        Raises:
            OSError: the disk failed; the topic is unchanged, or changes after a restart if the step could not be
                undone.
        """
        journal = self._journal(after, _CHANGING)
        try:
            replace_file(self._disk, journal, _content(after))
            if after.partitions > before.partitions:
                self._make_partitions(after, before.partitions, make_partition)
            self._commit(after, journal)
        except OSError:
            self._undo_change(before, after, journal)
            raise

    def _make_partitions(self, topic: TopicFile, first: int, make_partition: Callable[[int], None]) -> None:
        """Create the folders of the partitions from a number on, durably."""
        for number in range(first, topic.partitions):
            self.make_folder(topic, number)
            self.write_metadata(topic, number)
            make_partition(number)
        self._disk.sync_folder("")

    def _commit(self, topic: TopicFile, journal: str) -> None:
        """Make the changes in a journal effective."""
        self._disk.rename(journal, self._file(topic.name))
        self._disk.sync_folder(_FOLDER)

    def make_folder(self, topic: TopicFile, number: int) -> None:
        """Create the folder of a partition; an existing one is set aside.

        Raises:
            OSError: the disk failed.
        """
        folder = folder_of(topic.name, number)
        if self._exists(folder):
            # Renamed instead of removed, since it may hold records of unknown origin.
            stray = self._free_name(topic, number, _STRAY)
            describe = self._disk.describe
            logger.warning("%s belongs to no topic and becomes %s", describe(folder), describe(stray))
            self._disk.rename(folder, stray)
        self._disk.make_folder(folder)

    def _free_name(self, topic: TopicFile, number: int, suffix: str) -> str:
        """Return a free name for setting a folder aside: one left by an earlier error may have the first name."""
        stem = f"{format_uuid(topic.topic_id)}.{number}"
        others = (f"{stem}.{again}{suffix}" for again in count(1))
        return next(name for name in chain((f"{stem}{suffix}",), others) if not self._exists(name))

    def _exists(self, folder: str) -> bool:
        try:
            self._disk.names(folder)
        except FileNotFoundError:
            return False
        return True

    def settle_folder(self, topic: TopicFile, number: int, *, is_there: bool) -> bool:
        """Make sure at startup that a partition has a folder with metadata; return whether it is new.

        Args:
            topic: the topic of the partition.
            number: number of the partition.
            is_there: whether the name exists.

        Raises:
            OSError: the disk failed, or the name belongs to something else.
        """
        is_new = not is_there or self.is_of_another(topic, number)
        if is_new:
            logger.error("%s is missing: the partition is empty", self._disk.describe(folder_of(topic.name, number)))
            self.make_folder(topic, number)
        self.write_metadata(topic, number)
        return is_new

    def is_of_another(self, topic: TopicFile, number: int) -> bool:
        """Return whether the folder of a partition says that it belongs to another topic of the same name."""
        metadata = self._metadata(folder_of(topic.name, number))
        return metadata is not None and _names_another(metadata, topic.topic_id)

    def write_metadata(self, topic: TopicFile, number: int) -> None:
        """Write the topic's id into the folder of a partition; without a sync, since it can be written again."""
        path = f"{folder_of(topic.name, number)}/{PARTITION_METADATA}"
        content = partition_metadata_content(topic.topic_id)
        if self._metadata(folder_of(topic.name, number)) != content:
            write_file(self._disk, path, content)

    def _metadata(self, folder: str) -> bytes | None:
        return read_file(self._disk, f"{folder}/{PARTITION_METADATA}", _METADATA_BYTES_MAX)

    def _undo_create(self, topic: TopicFile) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(self._file(topic.name))
                self._disk.sync_folder(_FOLDER)
            self.remove(self._rename_folders(topic))
            self._remove_journal(topic, _CREATING)
        except OSError as error:
            logger.warning("files of the incomplete topic %s stay until the next startup: %s", topic.name, error)

    def _undo_change(self, before: TopicFile, after: TopicFile, journal: str) -> None:
        try:
            if self._read(f"{after.name}{_TOPIC}") != before:
                # The change may already be durable. If undoing it fails, it remains in effect, and its partitions must
                # remain, too.
                replace_file(self._disk, journal, _content(before))
                self._commit(before, journal)
            self.remove(self._rename_folders(after, before.partitions))
            self._remove_journal(after, _CHANGING)
        except OSError as error:
            logger.warning("the topic %s may have changed after the next startup: %s", after.name, error)

    def _remove_journal(self, topic: TopicFile, suffix: str) -> None:
        for name in (suffix, suffix + TEMPORARY_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(self._journal(topic, name))
        self._disk.sync_folder(_FOLDER)

    def begin_delete(self, topic: TopicFile) -> None:
        """Delete a topic; it never returns after this call.

        Raises:
            OSError: the disk failed; the topic still exists.
            UndecidedError: the disk failed twice; it is unknown whether the topic will exist after a restart.
        """
        journal = self._journal(topic, _DELETING)
        try:
            replace_file(self._disk, journal, _content(topic))
        except OSError as error:
            try:
                self._undo_delete(journal, error)
            except OSError:
                raise UndecidedError(error.errno, error.strerror, error.filename) from error
            raise

    def _undo_delete(self, journal: str, error: OSError) -> None:
        try:
            self._disk.remove(journal)
        except FileNotFoundError:
            if is_short_of_descriptors(error):
                return  # not even begun, and there may be no descriptor for syncing the folder either
        self._disk.sync_folder(_FOLDER)

    def finish_delete(self, topic: TopicFile) -> None:
        """Remove the files of a deleted topic; the next startup removes the rest after an error.

        Raises:
            OSError: the disk failed.
        """
        self.remove(self._retire(topic))

    def _retire(self, topic: TopicFile) -> list[str]:
        """Rename the files of a deleted topic to names that do not count, and return the folders to remove."""
        if self._id_in(self._file(topic.name)) == topic.topic_id:
            self._disk.remove(self._file(topic.name))
        doomed = self._rename_folders(topic)
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(self._journal(topic, _DELETING))
        return doomed

    def _rename_folders(self, topic: TopicFile, first: int = 0) -> list[str]:
        """Rename the folders of a topic, so that a half-removed one is never mistaken for a partition, and return them.

        Args:
            topic: the topic.
            first: the number of the first partition to rename.
        """
        doomed = []
        for number in range(first, topic.partitions):
            folder = folder_of(topic.name, number)
            if self._is_of(topic, folder):
                doomed.append(self._free_name(topic, number, _DELETED))
                self._disk.rename(folder, doomed[-1])
        self._disk.sync_folder("")
        return doomed

    def remove(self, doomed: Sequence[str]) -> None:
        """Remove renamed folders, until the broker stops.

        Raises:
            OSError: the disk failed.
        """
        for folder in doomed:
            if self.is_ending:
                return
            remove_tree(self._disk, folder)

    def _is_of(self, topic: TopicFile, folder: str) -> bool:
        """Return whether a folder belongs to a topic, and not to a later one of the same name."""
        try:
            self._disk.names(folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            metadata = self._metadata(folder)
        except OSError as error:
            if is_short_of_descriptors(error):
                raise
            metadata = None  # the name may be that of a folder, for example
        if metadata == partition_metadata_content(topic.topic_id):
            return True
        if metadata is not None and _names_another(metadata, topic.topic_id):
            return False
        # The file is not synced, and a crash may have emptied it. Then the name decides.
        return self._id_in(self._file(topic.name)) in (None, topic.topic_id)

    # Startup.

    def _tidy(self) -> None:
        """Complete or undo steps that a crash has interrupted."""
        for name in self._disk.names(_FOLDER):
            path = f"{_FOLDER}/{name}"
            if name.endswith(TEMPORARY_SUFFIX):
                self._disk.remove(path)
            elif name.endswith(_DELETING):
                self._retire(self._read(name))
            elif name.endswith(_CREATING):
                self._rename_folders(self._read(name))
                self._disk.remove(path)
            elif name.endswith(_CHANGING):
                changed = self._read(name)
                self._rename_folders(changed, self._partitions_of(changed))
                self._disk.remove(path)

    def tell_strays(self, folders: Collection[str]) -> None:
        """Log unknown folders in the data directory, which are left alone.

        Apache Kafka sets aside folders of unknown partitions, and does not start with other unknown folders.

        Args:
            folders: folders of the partitions.

        Raises:
            OSError: the disk failed.
        """
        known = {*folders, *DIRECTORY_FILES, _FOLDER}
        for name in self._disk.names(""):
            if name.removesuffix(TEMPORARY_SUFFIX) not in known and not name.endswith((_DELETED, _STRAY)):
                logger.warning("%s belongs to no topic and is left alone", self._disk.describe(name))

    def _read(self, name: str) -> TopicFile:
        path = f"{_FOLDER}/{name}"
        configs = read_properties(self._disk, path)
        stem = name.rpartition(".")[0]
        try:
            topic_id, partitions = parse_uuid(configs.pop(_TOPIC_ID)), int(configs.pop(_PARTITIONS))
            return TopicFile(configs.pop(_TOPIC_NAME, stem), topic_id, partitions, configs)
        except (KeyError, ValueError, LocalProtocolError) as error:
            raise DamagedFile(self._disk.describe(path), f"{type(error).__name__}: {error}") from None

    def _partitions_of(self, topic: TopicFile) -> int:
        """Return the number of partitions in a topic's file, 0 if it does not exist."""
        path = self._file(topic.name)
        return self._read(f"{topic.name}{_TOPIC}").partitions if self._id_in(path) == topic.topic_id else 0

    def _id_in(self, path: str) -> bytes | None:
        """Return the topic id in the file of a topic, None without a file."""
        if not has_file(self._disk, path):
            return None
        return self._read(path.removeprefix(f"{_FOLDER}/")).topic_id

    def _file(self, name: str) -> str:
        return f"{_FOLDER}/{name}{_TOPIC}"

    def _journal(self, topic: TopicFile, suffix: str) -> str:
        # By id: a name may have 249 characters, and a file's name at most 255.
        return f"{_FOLDER}/{format_uuid(topic.topic_id)}{suffix}"


class UndecidedError(OSError):
    """The disk failed, and its last change cannot be undone."""


def _names_another(metadata: bytes, topic_id: bytes) -> bool:
    """Return whether a `partition.metadata` belongs to another topic, rather than being a damaged file of ours."""
    own = partition_metadata_content(topic_id)
    if len(metadata) != len(own) or sum(map(ne, metadata, own)) <= _DAMAGED_BYTES_MAX:
        return False
    try:
        return partition_metadata_content(parse_partition_metadata(metadata)) == metadata
    except DamagedContent:
        return False


def _content(topic: TopicFile) -> bytes:
    own = {_TOPIC_ID: format_uuid(topic.topic_id), _TOPIC_NAME: topic.name, _PARTITIONS: topic.partitions}
    return properties_content({**topic.configs, **own})
