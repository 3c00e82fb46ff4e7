"""The identity of a data directory: its cluster, its broker and its own id, in `meta.properties`."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.storage.checkpoints import DamagedFile, read_parsed, write_offsets
from kafkawire.reference_broker.storage.directory.producer_id_file import write_next_producer_id
from kafkawire.reference_broker.storage.disk.disk import Disk, replace_file
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.storage.checkpoints import RECOVERY_POINTS
from kafkawire.sdk.storage.meta_properties import (
    META_PROPERTIES,
    WITH_NODE_ID,
    MetaProperties,
    meta_properties_content,
    parse_meta_properties,
)

__all__ = ["begin_in_cluster", "read_identity", "take_identity_alone", "write_identity"]


def read_identity(disk: Disk) -> MetaProperties | None:
    """Return the identity of a data directory, or None if it has none yet.

    Raises:
        DamagedFile: the file is malformed.
        OSError: the disk failed.
    """
    return read_parsed(disk, META_PROPERTIES, parse_meta_properties)


def write_identity(disk: Disk, identity: MetaProperties) -> None:
    """Replace the identity of a data directory, durably.

    Raises:
        OSError: the disk failed; the directory has either the old identity or the new one.
    """
    replace_file(disk, META_PROPERTIES, meta_properties_content(identity))


def take_identity_alone(disk: Disk, node_id: int, new_uuid: Callable[[], bytes]) -> MetaProperties:
    """Return the identity of a single broker's data directory; a new directory begins its own cluster.

    Args:
        disk: the data directory.
        node_id: the broker's id.
        new_uuid: returns 16 bytes for the ids of the cluster and of the directory.

    Raises:
        ConfigurationError: the directory belongs to another broker.
        DamagedFile: the file is malformed, or it is missing although there are partitions.
        OSError: the disk failed.
    """
    known = read_identity(disk)
    if known is None:
        if any(name.endswith("-0") for name in disk.names("")):
            raise DamagedFile(
                disk.describe(META_PROPERTIES), "the file is missing, although the data directory has partitions"
            )
        known = MetaProperties(format_uuid(new_uuid()), str(node_id), format_uuid(new_uuid()))
        # The identity is written last: until it exists, a restart rewrites the other files.
        write_offsets(disk, RECOVERY_POINTS, {})
        write_next_producer_id(disk, 0)
        write_identity(disk, known)
    if known.version != WITH_NODE_ID:
        raise ConfigurationError(
            "data_dir", disk.describe(""), "the data directory belongs to a broker in a ZooKeeper cluster"
        )
    if known.node_id != str(node_id):
        raise ConfigurationError("node_id", node_id, f"{disk.describe('')} belongs to node {known.node_id}")
    return known


def begin_in_cluster(disk: Disk, known: MetaProperties | None, identity: MetaProperties) -> None:
    """Give a data directory its identity in a cluster, unless it already has that identity.

    Args:
        disk: the data directory.
        known: its current identity; None if the directory is new.
        identity: its identity in the cluster.

    Raises:
        OSError: the disk failed.
    """
    if known is None:
        write_offsets(disk, RECOVERY_POINTS, {})
    if known != identity:
        write_identity(disk, identity)
