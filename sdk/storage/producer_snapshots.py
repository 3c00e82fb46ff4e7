"""Producer snapshots: the `<offset>.snapshot` files, with the producers of the log before that offset.

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

#: What a snapshot says of a producer; -1 stands for an offset that there is not.
ProducerEntry = ProducerSnapshot.ProducerEntry

_VERSIONS: Final = ProducerSnapshot.SCHEMA.versions
_VERSION: Final = Struct(">h")

#: The checksum is of what follows it; it is the first field.
_CRC_BYTES: Final = Struct(f">{FIXED['uint32'].format}").size


def parse_snapshot(data: Buffer, on_damage: OnDamage = refuse) -> Sequence[ProducerEntry]:
    """Return what a snapshot says of each producer.

    Args:
        data: the content of the file.
        on_damage: told of a wrong checksum, with which the entries are returned, and of anything else, when there are
            none.

    Raises:
        DamagedContent: the version is not known, or it is damaged, and `on_damage` raises that.
    """
    view = memoryview(data)
    try:
        message = _decoded(view)
    except DamagedContent as damage:
        on_damage(damage)
        return ()
    computed = crc32c(view[_VERSION.size + _CRC_BYTES :])
    if computed != message.crc:
        reason = f"crc: checksum {message.crc:#010x}, the content has {computed:#010x}"
        on_damage(DamagedContent(reason, _VERSION.size))
    return message.producer_entries


def snapshot_content(entries: Sequence[ProducerEntry]) -> bytes:
    """Return the content of a snapshot."""
    codec = program(ProducerSnapshot, _VERSIONS.last)
    message = ProducerSnapshot(producer_entries=entries)
    message.crc = crc32c(codec.encode(message)[_CRC_BYTES:])
    return _VERSION.pack(_VERSIONS.last) + codec.encode(message)


def _decoded(view: memoryview) -> ProducerSnapshot:
    """Return what is behind the version.

    Raises:
        DamagedContent: the version is not known, or what follows is something else.
    """
    if len(view) < _VERSION.size:
        raise DamagedContent(f"version: a snapshot of {len(view)} bytes", 0)
    (version,) = _VERSION.unpack_from(view)
    if not _VERSIONS.first <= version <= _VERSIONS.last:
        raise DamagedContent(f"version: version {version}, {_VERSIONS.first} to {_VERSIONS.last} are known", 0)
    try:
        message, _ = program(ProducerSnapshot, version).decode(view[_VERSION.size :])
    except DecodeError as error:
        raise DamagedContent(f"{error.path}: {error.reason}", _VERSION.size + error.offset) from None
    return message
