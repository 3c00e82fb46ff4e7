"""Read the batches in stored bytes (files, backups, columns), and report any damage between them.

After a damaged batch, reading continues at the next batch with a correct checksum; if the damaged batch's stated size
leads to another batch or to the end, exactly that many bytes are skipped. All skipped bytes are reported as `Damage`,
with two exceptions at the end of a file that a broker is writing: preallocated space and a partial batch.

Source: `FileLogInputStream`, `LogSegment.recover` in Apache Kafka, which discard everything after the first damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_HEADER_BYTES,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MIN_BYTES,
    MESSAGE_V1_HEADER_BYTES,
    MESSAGE_V1_MAGIC,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.sound_batches import (
    MIN_BYTES,
    WINDOW_BYTES,
    SoundBatches,
    StoredBytes,
    announced,
    has_right_crc,
)
from kafkawire.sdk.records.walk import Batch, walk

__all__ = ["BATCH_BYTES_MAX", "ZEROS", "Damage", "Memory", "Stored", "Window", "read_stored"]

#: Size of the largest batch that is read: brokers accept requests of at most 100 MiB.
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024

#: Size of the base offset, with which every batch begins.
_OFFSET_BYTES: Final = 8

#: Size of the fields before the key in an old message; key and value are each preceded by a length.
_KEY_AT: Final = {MESSAGE_V0_MAGIC: MESSAGE_V0_HEADER_BYTES, MESSAGE_V1_MAGIC: MESSAGE_V1_HEADER_BYTES}
_LENGTH_BYTES: Final = 4

#: Maximum number of zeros considered to be part of a batch's end; they look the same as preallocated space after it.
_LAST_ZEROS_MAX: Final = 4096
_ZERO: Final = b"\0"


#: The reasons why the batches in a growing file end before its last byte.
ZEROS: Final = "zeros up to the end"
_CUT: Final = "the data ends inside a batch"


class Damage(NamedTuple):
    """Skipped bytes.

    Attributes:
        position: where the bytes begin.
        size_bytes: the number of bytes.
        reason: the fault.
        base_offset: the base offset of the damaged batch, if its header is readable.
    """

    position: int
    size_bytes: int
    reason: str
    base_offset: int | None = None

    def __str__(self) -> str:
        offset = "" if self.base_offset is None else f", the batch of offset {self.base_offset}"
        return f"{self.size_bytes} bytes at {self.position}{offset}: {self.reason}"


class Stored(NamedTuple):
    """A batch with a correct checksum.

    Attributes:
        position: where the batch begins.
        batch: the batch; its records can be read until the next one is requested.
    """

    position: int
    batch: Batch


class Memory:
    """Bytes in memory, as `StoredBytes`."""

    def __init__(self, buffer: Buffer) -> None:
        self._view = bytes_of(buffer)
        self.end = len(self._view)

    def at(self, position: int, size: int) -> memoryview:
        return self._view[position : position + size]


class Window:
    """A file of which a part is in memory, as `StoredBytes`. Bytes that were returned do not change.

    Args:
        read: returns bytes of the file starting at a position: as many as requested, or fewer at the end.
        end: the size of the file in bytes.
        size_bytes: the number of bytes read at a time; None for the default.
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
            self._content = memoryview(b"")  # free this memory before allocating more
            wanted = min(max(size, self._size_bytes), self.end - position)
            self._content = memoryview(self._read(position, wanted)).cast("B")
            self._start, first = position, 0
            if len(self._content) < wanted:
                self.end = position + len(self._content)  # the file was truncated in the meantime
        return self._content[first : first + size]


def read_stored(
    source: StoredBytes,
    start: int = 0,
    end: int | None = None,
    *,
    is_growing: bool = False,
    limit: int = MAX_DECOMPRESSED_BYTES,
    take: Callable[[memoryview, int], int] | None = None,
    search: SoundBatches | None = None,
    on_end: Callable[[Damage], object] | None = None,
) -> Iterator[Stored | Damage]:
    """Yield the batches and the damage in stored bytes, in order.

    Args:
        source: the bytes.
        start: where the first batch begins.
        end: the position before which a batch must begin to be yielded; None to read all.
        is_growing: whether a broker may be writing the file; if so, trailing zeros and a partial batch are treated as
            the end, not as damage.
        limit: the maximum size of one batch's decompressed records, in bytes.
        take: called before each batch with the bytes starting there and their position. It returns the number of bytes
            that it has handled: whole batches with correct checksums that begin before `end`. These are not yielded.
        search: the search in the source, for callers that read the source in several calls, which then share the limit
            on the work.
        on_end: called at the end of a growing file with the reason, `ZEROS` or another.

    Raises:
        OSError: a file cannot be read.
    """
    search = search or SoundBatches(source)
    position = start
    while position < min(source.end, source.end if end is None else end):
        view = _with_whole_batch(source, position, source.at(position, WINDOW_BYTES))
        view_start, view_end = position, position + len(view)
        try:
            while position < view_end:
                if take is not None:
                    position += take(view[position - view_start :], position)
                    if end is not None and position >= end:
                        return
                for batch in walk(view[position - view_start :], limit=limit):
                    yield Stored(position, batch)
                    position += batch.size_in_bytes
                    if end is not None and position >= end:
                        return
                    if take is not None:
                        break
        except PartialBatch as partial:
            if view_start < position and view_end < source.end:
                continue  # only the window ends here, not the file
            reason = partial.reason
        except DecodeError as error:
            reason = f"{error.path}: {error.reason}"
        else:
            continue
        if is_growing and _is_end(source, search, position):
            if on_end is not None:
                on_end(_end(source, position))
            return
        damage = _damage(source, search, position, reason)
        yield damage
        position += damage.size_bytes


