"""The folders of partitions in a data directory, each with the id of its topic in `partition.metadata`.

    <topic>-<partition>             a partition
    <topic id>.<partition>-delete   a deleted partition whose files are being removed
    <topic id>.<partition>-stray    a folder set aside because it was in the way and belongs to no known topic

Removing files can take long, so a shutdown leaves the remaining files, and a startup does not wait for their removal.
All methods block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, count
from operator import ne

from kafkawire.reference_broker.storage.checkpoints import DIRECTORY_FILES
from kafkawire.reference_broker.storage.disk.disk import (
    TEMPORARY_SUFFIX,
    Disk,
    is_short_of_descriptors,
    read_file,
    remove_tree,
    replace_file,
    write_file,
)
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.partition_metadata import (
    PARTITION_METADATA,
    parse_partition_metadata,
    partition_metadata_content,
)
from kafkawire.sdk.storage.partitions import Partition, folder_of, has_folder_name, partition_folder

__all__ = ["PartitionFolders"]

logger = logging.getLogger("kafkawire.broker")

_DELETED = "-delete"
_STRAY = "-stray"

#: The maximum size of `partition.metadata`; a larger file must be something else.
_METADATA_BYTES_MAX = 1024

#: Content that differs from the expected content in at most this many bytes is considered damaged, rather than another
#: topic's: the ids of two topics differ in almost every byte.
_DAMAGED_BYTES_MAX = 4


class PartitionFolders:
    """The folders on a disk.

    Args:
        disk: the data directory.

    Attributes:
        is_ending: whether to leave the remaining folders of deleted partitions to the next startup.
    """

    def __init__(self, disk: Disk) -> None:
        self.is_ending = False
        self._disk = disk

    def make(self, place: Partition, topic_id: bytes, *, is_durable: bool = False) -> None:
        """Create the folder of a partition, with metadata; an existing folder is set aside.

        Args:
            place: topic and number of the partition.
            topic_id: the id of its topic; zeros if it has none, in which case no metadata is written.
            is_durable: whether to sync the metadata; the name of the folder is never synced.

        Raises:
            OSError: the disk failed.
        """
        folder = folder_of(*place)
        if self._exists(folder):
            # Rename the folder instead of removing it, since it may hold records of unknown origin.
            stray = self._free_name(place, topic_id, _STRAY)
            describe = self._disk.describe
            logger.warning(
                "%s does not belong to any topic, and will be renamed to %s", describe(folder), describe(stray)
            )
            self._disk.rename(folder, stray)
        self._disk.make_folder(folder)
        if topic_id != ZERO_UUID:  # like Kafka, which rejects a file with such an id
            write = replace_file if is_durable else write_file
            write(self._disk, f"{folder}/{PARTITION_METADATA}", partition_metadata_content(topic_id))

    def identify(self, place: Partition, topic_id: bytes) -> None:
        """Write a newly assigned topic id into the metadata of a partition, durably.

        Args:
            place: topic and number of the partition, whose folder must exist.
            topic_id: the id.

        Raises:
            OSError: the disk failed.
        """
        replace_file(self._disk, f"{folder_of(*place)}/{PARTITION_METADATA}", partition_metadata_content(topic_id))

    def settle(self, place: Partition, topic_id: bytes, *, is_there: bool) -> bool:
        """At startup, ensure that a partition has a folder with metadata; return whether the folder is new.

        The metadata is not synced, as it can be written again.

        Args:
            place: topic and number of the partition.
            topic_id: the id of its topic; zeros if it has none.
            is_there: whether the folder's name exists.

        Raises:
            OSError: the disk failed, or the name belongs to something other than a folder.
        """
        folder = folder_of(*place)
        metadata = self._metadata(folder) if is_there else None
        is_new = not is_there or (metadata is not None and _names_another(metadata, topic_id))
        if is_new:
            logger.error("%s is missing, so the partition starts out empty", self._disk.describe(folder))
            self.make(place, topic_id)
        elif topic_id != ZERO_UUID:
            content = partition_metadata_content(topic_id)
            if metadata != content:
                write_file(self._disk, f"{folder}/{PARTITION_METADATA}", content)
        return is_new

    def _metadata(self, folder: str) -> bytes | None:
        return read_file(self._disk, f"{folder}/{PARTITION_METADATA}", _METADATA_BYTES_MAX)

    # The ids in the metadata.

    def found(self) -> dict[Partition, bytes | None]:
        """Return the partitions that have folders, each with the topic id in its metadata.

        The id is None if the metadata is missing or damaged, or cannot be read.

        Raises:
            OSError: the disk failed.
        """
        found = {}
        for name in self._disk.names(""):
            folder = partition_folder(name)
            if folder is not None and folder_of(*folder.partition) == name:
                found[folder.partition] = _id_in(self._readable_metadata(name))
        return found

    def is_of(self, place: Partition, topic_id: bytes) -> bool:
        """Return whether a partition has a folder whose metadata has the given topic id.

        Args:
            place: topic and number of the partition.
            topic_id: the id; zeros for a folder without an id.

        Raises:
            OSError: the metadata cannot be read.
        """
        folder = folder_of(*place)
        found = _id_in(self._metadata(folder))
        return found == topic_id if found is not None else topic_id == ZERO_UUID and self._exists(folder)

    def _readable_metadata(self, folder: str) -> bytes | None:
        try:
            return self._metadata(folder)
        except OSError as error:
            if is_short_of_descriptors(error):
                raise
            return None  # for example, it may be a folder

    def _free_name(self, place: Partition, topic_id: bytes, suffix: str) -> str:
        """Return an unused name for a folder to set aside; an earlier error may have left the first choice in use."""
        stem = f"{format_uuid(topic_id)}.{place[1]}"
        others = (f"{stem}.{again}{suffix}" for again in count(1))
        return next(name for name in chain((f"{stem}{suffix}",), others) if not self._exists(name))

    def _exists(self, folder: str) -> bool:
        try:
            self._disk.names(folder)
        except FileNotFoundError:
            return False
        return True

    # Deleting.

    def retire(self, places: Iterable[Partition], topic_id: bytes, is_free: Callable[[], bool]) -> list[str]:
        """Rename the folders of deleted partitions durably, and return them.

        This way, a half-removed folder is never mistaken for a partition.

        Args:
            places: topics and numbers of the partitions.
            topic_id: the id of their topic; folders of other topics stay.
            is_free: whether no other topic has this name; if so, folders with missing or damaged metadata are taken to
                be this topic's.

        Raises:
            OSError: the disk failed.
        """
        retired = []
        for place in places:
            folder = folder_of(*place)
            if self._is_of(folder, topic_id, is_free):
                retired.append(self._free_name(place, topic_id, _DELETED))
                self._disk.rename(folder, retired[-1])
        self._disk.sync_folder("")
        return retired

    def _is_of(self, folder: str, topic_id: bytes, is_free: Callable[[], bool]) -> bool:
        """Return whether a folder belongs to this topic, rather than to a later topic of the same name."""
        try:
            self._disk.names(folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        metadata = self._readable_metadata(folder)
        if metadata == partition_metadata_content(topic_id):
            return True
        if metadata is not None and _names_another(metadata, topic_id):
            return False
        # The file is not synced, so a crash may have emptied it. In that case, go by the name.
        return is_free()

    def retire_one(self, place: Partition) -> str | None:
        """Rename the folder of a deleted partition, whatever its topic id, without syncing.

        Returns:
            The new name; None if there is no such folder, or no folder can have that name.

        Raises:
            OSError: the disk failed.
        """
        folder = folder_of(*place)
        if not has_folder_name(*place) or not self._exists(folder):
            return None
        retired = self._free_name(place, _id_in(self._readable_metadata(folder)) or ZERO_UUID, _DELETED)
        self._disk.rename(folder, retired)
        return retired

    def retired(self) -> list[str]:
        """Return the folders left by earlier deletions, for `remove`."""
        return [name for name in self._disk.names("") if name.endswith(_DELETED)]

    def remove(self, retired: Sequence[str]) -> None:
        """Remove renamed folders; stop early if the broker stops.

        Raises:
            OSError: the disk failed.
        """
        for folder in retired:
            if self.is_ending:
                return
            remove_tree(self._disk, folder)

    # Unknown folders.

    def others(self, known: Collection[Partition]) -> list[Partition]:
        """Return the unknown partitions that have a folder.

        Args:
            known: the known partitions.

        Raises:
            OSError: the disk failed.
        """
        folders = map(partition_folder, self._disk.names(""))
        return [each.partition for each in folders if each is not None and each.partition not in known]

    def tell_strays(self, known: Collection[str]) -> None:
        """Log the unknown folders in the data directory, which are left alone.

        Apache Kafka sets aside the folders of unknown partitions, and refuses to start if there are other unknown
        folders.

        Args:
            known: the folders of known partitions.

        Raises:
            OSError: the disk failed.
        """
        for name in self._disk.names(""):
            stem = name.removesuffix(TEMPORARY_SUFFIX)
            if stem not in known and stem not in DIRECTORY_FILES and not name.endswith((_DELETED, _STRAY)):
                logger.warning("%s does not belong to any topic, and is left alone", self._disk.describe(name))


def _id_in(metadata: bytes | None) -> bytes | None:
    """Return the topic id in a `partition.metadata` file; None if it is missing or damaged, or if the id is zeros."""
    try:
        topic_id = None if metadata is None else parse_partition_metadata(metadata)
    except DamagedContent:
        return None
    return None if topic_id == ZERO_UUID else topic_id


def _names_another(metadata: bytes, topic_id: bytes) -> bool:
    """Return whether a `partition.metadata` file belongs to another topic, rather than being a damaged file of ours."""
    own = partition_metadata_content(topic_id)
    if len(metadata) != len(own) or sum(map(ne, metadata, own)) <= _DAMAGED_BYTES_MAX:
        return False
    try:
        return partition_metadata_content(parse_partition_metadata(metadata)) == metadata
    except DamagedContent:
        return False
