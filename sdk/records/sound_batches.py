"""Find the next batch with a correct checksum in stored bytes, to continue reading after damage.

`read_stored` uses the search to report every skipped byte, and `kafkawire dump` to show damage. Only batches of magic 2
are searched for, since the checksum of an older message covers too little to distinguish the message from other bytes.
After a batch whose size the caller trusts, a batch of any magic is accepted.
"""

from __future__ import annotations

import re
from typing import Final, Protocol
from zlib import crc32

from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_CRC_COVERS_FROM,
    MESSAGE_V0_HEADER,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MIN_BYTES,
    MESSAGE_V1_MAGIC,
    MESSAGE_V1_MIN_BYTES,
)
from kafkawire.sdk.records.crc import crc32c

__all__ = ["MIN_BYTES", "WINDOW_BYTES", "SoundBatches", "StoredBytes", "announced", "has_right_crc", "size_at"]

#: Number of bytes read at a time: enough for several batches, but few enough to stay in the processor's caches.
WINDOW_BYTES: Final = 1024 * 1024

#: Maximum number of bytes over which a search computes checksums without finding a batch. Without this limit, bytes
#: full of apparent headers of long batches would take quadratic time.
SEARCH_BYTES_MAX: Final = 1024 * 1024 * 1024

#: The cost of checking one position, expressed as a number of bytes of checksum computation.
_CANDIDATE_BYTES: Final = 4096

#: The smallest batch or message of each magic.
MIN_BYTES: Final = {
    MESSAGE_V0_MAGIC: MESSAGE_V0_MIN_BYTES,
    MESSAGE_V1_MAGIC: MESSAGE_V1_MIN_BYTES,
    BATCH_MAGIC: BATCH_HEADER_BYTES,
}

#: Matches the beginning of a batch of magic 2: base offset, length and offset delta are not negative, and no attributes
#: are unknown.
_MAY_BEGIN: Final = re.compile(rb"(?=[\0-\x7f].{7}[\0-\x7f].{7}\x02.{4}\0[\0-\x7f][\0-\x7f])", re.DOTALL)


class StoredBytes(Protocol):
    """Bytes that are read in parts.

    Attributes:
        end: the number of bytes.
    """

    end: int

    def at(self, position: int, size: int) -> memoryview:
        """Return the requested bytes, or fewer at the end. This may change the bytes returned by earlier calls."""
        ...


class SoundBatches:
    """Finds batches with correct checksums, and limits the work for this.

    Args:
        source: the bytes to search.
    """

    def __init__(self, source: StoredBytes) -> None:
        self._source = source
        self._left_bytes = SEARCH_BYTES_MAX

    def next(self, position: int, end: int | None = None) -> int:
        """Return the position of the next batch of magic 2, or the end if there is none or the search took too long.

        Args:
            position: the first position to search.
            end: the position to stop at; None for the end of the bytes.

        Raises:
            OSError: a file cannot be read.
        """
        source = self._source
        end = source.end if end is None else end
        while position + BATCH_HEADER_BYTES <= source.end and position < end:
            piece = bytes(source.at(position, WINDOW_BYTES))
            for found in _MAY_BEGIN.finditer(piece):
                at = position + found.start()
                if at >= end or self._left_bytes < 0:
                    return end
                if self.begins_at(at):
                    return at
            position += max(len(piece) - BATCH_HEADER_BYTES + 1, 1)
        return end

    def begins_at(self, position: int) -> bool:
        """Return whether a batch of any magic begins at a position; False if the search took too long.

        Raises:
            OSError: a file cannot be read.
        """
        size, reason = size_at(self._source, position)
        if reason:
            return False
        may_look = size <= self._left_bytes  # a single wrong length must not end the search
        if may_look and has_right_crc(self._source, position, size):
            return True  # not counted, because this batch is read next
        self._left_bytes -= _CANDIDATE_BYTES + (size if may_look else 0)
        return False


def announced(head: memoryview) -> tuple[int, int]:
    """Return the size in bytes and the magic that the header of a batch states.

    Args:
        head: at least the first 17 bytes of the batch.
    """
    _, length, _, magic, _ = MESSAGE_V0_HEADER.unpack(bytes(head[: BATCH_MAGIC_AT + 1]) + b"\0")
    return length + BATCH_BATCH_LENGTH_COUNTS_FROM, magic


def size_at(source: StoredBytes, position: int) -> tuple[int, str]:
    """Return the size of the batch at a position, or the reason why no batch can begin there.

    Raises:
        OSError: a file cannot be read.
    """
    head = source.at(position, BATCH_HEADER_BYTES)
    left = source.end - position
    if len(head) <= BATCH_MAGIC_AT:
        return 0, f"{left} bytes are too few for a batch: the file was cut"
    size, magic = announced(head)
    if magic not in MIN_BYTES:
        return 0, f"magic {magic} is unknown; expected {min(MIN_BYTES)} to {max(MIN_BYTES)}"
    if size < MIN_BYTES[magic]:
        return 0, f"the batch has {size} bytes, but one of magic {magic} has at least {MIN_BYTES[magic]}"
    if size > left:
        return 0, f"the batch has {size} bytes, but {left} are left: the file was cut, or the length is wrong"
    return size, ""


def has_right_crc(source: StoredBytes, position: int, size: int) -> bool:
    """Compare the checksum of a batch with its bytes, piece by piece.

    Args:
        source: the bytes with the batch.
        position: where the batch begins.
        size: the size of the batch in bytes.

    Raises:
        OSError: a file cannot be read.
    """
    head = source.at(position, BATCH_HEADER_BYTES)
    is_old = len(head) > BATCH_MAGIC_AT and head[BATCH_MAGIC_AT] != BATCH_MAGIC
    if len(head) < (MESSAGE_V0_HEADER if is_old else BATCH_HEADER).size:  # the file has just been truncated
        return False
    expected: int = MESSAGE_V0_HEADER.unpack_from(head)[2] if is_old else BATCH_HEADER.unpack_from(head)[4]
    at = position + (MESSAGE_V0_CRC_COVERS_FROM if is_old else BATCH_CRC_COVERS_FROM)
    crc = 0
    while at < position + size:
        piece = source.at(at, min(WINDOW_BYTES, position + size - at))
        if not piece:
            return False
        crc = crc32(piece, crc) if is_old else crc32c(piece, crc)
        at += len(piece)
    return crc == expected
