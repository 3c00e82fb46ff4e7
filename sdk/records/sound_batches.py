"""Where in stored bytes a batch with a right checksum begins: how reading goes on behind damage.

`read_stored` and `kafkawire dump` search with it: the one to leave nothing out without a word, the other to show what
is damaged. Only batches of magic 2 are searched for, as the checksum of an older message covers too little to tell one
from other bytes; behind a size that somebody believes, a batch of any magic is looked at.
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

#: Read at a time: several batches, and little enough to stay in the processor's caches.
WINDOW_BYTES: Final = 1024 * 1024

#: A search computes checksums in vain over so many bytes at most: bytes that look like headers of long batches
#: everywhere would take quadratic time otherwise.
SEARCH_BYTES_MAX: Final = 1024 * 1024 * 1024

#: What a look at a place costs, in bytes of checksums.
_CANDIDATE_BYTES: Final = 4096

#: The smallest batch or message of each magic.
MIN_BYTES: Final = {
    MESSAGE_V0_MAGIC: MESSAGE_V0_MIN_BYTES,
    MESSAGE_V1_MAGIC: MESSAGE_V1_MIN_BYTES,
    BATCH_MAGIC: BATCH_HEADER_BYTES,
}

#: What may begin a batch of magic 2: no sign in base offset, length, count of offsets; no unknown attributes.
_MAY_BEGIN: Final = re.compile(rb"(?=[\0-\x7f].{7}[\0-\x7f].{7}\x02.{4}\0[\0-\x7f][\0-\x7f])", re.DOTALL)


class StoredBytes(Protocol):
    """Bytes of which a part is looked at.

    Attributes:
        end: how many there are.
    """

    end: int

    def at(self, position: int, size: int) -> memoryview:
        """Return bytes: as many as asked for, or fewer where they end. What was returned before may change."""
        ...


class SoundBatches:
    """Finds batches with a right checksum, with a bound on the work.

    Args:
        source: where they are.
    """

    def __init__(self, source: StoredBytes) -> None:
        self._source = source
        self._left_bytes = SEARCH_BYTES_MAX

    def next(self, position: int, end: int | None = None) -> int:
        """Return where the next one of magic 2 begins, the end if there is none or the search took too long.

        Args:
            position: where to begin.
            end: where to stop; None for the end of the bytes.

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
        """Return whether one of any magic begins at a position; False if the search took too long.

        Raises:
            OSError: a file cannot be read.
        """
        size, reason = size_at(self._source, position)
        if reason:
            return False
        may_look = size <= self._left_bytes  # one length that lies must not end the search
        if may_look and has_right_crc(self._source, position, size):
            return True  # at no cost: it is read next
        self._left_bytes -= _CANDIDATE_BYTES + (size if may_look else 0)
        return False


def announced(head: memoryview) -> tuple[int, int]:
    """Return size in bytes and magic, as the header of any batch says.

    Args:
        head: the first 17 bytes of it at least.
    """
    _, length, _, magic, _ = MESSAGE_V0_HEADER.unpack(bytes(head[: BATCH_MAGIC_AT + 1]) + b"\0")
    return length + BATCH_BATCH_LENGTH_COUNTS_FROM, magic


def size_at(source: StoredBytes, position: int) -> tuple[int, str]:
    """Return the size of the batch at a position, and why there can be none.

    Raises:
        OSError: a file cannot be read.
    """
    head = source.at(position, BATCH_HEADER_BYTES)
    left = source.end - position
    if len(head) <= BATCH_MAGIC_AT:
        return 0, f"{left} bytes, too few for a batch: the file was cut"
    size, magic = announced(head)
    if magic not in MIN_BYTES:
        return 0, f"magic {magic} is not known, {min(MIN_BYTES)} to {max(MIN_BYTES)} are"
    if size < MIN_BYTES[magic]:
        return 0, f"a batch of {size} bytes, magic {magic} has {MIN_BYTES[magic]} at least"
    if size > left:
        return 0, f"a batch of {size} bytes, {left} are left: the file was cut, or the length is wrong"
    return size, ""


def has_right_crc(source: StoredBytes, position: int, size: int) -> bool:
    """Compare the checksum of a batch with its bytes, piece by piece.

    Args:
        source: where it is.
        position: where it begins.
        size: how many bytes it has.

    Raises:
        OSError: a file cannot be read.
    """
    head = source.at(position, BATCH_HEADER_BYTES)
    is_old = len(head) > BATCH_MAGIC_AT and head[BATCH_MAGIC_AT] != BATCH_MAGIC
    if len(head) < (MESSAGE_V0_HEADER if is_old else BATCH_HEADER).size:  # somebody cut the file meanwhile
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
