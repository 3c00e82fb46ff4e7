"""Encoding of coordinator records: keys begin with the int16 record type, values with the int16 version.

Source: `CoordinatorRecordSerde` in Apache Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Mapping

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, KeyValue
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message

__all__ = ["RecordTypes", "decode", "encode", "types_by_key"]

#: The key class and the value class for each record type.
RecordTypes = Mapping[int, tuple[type[Message], type[Message]]]

_PREFIX = struct.Struct(">h")


def types_by_key(*types: tuple[type[Message], type[Message]]) -> RecordTypes:
    """Return the given key and value classes, keyed by record type."""
    return {key.SCHEMA.key or 0: (key, value) for key, value in types}


def encode(record: CoordinatorRecord) -> KeyValue:
    """Return the encoded key and value."""
    key, value, version, _ = record
    stored_key = _PREFIX.pack(key.SCHEMA.key or 0) + program(type(key), key.SCHEMA.versions.last).encode(key)
    if value is None:
        return stored_key, None
    return stored_key, _PREFIX.pack(version) + program(type(value), version).encode(value)


def decode(
    types: RecordTypes, key: bytes, value: bytes | None, *, unread: Container[int] = ()
) -> CoordinatorRecord | None:
    """Decode a record; return None if its type is not in `types`.

    Args:
        types: key and value classes, keyed by record type.
        key, value: the encoded key and value.
        unread: types whose values hardly matter; if such a value cannot be decoded, defaults are used instead.

    Raises:
        DecodeError: the key or value is damaged, or has an unknown version.
    """
    kind = _prefix(key, "key")
    if kind not in types:
        return None
    key_class, value_class = types[kind]
    decoded_key, _ = program(key_class, key_class.SCHEMA.versions.last).decode(key, _PREFIX.size)
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    try:
        version = _prefix(value, "value")
        if version not in value_class.SCHEMA.versions:
            known = value_class.SCHEMA.versions
            raise DecodeError(
                "version", 0, f"unknown version {version} of {value_class.__name__}; supported versions: {known}"
            )
        decoded, _ = program(value_class, version).decode(value, _PREFIX.size)
    except DecodeError:
        if kind not in unread:
            raise
        return CoordinatorRecord(decoded_key, value_class())
    return CoordinatorRecord(decoded_key, decoded, version)


def _prefix(data: bytes, part: str) -> int:
    if len(data) < _PREFIX.size:
        raise DecodeError(part, 0, f"expected at least {_PREFIX.size} bytes, got {len(data)}")
    (prefix,) = _PREFIX.unpack_from(data)
    return int(prefix)
