"""The batches in stored bytes, and what between them is none: files, backups and columns are not read as a fetch is.

Where a batch cannot be right, the next place is looked for where one with a right checksum begins; a batch whose size
leads to another one, or to the end, is passed over by it. Nothing is left out without a `Damage` that says so, but two
ends of a file that a broker is writing: room that was preallocated, and a batch of which only the first part is there.

Source: `FileLogInputStream`, `LogSegment.recover` in Apache Kafka, which cut off what follows the first damage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from kafkawire.sdk.errors import DecodeError, PartialBatch
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
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.walk import Batch, walk

__all__ = [
    "BATCH_BYTES_MAX",
    "CANDIDATE_BYTES",
    "MAY_BEGIN",
    "MIN_BYTES",
    "SEARCH_BYTES_MAX",
    "Damage",
    "Memory",
    "Stored",
    "StoredBytes",
    "Window",
    "announced",
    "read_stored",
]

#: Read at a time: several batches, and little enough to stay in the processor's caches.
WINDOW_BYTES: Final = 1024 * 1024

#: The largest batch that is read: brokers take requests of 100 MiB at most.
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024

#: A search computes checksums over so many bytes at most: bytes that look like headers of long batches everywhere would
#: take quadratic time otherwise.
SEARCH_BYTES_MAX: Final = 1024 * 1024 * 1024

#: What a look at a place costs, in bytes of checksums.
CANDIDATE_BYTES: Final = 4096

#: Of the base offset, with which every batch begins.
_OFFSET_BYTES: Final = 8

#: The smallest batch or message of each magic.
MIN_BYTES: Final = {
    MESSAGE_V0_MAGIC: MESSAGE_V0_MIN_BYTES,
    MESSAGE_V1_MAGIC: MESSAGE_V1_MIN_BYTES,
    BATCH_MAGIC: BATCH_HEADER_BYTES,
}

#: What may begin a batch of magic 2: no sign in base offset, length, count of offsets; no unknown attributes.
MAY_BEGIN: Final = re.compile(rb"(?=[\0-\x7f].{7}[\0-\x7f].{7}\x02.{4}\0[\0-\x7f][\0-\x7f])", re.DOTALL)


class Damage(NamedTuple):
    """Bytes that are left out.

    Attributes:
        position: where they begin.
        size_bytes: how many they are.
        reason: what is wrong.
        base_offset: of the batch, if its header says so.
    """

    position: int
    size_bytes: int
    reason: str
    base_offset: int | None = None

    def __str__(self) -> str:
        offset = "" if self.base_offset is None else f", the batch of offset {self.base_offset}"
        return f"{self.size_bytes} bytes at {self.position}{offset}: {self.reason}"


class Stored(NamedTuple):
    """A batch with a right checksum.

    Attributes:
        position: where it begins.
        batch: it; its records can be read until the next one is asked for.
    """

    position: int
    batch: Batch


class StoredBytes(Protocol):
    """Bytes of which a part is looked at.

    Attributes:
        end: how many there are.
    """

    end: int

    def at(self, position: int, size: int) -> memoryview:
        """Return bytes: as many as asked for, or fewer where they end. What was returned before may change."""
        ...


class Memory:
    """Bytes in memory, as `StoredBytes`."""

    def __init__(self, buffer: Buffer) -> None:
        self._view = bytes_of(buffer)
        self.end = len(self._view)

    def at(self, position: int, size: int) -> memoryview:
        return self._view[position : position + size]


class Window:
    """A file of which a part is in memory, as `StoredBytes`. What it returned stays as it is.

    Args:
        read: returns bytes of the file, from a position on: as many as asked for, or fewer where it ends.
        end: how many bytes the file has.
        size_bytes: how many are read at a time; None for the usual.
    """

    def __init__(self, read: Callable[[int, int], Buffer], end: int, size_bytes: int | None = None) -> None:
        self.end = end
        self._read = read
        self._size_bytes = WINDOW_BYTES if size_bytes is None else size_bytes
        self._start = 0
        self._content = memoryview(b"")

    def at(self, position: int, size: int) -> memoryview:
        size = min(size, self.end - position)
        if size <= 0:
            return memoryview(b"")
        first = position - self._start
        if first < 0 or first + size > len(self._content):
            self._content = memoryview(b"")  # free before more is taken
            wanted = min(max(size, self._size_bytes), self.end - position)
            self._content = memoryview(self._read(position, wanted)).cast("B")
            self._start, first = position, 0
            if len(self._content) < wanted:
                self.end = position + len(self._content)  # somebody cut the file meanwhile
        return self._content[first : first + size]


def read_stored(
    source: StoredBytes,
    start: int = 0,
    end: int | None = None,
    *,
    is_growing: bool = False,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Stored | Damage]:
    """Yield what is in stored bytes, in order.

    Args:
        source: the bytes.
        start: where the first batch begins.
        end: batches that begin from there on are not wanted; None for all.
        is_growing: whether the bytes are a file that a broker may be writing: then zeros up to the end, and a batch of
            which only the beginning is there, are the end and no damage.
        limit: most bytes that the records of one batch may have when decompressed.

    Raises:
        OSError: a file cannot be read.
    """
    search = _Search(source)
    position = start
    while position < min(source.end, source.end if end is None else end):
        view = source.at(position, WINDOW_BYTES)
        view = _with_whole_batch(source, position, view)
        try:
            for batch in walk(view, limit=limit):
                yield Stored(position, batch)
                position += batch.size_in_bytes
                if end is not None and position >= end:
                    return
        except PartialBatch as partial:
            if position + len(view) - partial.offset < source.end and partial.offset:
                continue  # the window ends here, not the file
            reason = partial.reason
        except DecodeError as error:
            reason = f"{error.path}: {error.reason}"
        else:
            continue
        if is_growing and search.is_end(position):
            return
        damage = search.damage(position, reason)
        yield damage
        position += damage.size_bytes


def _with_whole_batch(source: StoredBytes, position: int, view: memoryview) -> memoryview:
    """Return more of the bytes where the first batch is larger than what was read."""
    if len(view) > BATCH_MAGIC_AT:
        size, magic = announced(view)
        if len(view) < size <= min(source.end - position, BATCH_BYTES_MAX) and magic in MIN_BYTES:
            return source.at(position, size)
    return view


def announced(head: memoryview) -> tuple[int, int]:
    """Return size in bytes and magic, as the header of any batch says.

    Args:
        head: the first 17 bytes of it at least.
    """
    _, length, _, magic, _ = MESSAGE_V0_HEADER.unpack(bytes(head[: BATCH_MAGIC_AT + 1]) + b"\0")
    return length + BATCH_BATCH_LENGTH_COUNTS_FROM, magic


class _Search:
    """Finds where it goes on behind damage, with a bound on the work."""

    def __init__(self, source: StoredBytes) -> None:
        self._source = source
        self._left_bytes = SEARCH_BYTES_MAX

    def damage(self, position: int, reason: str) -> Damage:
        """Return the damage that begins at a position: up to where the next batch begins, or all."""
        source = self._source
        head = source.at(position, BATCH_HEADER_BYTES)
        base_offset = None
        end = 0
        if len(head) > BATCH_MAGIC_AT:
            size, magic = announced(head)
            base_offset = int.from_bytes(head[:_OFFSET_BYTES], "big", signed=True) if magic == BATCH_MAGIC else None
            # Its own size leads on if another batch begins there, or nothing is left: a bit of it may be the damage.
            if size >= MESSAGE_V0_MIN_BYTES and self._is_sound(position + size):
                end = position + size
        if not end:
            end = self.next_sound(position + 1)
        return Damage(position, end - position, reason, base_offset)

    def is_end(self, position: int) -> bool:
        """Return whether a file that is being written ends here: with zeros, or inside the batch that begins here."""
        source = self._source
        if self._is_zero(position):
            return True
        head = source.at(position, BATCH_HEADER_BYTES)
        if len(head) <= BATCH_MAGIC_AT:
            return True
        size, magic = announced(head)
        left = source.end - position
        if magic not in MIN_BYTES or size <= left or self.next_sound(position + 1) < source.end:
            return False
        # What is there may be a whole batch whose length is damaged, which its checksum does not cover.
        return not (len(head) == BATCH_HEADER_BYTES and left <= BATCH_BYTES_MAX and self._has_right_crc(position, left))

    def next_sound(self, position: int) -> int:
        """Return where the next batch of magic 2 with a right checksum begins; the end if none is found in time."""
        source = self._source
        while position + BATCH_HEADER_BYTES <= source.end:
            piece = bytes(source.at(position, WINDOW_BYTES))
            for found in MAY_BEGIN.finditer(piece):
                at = position + found.start()
                size, _ = announced(source.at(at, BATCH_HEADER_BYTES))
                if not BATCH_HEADER_BYTES <= size <= min(source.end - at, BATCH_BYTES_MAX):
                    continue
                self._left_bytes -= size + CANDIDATE_BYTES
                if self._left_bytes < 0:
                    return source.end
                if self._has_right_crc(at, size):
                    return at
            position += max(len(piece) - BATCH_HEADER_BYTES + 1, 1)
        return source.end

    def _is_sound(self, position: int) -> bool:
        """Return whether a batch with a right checksum begins at a position, or the bytes end there."""
        if position == self._source.end:
            return True
        head = self._source.at(position, BATCH_HEADER_BYTES)
        if position > self._source.end or len(head) <= BATCH_MAGIC_AT:
            return False
        size, magic = announced(head)
        fits = magic in MIN_BYTES and MIN_BYTES[magic] <= size <= min(self._source.end - position, BATCH_BYTES_MAX)
        return fits and self._has_right_crc(position, size)

    def _has_right_crc(self, position: int, size: int) -> bool:
        """Compare the checksum of a batch."""
        content = self._source.at(position, size)
        if len(content) < size:  # somebody cut the file meanwhile
            return False
        if content[BATCH_MAGIC_AT] != BATCH_MAGIC:
            return bool(crc32(content[MESSAGE_V0_CRC_COVERS_FROM:]) == MESSAGE_V0_HEADER.unpack_from(content)[2])
        return bool(crc32c(content[BATCH_CRC_COVERS_FROM:]) == BATCH_HEADER.unpack_from(content)[4])

    def _is_zero(self, position: int) -> bool:
        """Return whether nothing but zeros follows."""
        while position < self._source.end:
            piece = bytes(self._source.at(position, WINDOW_BYTES))
            if piece.count(0) != len(piece):
                return False
            position += len(piece)
        return True
