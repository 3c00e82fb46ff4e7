"""Kafka's UUIDs: their text form, their order, and the reserved ones.

On the wire and in messages, a UUID is 16 bytes. Users see it as 22 characters of URL-safe base64 without padding.

Source: `Uuid` in Apache Kafka; KIP-516 (topic ids).
"""

from __future__ import annotations

import base64
import re

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.values import quoted

__all__ = ["METADATA_TOPIC_UUID", "RESERVED_UUIDS", "ZERO_UUID", "format_uuid", "parse_uuid", "uuid_order"]

#: Means "none" wherever the protocol has a UUID.
ZERO_UUID = bytes(16)

#: The id of the topic `__cluster_metadata`.
METADATA_TOPIC_UUID = bytes(15) + b"\x01"

#: Never assigned to a topic, a directory or a member.
RESERVED_UUIDS = frozenset({ZERO_UUID, METADATA_TOPIC_UUID})

_SIZE_BYTES = 16

#: The last character holds two bits of the UUID; its other four bits are ignored.
_TEXT = re.compile("[A-Za-z0-9_-]{22}(==)?")

#: Maximum number of characters that an error quotes from an invalid UUID.
_SHOWN_CHARACTERS = 40


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID.

    Args:
        text: 22 characters of URL-safe base64; the padding `==` may follow.

    Raises:
        LocalProtocolError: the text is not a UUID.
    """
    if not isinstance(text, str):
        raise LocalProtocolError(f"{quoted(text, _SHOWN_CHARACTERS)} is not a UUID: 22 characters of text are expected")
    if not _TEXT.fullmatch(text):
        raise LocalProtocolError(
            f"{text[:_SHOWN_CHARACTERS]!r} of {len(text)} characters is not a UUID: 22 of URL-safe base64 are expected"
        )
    return base64.urlsafe_b64decode(text[:22] + "==")


def format_uuid(uuid: bytes) -> str:
    """Return a UUID as text of 22 characters.

    Raises:
        LocalProtocolError: the argument is not bytes, or not 16 of them.
    """
    if not isinstance(uuid, bytes | bytearray | memoryview):
        raise LocalProtocolError(f"{quoted(uuid, _SHOWN_CHARACTERS)} is not a UUID: {_SIZE_BYTES} bytes are expected")
    content = bytes(uuid)  # a view's bytes, whatever its element type
    if len(content) != _SIZE_BYTES:
        raise LocalProtocolError(f"the UUID has {len(content)} bytes, but {_SIZE_BYTES} are expected")
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def uuid_order(uuid: bytes) -> tuple[int, int]:
    """Return a key that sorts UUIDs as Kafka does: by their two halves as signed 64-bit numbers."""
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)
