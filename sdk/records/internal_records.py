"""Decode the records of Kafka's internal topics into messages: groups and offsets, transactions, share groups,
cluster metadata (and its snapshots), and remote log metadata. A user's own topics can hold records like these.

A coordinator record's key begins with a record type, and its value with a version. A metadata record has no key, and
its value is framed: it begins with the frame version, the record type and the version, all unsigned varints.

Source: `CoordinatorRecordSerde`, `AbstractApiMessageSerde`, `RemoteLogMetadataSerde` in Apache Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkawire.sdk.errors import DecodeError, LocalProtocolError, UnknownRecord
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.protocol.tables.enums import METADATA_FRAME_VERSION
from kafkawire.sdk.protocol.tables.record_types import FRAMED_RECORDS, KEYED_RECORDS
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.records.buffers import bytes_of

__all__ = ["INTERNAL_TOPICS", "KAFKA_RECORDS", "InternalRecord", "RecordTypes", "decode_record", "read_frame"]

#: A message: its class, or its name in Kafka.
_Named = str | type[Message]

_PREFIX = struct.Struct(">h")
#: Maximum number of bytes in an unsigned varint that Kafka reads.
_VARINT_BYTES_MAX = 5


class InternalRecord(NamedTuple):
    """A record of an internal topic, decoded.

    Attributes:
        topic: the record's topic.
        type: its record type; None for a tombstone without a type; metadata topics have no tombstones.
        key: the message in its key; None in metadata topics, which have no keys.
        value: the message in its value; None for a tombstone, which removes the state of its key.
        version: the version of the value; None for a tombstone.
    """

    topic: str
    type: int | None
    key: Message | None
    value: Message | None
    version: int | None

    @property
    def name(self) -> str:
        """The name of the record's type, such as `OffsetCommit` or `TopicRecord`; empty for a tombstone without one."""
        if self.key is not None:
            return self.key.SCHEMA.name.removesuffix("Key")
        return "" if self.value is None else self.value.SCHEMA.name

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON value; key and value have the form that Kafka's own converters print."""
        from kafkawire.sdk.protocol.json_form import to_json  # imported here: many programs never need it

        found: dict[str, Any] = {"type": self.type, "name": self.name}
        if self.key is not None:
            found["key"] = to_json(self.key, self.key.SCHEMA.known_versions.last)
        found["version"] = self.version
        found["value"] = None if self.value is None or self.version is None else to_json(self.value, self.version)
        return found


class RecordTypes:
    """The messages in the records of topics. A message is given as a class, or as the name of one of Kafka's messages.

    Args:
        keyed: the messages in key and value, keyed by topic and record type.
        framed: the message in the value, keyed by topic and record type.

    Attributes:
        keyed, framed: see above.
        topics: the names of all topics.
    """

    def __init__(
        self,
        keyed: Mapping[str, Mapping[int, tuple[_Named, _Named]]],
        framed: Mapping[str, Mapping[int, _Named]],
    ) -> None:
        self.keyed = keyed
        self.framed = framed
        self.topics = frozenset({*keyed, *framed})

    def decode(self, topic: str, key: Buffer | None, value: Buffer | None) -> InternalRecord:
        """Decode a record of one of the topics; see `decode_record`."""
        kind, version, key_start, value_start = self.envelope(topic, key, value)
        if kind is None:
            return InternalRecord(topic, None, None, None, None)
        if topic in self.framed:
            message = _framed(topic, kind, _class(self.framed[topic][kind]), version, value, value_start)
            return InternalRecord(topic, kind, None, message, version)
        key_class, value_class = map(_class, self.keyed[topic][kind])
        decoded_key, _ = program(key_class, key_class.SCHEMA.known_versions.last).decode(key or b"", key_start)
        if value is None or version is None:
            return InternalRecord(topic, kind, decoded_key, None, None)
        _check_version(topic, kind, value_class, version)
        decoded, _ = program(value_class, version).decode(value, value_start)
        return InternalRecord(topic, kind, decoded_key, decoded, version)

    def names_beside(self, message: str) -> dict[int, str]:
        """Return the names of the record types in the topic of a message; empty if no topic contains the message."""
        for pairs in self.keyed.values():
            if any(message in map(_name, pair) for pair in pairs.values()):
                return {kind: _name(key).removesuffix("Key") for kind, (key, _) in pairs.items()}
        for types in self.framed.values():
            if any(message == _name(each) for each in types.values()):
                return {kind: _name(each) for kind, each in types.items()}
        return {}

    def envelope(self, topic: str, key: Buffer | None, value: Buffer | None) -> tuple[int | None, int | None, int, int]:
        """Read the prefixes of the messages in a record.

        Args:
            topic: see `decode_record`.
            key: see `decode_record`.
            value: see `decode_record`.

        Returns:
            The record type (None for a tombstone of a topic without keys), the version of the value (None for a
            tombstone), and the positions of the messages in key and value. It is a plain tuple for speed, since every
            record needs one.

        Raises:
            UnknownRecord: the type or the version of the frame is unknown.
            DecodeError: key or value ends too early, or a number in a frame is too long.
            LocalProtocolError: the topic is not one of these.
        """
        if isinstance(topic, str) and topic in self.keyed:
            types = self.keyed[topic]
            kind = _prefix(topic, "key", key)
            if kind not in types:
                raise UnknownRecord(
                    "key", topic, kind, None, f"record type {kind} is unknown; expected {_listed(types)}"
                )
            if value is None:
                return kind, None, _PREFIX.size, 0
            return kind, _prefix(topic, "value", value), _PREFIX.size, _PREFIX.size
        if not isinstance(topic, str) or topic not in self.framed:
            raise LocalProtocolError(
                f"{quoted(topic, 260)} is not an internal topic; internal topics: {', '.join(sorted(self.topics))}"
            )
        if value is None:
            return None, None, 0, 0
        kind, version, start = read_frame(topic, value)
        if kind not in self.framed[topic]:
            reason = f"record type {kind} (version {version}) is unknown; expected {_listed(self.framed[topic])}"
            raise UnknownRecord("value", topic, kind, version, reason)
        return kind, version, 0, start


