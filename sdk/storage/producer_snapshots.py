"""Read and write producer snapshots: the `<offset>.snapshot` files, with the log's producers as of that offset.

Source: `ProducerStateManager.readSnapshot`, `writeSnapshot` in Apache Kafka; `schemas/storage/producer_snapshot.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.storage.producer_snapshot import ProducerSnapshot
from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.records import crc32c
from kafkawire.sdk.storage.damage import DamagedContent, OnDamage, refuse

__all__ = ["ProducerEntry", "parse_snapshot", "snapshot_content"]

#: A producer's entry in a snapshot; an offset of -1 means none.
ProducerEntry = ProducerSnapshot.ProducerEntry

_VERSIONS: Final = ProducerSnapshot.SCHEMA.versions
_VERSION: Final = Struct(">h")

#: The checksum, the first field, covers the bytes after it.
_CRC_BYTES: Final = Struct(f">{FIXED['uint32'].format}").size


def parse_snapshot(data: Buffer, on_damage: OnDamage = refuse) -> Sequence[ProducerEntry]:
    """Return the producers' entries in a snapshot.

    Args:
        data: the content of the file.
        on_damage: called for a wrong checksum, in which case the entries are still returned, and for any other damage,
            in which case the result is empty.

    Raises:
        DamagedContent: the version is unknown or the content is damaged, and `on_damage` raises this error.
    """
    view = memoryview(data)
    try:
        message = _decoded(view)
    except DamagedContent as damage:
        on_damage(damage)
        return ()
    computed = crc32c(view[_VERSION.size + _CRC_BYTES :])
    if computed != message.crc:
        reason = f"crc: the checksum is {message.crc:#010x}, but the content has {computed:#010x}"
        on_damage(DamagedContent(reason, _VERSION.size))
    return message.producer_entries


def snapshot_content(entries: Sequence[ProducerEntry]) -> bytes:
    """Return the content of a snapshot."""
    codec = program(ProducerSnapshot, _VERSIONS.last)
    message = ProducerSnapshot(producer_entries=entries)
    message.crc = crc32c(codec.encode(message)[_CRC_BYTES:])
    return _VERSION.pack(_VERSIONS.last) + codec.encode(message)


def _decoded(view: memoryview) -> ProducerSnapshot:
    """Return the message after the version.

    Raises:
        DamagedContent: the version is unknown, or the following bytes are malformed.
    """
    if len(view) < _VERSION.size:
        raise DamagedContent(f"version: the snapshot has only {len(view)} bytes", 0)
    (version,) = _VERSION.unpack_from(view)
    if not _VERSIONS.first <= version <= _VERSIONS.last:
        raise DamagedContent(
            f"version: version {version} is unknown; expected {_VERSIONS.first} to {_VERSIONS.last}", 0
        )
    try:
        message, _ = program(ProducerSnapshot, version).decode(view[_VERSION.size :])
    except DecodeError as error:
        raise DamagedContent(f"{error.path}: {error.reason}", _VERSION.size + error.offset) from None
    return message