def _with_whole_batch(source: StoredBytes, position: int, view: memoryview) -> memoryview:
    """Return more of the bytes if the first batch is larger than the part that was read."""
    if len(view) > BATCH_MAGIC_AT:
        size, magic = announced(view)
        if len(view) < size <= min(source.end - position, BATCH_BYTES_MAX) and magic in MIN_BYTES:
            return source.at(position, size)
    return view


def _damage(source: StoredBytes, search: SoundBatches, position: int, reason: str) -> Damage:
    """Return the damage that begins at a position and extends to the next batch or to the end."""
    head = source.at(position, BATCH_HEADER_BYTES)
    base_offset = None
    end = 0
    if len(head) > BATCH_MAGIC_AT:
        size, magic = announced(head)
        base_offset = int.from_bytes(head[:_OFFSET_BYTES], "big", signed=True) if magic == BATCH_MAGIC else None
        whole = _message_size(source, position, magic)
        # A damaged batch is skipped by its own size if another batch or the end follows: the fault may be a single bit
        # inside it. An old message can also be skipped using the sizes of its key and value.
        for after in (position + each for each in (size, whole) if each >= MESSAGE_V0_MIN_BYTES):
            if not end and (after == source.end or search.begins_at(after)):
                end = after
    if not end:
        end = search.next(position + 1)
    return Damage(position, end - position, reason, base_offset)


def _is_end(source: StoredBytes, search: SoundBatches, position: int) -> bool:
    """Return whether a growing file ends here: in zeros, or inside the batch that begins here."""
    if _is_zero(source, position):
        return True
    head = source.at(position, BATCH_HEADER_BYTES)
    if len(head) <= BATCH_MAGIC_AT:
        return True
    size, magic = announced(head)
    if magic not in MIN_BYTES or size <= source.end - position or search.next(position + 1) < source.end:
        return False
    # These bytes may be a whole batch with a damaged length field, which the checksum does not cover.
    if magic == BATCH_MAGIC:
        return not _is_whole(source, position)
    whole = _message_size(source, position, magic)
    return not whole or not (has_right_crc(source, position, whole) or search.begins_at(position + whole))


def _end(source: StoredBytes, position: int) -> Damage:
    """Return a description of how a growing file ends after its last batch."""
    head = source.at(position, BATCH_HEADER_BYTES)
    size_bytes = source.end - position
    if _is_zero(source, position):
        return Damage(position, size_bytes, ZEROS)
    has_offset = len(head) > BATCH_MAGIC_AT and head[BATCH_MAGIC_AT] == BATCH_MAGIC
    return Damage(position, size_bytes, _CUT, int.from_bytes(head[:_OFFSET_BYTES], "big") if has_offset else None)


def _is_zero(source: StoredBytes, position: int) -> bool:
    """Return whether only zeros follow."""
    while position < source.end:
        piece = bytes(source.at(position, WINDOW_BYTES))
        if piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True


def _is_whole(source: StoredBytes, position: int) -> bool:
    """Return whether the rest is a batch with a correct checksum, with or without the zeros at its end."""
    end = _content_end(source, position)
    if end - position < BATCH_HEADER_BYTES or end - position > BATCH_BYTES_MAX:
        return False
    expected: int = BATCH_HEADER.unpack(source.at(position, BATCH_HEADER_BYTES))[4]
    crc = 0
    for at in range(position + BATCH_CRC_COVERS_FROM, end, WINDOW_BYTES):
        crc = crc32c(source.at(at, min(WINDOW_BYTES, end - at)), crc)
    for _ in range(min(source.end - end, _LAST_ZEROS_MAX)):
        if crc == expected:
            return True
        crc = crc32c(_ZERO, crc)
    return crc == expected


def _content_end(source: StoredBytes, position: int) -> int:
    """Return the start of the trailing zeros; `position` if only zeros follow."""
    end = position
    while position < source.end:
        piece = bytes(source.at(position, WINDOW_BYTES))
        if content := piece.rstrip(_ZERO):
            end = position + len(content)
        position += len(piece)
    return end


def _message_size(source: StoredBytes, position: int, magic: int) -> int:
    """Return an old message's size, from the sizes of its key and value; 0 if it does not end within the bytes."""
    size = _KEY_AT.get(magic)
    if size is None:
        return 0
    for _ in ("key", "value"):
        head = source.at(position + size, _LENGTH_BYTES)
        if len(head) < _LENGTH_BYTES:
            return 0
        size += _LENGTH_BYTES + max(int.from_bytes(head, "big", signed=True), 0)
    return size if position + size <= source.end else 0
