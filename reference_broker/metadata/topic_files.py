"""The topics' files in the folder `topics`, where a crash leaves each topic either complete or absent.

    <name>.topic          the topic exists: its id, number of partitions, configurations
    <topic id>.creating   its partitions are being created; a restart removes them
    <topic id>.changing   its configurations or partitions are changing; a restart removes the new partitions
    <topic id>.deleting   it is being deleted; its folders are being renamed, and a restart renames the rest

A topic exists once `.creating` is renamed to `.topic`, after everything else is durable; a change takes effect when
`.changing` is renamed. A topic ceases to exist once `.deleting` is durable. Removing the renamed folders takes a long
time: on shutdown, the remaining ones are left behind, and startup does not wait for their removal. Every step blocks,
and therefore runs in the background.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.storage.checkpoints import TOPICS, DamagedFile, read_properties
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.disk.disk import (
    TEMPORARY_SUFFIX,
    Disk,
    has_file,
    is_short_of_descriptors,
    replace_file,
)
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid
from kafkawire.sdk.storage.partitions import Partition
from kafkawire.sdk.storage.properties import properties_content

__all__ = ["LocalTopic", "TopicFiles", "UndecidedError"]

logger = logging.getLogger("kafkawire.broker")

_TOPIC = ".topic"
_CREATING = ".creating"
_CHANGING = ".changing"
_DELETING = ".deleting"

_TOPIC_ID = "topic.id"
_TOPIC_NAME = "topic.name"
_PARTITIONS = "partitions"


class LocalTopic(NamedTuple):
    """A topic of a single broker, as stored in its file.

    Attributes:
        name: unique among existing topics.
        topic_id: 16 bytes, never reused.
        partitions: the number of partitions.
        configs: configurations that differ from the defaults.
    """

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str]

    def places(self, first: int = 0) -> list[Partition]:
        """Return the topic's partitions, starting with the given number."""
        return [(self.name, number) for number in range(first, self.partitions)]


