"""Read and write `meta.properties`, which names the owner of a data directory.

Source: `MetaProperties`, `MetaPropertiesVersion` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.properties import properties_content, stored_properties

__all__ = ["META_PROPERTIES", "MetaProperties", "meta_properties_content", "parse_meta_properties"]

META_PROPERTIES: Final = "meta.properties"

#: The version with node ids; before it, the file had broker ids.
_VERSION: Final = 1

_CLUSTER_ID: Final = "cluster.id"
_DIRECTORY_ID: Final = "directory.id"
_NODE_ID: Final = "node.id"
#: Without these, the owner of the directory is unknown.
_NEEDED: Final = (_CLUSTER_ID, _NODE_ID)


class MetaProperties(NamedTuple):
    """The content of the file.

    Attributes:
        cluster_id: in Kafka's text form.
        node_id: the broker's node id, as text.
        directory_id: in Kafka's text form; empty in directories of earlier releases of Apache Kafka.
    """

    cluster_id: str
    node_id: str
    directory_id: str = ""


def parse_meta_properties(content: bytes) -> MetaProperties:
    """Return the properties in a file.

    Raises:
        DamagedContent: a line has no name and value, or a property is missing.
    """
    known = stored_properties(content)
    if missing := [name for name in _NEEDED if not known.get(name)]:
        raise DamagedContent(f"it has no {' and no '.join(missing)}")
    return MetaProperties(known[_CLUSTER_ID], known[_NODE_ID], known.get(_DIRECTORY_ID, ""))


def meta_properties_content(known: MetaProperties) -> bytes:
    """Return the content of a file."""
    return properties_content(
        {
            "version": _VERSION,
            _CLUSTER_ID: known.cluster_id,
            _DIRECTORY_ID: known.directory_id,
            _NODE_ID: known.node_id,
        }
    )