#: The records of Kafka's internal topics.
KAFKA_RECORDS: Final = RecordTypes(KEYED_RECORDS, FRAMED_RECORDS)

#: The topics whose records `decode_record` reads.
INTERNAL_TOPICS: Final = KAFKA_RECORDS.topics


def decode_record(topic: str, key: Buffer | None, value: Buffer | None) -> InternalRecord:
    """Decode a record of one of Kafka's internal topics.

    For control records, see `control_record` in `control.py`. As in Kafka, bytes after a coordinator's message are
    ignored, while bytes after a framed message are treated as damage.

    Args:
        topic: `__consumer_offsets`, `__transaction_state`, `__share_group_state`, `__cluster_metadata` (also for its
            snapshots) or `__remote_log_metadata`.
        key: the record's key; ignored for metadata topics, which have none.
        value: the record's value; None for a tombstone.

    Raises:
        UnknownRecord: the type or version is unknown; a newer broker may have written the record.
        DecodeError: key or value is damaged, or missing where one is required.
        LocalProtocolError: the topic is not one of these.
        TypeError: key or value is not a contiguous buffer.
    """
    return KAFKA_RECORDS.decode(topic, key, value)


def read_frame(topic: str, value: Buffer) -> tuple[int, int, int]:
    """Read the frame of a metadata record.

    Args:
        topic: the record's topic, for errors.
        value: the record's value.

    Returns:
        The record type, the version of the message and its position.

    Raises:
        UnknownRecord: the version of the frame is unknown.
        DecodeError: the value ends too early, or a number is too long.
    """
    view = bytes_of(value)
    frame, at = _varint(view, 0, "frame version")
    if frame != METADATA_FRAME_VERSION:
        reason = f"frame version {frame} is unknown; expected {METADATA_FRAME_VERSION}"
        raise UnknownRecord("value", topic, None, None, reason)
    kind, at = _varint(view, at, "type")
    version, at = _varint(view, at, "version")
    return kind, version, at


def _framed(
    topic: str, kind: int, cls: type[Message], version: int | None, value: Buffer | None, start: int
) -> Message:
    """Return the message in a frame; no bytes may follow it."""
    assert value is not None, "a tombstone has no type"
    assert version is not None, "and no version"
    _check_version(topic, kind, cls, version)
    decoded, end = program(cls, version).decode(value, start)
    size = memoryview(value).nbytes
    if end != size:
        raise DecodeError("value", end, f"{size - end} bytes follow the {cls.SCHEMA.name} of version {version}")
    return decoded


def _name(message: _Named) -> str:
    return message if isinstance(message, str) else message.SCHEMA.name


def _class(message: _Named) -> type[Message]:
    return message_class(message) if isinstance(message, str) else message


def _check_version(topic: str, kind: int, cls: type[Message], version: int) -> None:
    schema = cls.SCHEMA
    if version not in schema.known_versions:
        reason = f"record type {kind} ({schema.name}) in version {version} is unknown; expected {schema.known_versions}"
        raise UnknownRecord("value", topic, kind, version, reason)


def _prefix(topic: str, part: str, data: Buffer | None) -> int:
    """Return the number at the beginning of a key or value."""
    view = bytes_of(b"" if data is None else data)
    if len(view) < _PREFIX.size:
        has = "none" if data is None else f"{len(view)} bytes"
        raise DecodeError(
            part, 0, f"{topic}: a record has a {part} of at least {_PREFIX.size} bytes, but this one has {has}"
        )
    (number,) = _PREFIX.unpack_from(view)
    return int(number)


def _varint(view: memoryview, at: int, path: str) -> tuple[int, int]:
    """Return the unsigned varint at a position and its end."""
    number = 0
    for index, byte in enumerate(view[at : at + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, at + index + 1
    reason = "ends early" if len(view) - at < _VARINT_BYTES_MAX else f"has more than {_VARINT_BYTES_MAX} bytes"
    raise DecodeError(path, at, f"the number {reason}")


def _listed(types: Mapping[int, object]) -> str:
    """Return record types as ranges: 0 to 8, 10 to 17."""
    numbers = sorted(types)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
