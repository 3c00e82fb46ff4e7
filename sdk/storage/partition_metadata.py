"""Read and write `partition.metadata`, which records the topic id, because topic names can be reused.

Source: `PartitionMetadataFile`, `PartitionMetadata` in Apache Kafka.
"""

from __future__ import annotations

import re
from typing import Final

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid
from kafkawire.sdk.storage.damage import DamagedContent, stored_text

__all__ = ["PARTITION_METADATA", "PARTITION_METADATA_VERSION", "parse_partition_metadata", "partition_metadata_content"]

PARTITION_METADATA: Final = "partition.metadata"

#: The only version.
PARTITION_METADATA_VERSION: Final = 0

_LINES: Final = re.compile(r"version:\s+(?P<version>\S+)\s+topic_id:\s+(?P<topic_id>\S+)\s*", re.ASCII)

#: Maximum number of characters of malformed content that an error quotes.
_SHOWN_CHARACTERS: Final = 40


def parse_partition_metadata(content: bytes) -> bytes:
    """Return the topic id in a file: 16 bytes.

    Raises:
        DamagedContent: the file has no topic id, or its version is unknown.
    """
    text = stored_text(content)
    found = _LINES.fullmatch(text)
    if found is None:
        raise DamagedContent(f"{text[:_SHOWN_CHARACTERS]!r} is not a version and a topic id")
    if found["version"] != str(PARTITION_METADATA_VERSION):
        raise DamagedContent(
            f"version {found['version']:.{_SHOWN_CHARACTERS}} is unknown; expected {PARTITION_METADATA_VERSION}"
        )
    try:
        return parse_uuid(found["topic_id"])
    except LocalProtocolError as error:
        raise DamagedContent(str(error)) from None


def partition_metadata_content(topic_id: bytes) -> bytes:
    """Return the content of a file."""
    return f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {format_uuid(topic_id)}".encode()