class TopicFiles:
    """The topics' files on a disk; steps that a crash interrupted are completed or undone.

    Args:
        disk: the data directory.
        folders: the folders of the partitions.

    Raises:
        DamagedFile: a file of a topic is malformed.
        OSError: the disk failed.
    """

    def __init__(self, disk: Disk, folders: PartitionFolders) -> None:
        self._disk = disk
        self._folders = folders
        disk.make_folder(TOPICS)
        self._tidy()

    def topics(self) -> list[LocalTopic]:
        """Return the topics that exist.

        Raises:
            DamagedFile: a file of a topic is malformed.
            OSError: the disk failed.
        """
        return [self._read(name) for name in self._disk.names(TOPICS) if name.endswith(_TOPIC)]

    def create(self, topic: LocalTopic, make_partition: Callable[[int], object]) -> None:
        """Create a topic.

        Args:
            topic: the topic.
            make_partition: creates the folder of a partition, given its number; nothing is synced.

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

    def change(self, before: LocalTopic, after: LocalTopic, make_partition: Callable[[int], object]) -> None:
        """Change the configurations of a topic, or add partitions to it.

        Args:
            before: the topic as it is now.
            after: the topic as it will be, with at least as many partitions.
            make_partition: creates the folder of a partition, given its number; nothing is synced.

        Raises:
            OSError: the disk failed; the topic is unchanged, or will be changed by a restart if the step could not be
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

    def _make_partitions(self, topic: LocalTopic, first: int, make_partition: Callable[[int], object]) -> None:
        """Durably create the folders of a topic's partitions, starting with the given number."""
        for number in range(first, topic.partitions):
            make_partition(number)
        self._disk.sync_folder("")

    def _commit(self, topic: LocalTopic, journal: str) -> None:
        """Apply the changes in a journal."""
        self._disk.rename(journal, self._file(topic.name))
        self._disk.sync_folder(TOPICS)

    def _undo_create(self, topic: LocalTopic) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(self._file(topic.name))
                self._disk.sync_folder(TOPICS)
            self._folders.remove(self._retire_folders(topic))
            self._remove_journal(topic, _CREATING)
        except OSError as error:
            logger.warning("files of the incomplete topic %s remain until the next startup: %s", topic.name, error)

    def _undo_change(self, before: LocalTopic, after: LocalTopic, journal: str) -> None:
        try:
            if self._read(f"{after.name}{_TOPIC}") != before:
                # The change may already be durable. If undoing it fails, it remains in effect, and its partitions must
                # remain too.
                replace_file(self._disk, journal, _content(before))
                self._commit(before, journal)
            self._folders.remove(self._retire_folders(after, before.partitions))
            self._remove_journal(after, _CHANGING)
        except OSError as error:
            logger.warning("changes to the topic %s may take effect at the next startup: %s", after.name, error)

    def _remove_journal(self, topic: LocalTopic, suffix: str) -> None:
        for name in (suffix, suffix + TEMPORARY_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                self._disk.remove(self._journal(topic, name))
        self._disk.sync_folder(TOPICS)

    def begin_delete(self, topic: LocalTopic) -> None:
        """Delete a topic, which after this call never comes back.

        Raises:
            OSError: the disk failed; the topic still exists.
            UndecidedError: the disk failed twice, so it is unknown whether the topic will exist after a restart.
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
                return  # deletion has not begun, and there may be no file descriptor for syncing the folder
        self._disk.sync_folder(TOPICS)

    def finish_delete(self, topic: LocalTopic) -> None:
        """Remove the files of a deleted topic; after an error, the next startup removes the rest.

        Raises:
            OSError: the disk failed.
        """
        self._folders.remove(self._retire(topic))

    def _retire(self, topic: LocalTopic) -> list[str]:
        """Give the files of a deleted topic names that are ignored, and return the folders to remove."""
        if self._id_in(self._file(topic.name)) == topic.topic_id:
            self._disk.remove(self._file(topic.name))
        doomed = self._retire_folders(topic)
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(self._journal(topic, _DELETING))
        return doomed

    def _retire_folders(self, topic: LocalTopic, first: int = 0) -> list[str]:
        """Rename the folders of a topic, and return them.

        Args:
            topic: the topic.
            first: the number of the first partition to rename.
        """

        def is_free() -> bool:
            return self._id_in(self._file(topic.name)) in (None, topic.topic_id)

        return self._folders.retire(topic.places(first), topic.topic_id, is_free)

    # Startup.

    def _tidy(self) -> None:
        """Complete or undo steps that a crash interrupted."""
        for name in self._disk.names(TOPICS):
            path = f"{TOPICS}/{name}"
            if name.endswith(TEMPORARY_SUFFIX):
                self._disk.remove(path)
            elif name.endswith(_DELETING):
                self._retire(self._read(name))
            elif name.endswith(_CREATING):
                self._retire_folders(self._read(name))
                self._disk.remove(path)
            elif name.endswith(_CHANGING):
                changed = self._read(name)
                self._retire_folders(changed, self._partitions_of(changed))
                self._disk.remove(path)

    def _read(self, name: str) -> LocalTopic:
        path = f"{TOPICS}/{name}"
        configs = read_properties(self._disk, path)
        stem = name.rpartition(".")[0]
        try:
            topic_id, partitions = parse_uuid(configs.pop(_TOPIC_ID)), int(configs.pop(_PARTITIONS))
            return LocalTopic(configs.pop(_TOPIC_NAME, stem), topic_id, partitions, configs)
        except (KeyError, ValueError, LocalProtocolError) as error:
            raise DamagedFile(self._disk.describe(path), f"{type(error).__name__}: {error}") from None

    def _partitions_of(self, topic: LocalTopic) -> int:
        """Return the number of partitions in a topic's file, or 0 if the file does not exist."""
        path = self._file(topic.name)
        return self._read(f"{topic.name}{_TOPIC}").partitions if self._id_in(path) == topic.topic_id else 0

    def _id_in(self, path: str) -> bytes | None:
        """Return the topic id in a topic's file, or None if there is no file."""
        if not has_file(self._disk, path):
            return None
        return self._read(path.removeprefix(f"{TOPICS}/")).topic_id

    def _file(self, name: str) -> str:
        return f"{TOPICS}/{name}{_TOPIC}"

    def _journal(self, topic: LocalTopic, suffix: str) -> str:
        # Files are named by id, since a topic name may have 249 characters, and a file name at most 255.
        return f"{TOPICS}/{format_uuid(topic.topic_id)}{suffix}"


class UndecidedError(OSError):
    """The disk failed, and its last change cannot be undone."""


def _content(topic: LocalTopic) -> bytes:
    own = {_TOPIC_ID: format_uuid(topic.topic_id), _TOPIC_NAME: topic.name, _PARTITIONS: topic.partitions}
    return properties_content({**topic.configs, **own})
