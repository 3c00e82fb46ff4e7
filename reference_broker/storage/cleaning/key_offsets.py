"""The latest offset of each key in the dirty part of a log, in bounded memory.

Source: `OffsetMap`, `SkimpyOffsetMap` in Apache Kafka, which stores only hashes. This map hashes only long keys.
"""

from __future__ import annotations

from hashlib import blake2b

from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["KeyOffsets"]

#: Longer keys are stored as hashes, which are longer than any key stored directly.
_KEY_BYTES_MAX = 32
_HASH_BYTES = 33

#: Size of an entry without its key: its share of the hash table, which may be half empty, and two objects.
_ENTRY_BYTES = 160

_UNKNOWN = -1


class KeyOffsets:
    """Offsets, keyed by record key.

    Args:
        limit_bytes: approximate memory limit; one key always fits.

    Attributes:
        end_offset: all records from the start of reading up to this offset are included.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.end_offset = 0
        self._offsets: dict[bytes, int] = {}
        self._left_bytes = limit_bytes

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: Buffer, offset: int) -> bool:
        """Add the offset of a key, which is higher than all earlier offsets; return False if there is no room."""
        stored = _stored(key)
        if stored not in self._offsets:
            size = _ENTRY_BYTES + len(stored)
            if size > self._left_bytes and self._offsets:
                return False
            self._left_bytes -= size
        self._offsets[stored] = offset
        self.end_offset = offset + 1
        return True

    def is_latest(self, key: Buffer, offset: int) -> bool:
        """Return whether no later offset of a key is known."""
        return offset >= self._offsets.get(_stored(key), _UNKNOWN)


def _stored(key: Buffer) -> bytes:
    return bytes(key) if len(key) <= _KEY_BYTES_MAX else blake2b(key, digest_size=_HASH_BYTES).digest()
