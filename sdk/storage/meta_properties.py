"""Read and write `meta.properties`, which names the owner of a data directory.

Source: `MetaProperties`, `MetaPropertiesVersion` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.properties import properties_content, stored_properties

__all__ = [
    "META_PROPERTIES",
    "WITH_BROKER_ID",
    "WITH_NODE_ID",
    "MetaProperties",
    "meta_properties_content",
    "parse_meta_properties",
]

META_PROPERTIES: Final = "meta.properties"

#: The versions of the file: a broker in a ZooKeeper cluster writes its id as `broker.id`, any other broker as
#: `node.id`.
WITH_BROKER_ID: Final = 0
WITH_NODE_ID: Final = 1

_VERSION: Final = "version"
_CLUSTER_ID: Final = "cluster.id"
_DIRECTORY_ID: Final = "directory.id"
#: The property that holds the broker's id in each version.
_ID_NAMES: Final = {WITH_BROKER_ID: "broker.id", WITH_NODE_ID: "node.id"}


class MetaProperties(NamedTuple):
    """The content of the file.

    Attributes:
        cluster_id: in Kafka's text form.
        node_id: the id of the broker, as text.
        directory_id: in Kafka's text form; empty in directories of earlier releases of Apache Kafka.
        version: `WITH_BROKER_ID` or `WITH_NODE_ID`.
    """

    cluster_id: str
    node_id: str
    directory_id: str = ""
    version: int = WITH_NODE_ID


def parse_meta_properties(content: bytes) -> MetaProperties:
    """Return the properties in a file.

    Raises:
        DamagedContent: a line is not a name and a value, or a property is missing.
    """
    known = stored_properties(content)
    version = WITH_BROKER_ID if known.get(_VERSION) == str(WITH_BROKER_ID) else WITH_NODE_ID
    id_name = _ID_NAMES[version]
    # Without these, the owner of the directory is unknown.
    if missing := [name for name in (_CLUSTER_ID, id_name) if not known.get(name)]:
        raise DamagedContent(f"it has no {' and no '.join(missing)}")
    return MetaProperties(known[_CLUSTER_ID], known[id_name], known.get(_DIRECTORY_ID, ""), version)


def meta_properties_content(known: MetaProperties) -> bytes:
    """Return the content of a file."""
    properties = {
        _VERSION: known.version,
        _CLUSTER_ID: known.cluster_id,
        _DIRECTORY_ID: known.directory_id,
        _ID_NAMES[known.version]: known.node_id,
    }
    return properties_content({name: value for name, value in properties.items() if value != ""})
