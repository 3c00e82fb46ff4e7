"""The batches of a segment, one after the other, whatever else is in the file.

Where a header cannot be right, reading goes on at the next whole batch with a right checksum. A batch whose checksum is
wrong may have a wrong length, too: it is skipped by its size if a sound batch or the end of the file is there; if not,
it is searched for sound batches before its size is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from kafkawire.commands.dumping.limits import BATCH_BYTES_MAX, COMPRESSED_PART, WINDOW_BYTES
from kafkawire.commands.dumping.window import Window
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_CRC_COVERS_FROM,
    MESSAGE_V0_HEADER,
)
from kafkawire.sdk.records import MessageBatch, RecordBatch
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.java_integers import int64
from kafkawire.sdk.records.stored import CANDIDATE_BYTES, MAY_BEGIN, MIN_BYTES, SEARCH_BYTES_MAX, announced

__all__ = ["Damage", "StoredBatch", "read_batches"]


class StoredBatch(NamedTuple):
    """A batch of any magic.

    Attributes:
        position: where it begins in the file.
        size: in bytes.
        magic: of its format.
        header: as `BATCH_HEADER` of magic 2 or `MESSAGE_V0_HEADER` gives it.
        is_valid: whether its checksum is right.
        batch: to read its records; None if it is too large to open.
    """

    position: int
    size: int
    magic: int
    header: tuple[int, ...]
    is_valid: bool
    batch: RecordBatch | MessageBatch | None

    @property
    def attributes(self) -> int:
        """What the bits of the header say: compression, kind of timestamp and others."""
        return self.header[5 if self.magic == BATCH_MAGIC else 4]

    @property
    def base_offset(self) -> int | None:
        """The first offset; None for an old batch, which has it inside."""
        return self.header[0] if self.magic == BATCH_MAGIC else None

    @property
    def last_offset(self) -> int:
        """The last offset."""
        return int64(self.header[0] + self.header[6]) if self.magic == BATCH_MAGIC else self.header[0]


class Damage(NamedTuple):
    """Bytes that are no batch, or a batch with a wrong checksum, which then has been given before.

    Attributes:
        position: where they begin.
        reason: what is wrong.
        passed_over: how many bytes are left out; None if none are.
    """

    position: int
    reason: str
    passed_over: int | None


def read_batches(
    window: Window,
    position: int = 0,
    *,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    read: Callable[[int], object] | None = None,
) -> Iterator[StoredBatch | Damage]:
    """Yield what is in a segment; each batch can be used until the next one is asked for.

    Args:
        window: of the file.
        position: where to begin.
        batch_bytes_max: larger batches are not opened.
        read: told the position now and then; None if nobody wants to know.

    Raises:
        OSError: the file cannot be read.
    """
    search = _Search(window)
    while position < window.end:
        if read is not None:
            read(position)
        size, reason = _size_at(window, position)
        if position >= window.end:  # somebody cut the file meanwhile
            return
        if reason and window.is_limited and _may_be_cut(window, position):
            return
        if reason:
            is_zero = position + BATCH_MAGIC_AT < window.end and window.is_zero_from(position)
            if is_zero:
                reason = "zeros up to the end of the file: preallocated, or lost in a crash"
            end = window.end if is_zero else search.next_sound(position + 1)
            yield Damage(position, reason, max(end - position, 0))
            position = end
            continue
        batch = _batch_at(window, position, size, batch_bytes_max)
        if window.end < position + size:
            continue  # the same, in the midst of a batch: told as any batch that is cut
        yield batch
        end = position + size
        if not batch.is_valid:
            end, reason = _after_wrong_crc(window, search, position, end)
            yield Damage(position, reason, max(end - position, 0) if end != position + size else None)
        position = end


def _after_wrong_crc(window: Window, search: _Search, position: int, end: int) -> tuple[int, str]:
    """Return where to read on after a batch with a wrong checksum, and what to say of it.

    Args:
        window: of the file.
        search: its own.
        position: where the batch begins.
        end: where it ends, if its length is right.
    """
    reason = "its checksum is wrong"
    if end == window.end or search.is_sound(end):
        return end, reason
    inside = search.next_sound(position + 1, end)
    if inside < end:
        return inside, f"{reason}, and a sound batch begins inside it"
    if not _size_at(window, end)[1] or _may_be_cut(window, end):
        return end, reason  # the next one is damaged, too
    return search.next_sound(end + 1), f"{reason}, and no batch begins where it ends"


def _size_at(window: Window, position: int) -> tuple[int, str]:
    """Return the size of the batch at a position, and why there can be none."""
    head = window.at(position, BATCH_HEADER_BYTES)
    left = window.end - position
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


def _may_be_cut(window: Window, position: int) -> bool:
    """Return whether the batch at a position may be one that goes on behind the end."""
    head = window.at(position, BATCH_HEADER_BYTES)
    if len(head) <= BATCH_MAGIC_AT:
        return True
    size, _ = announced(head)
    return head[BATCH_MAGIC_AT] in MIN_BYTES and size > window.end - position


def _batch_at(window: Window, position: int, size: int, batch_bytes_max: int) -> StoredBatch:
    """Return the batch that is at a position, with its checksum compared."""
    head = bytes(window.at(position, BATCH_HEADER_BYTES))
    magic = head[BATCH_MAGIC_AT]
    header = (BATCH_HEADER if magic == BATCH_MAGIC else MESSAGE_V0_HEADER).unpack_from(head)
    if size > batch_bytes_max:
        return StoredBatch(position, size, magic, header, _has_right_crc(window, position, size, magic), None)
    view = window.at(position, size)
    if len(view) < size:
        return StoredBatch(position, size, magic, header, False, None)
    batch = RecordBatch(view, 0, batch_bytes_max) if magic == BATCH_MAGIC else MessageBatch(view, 0, batch_bytes_max)
    try:
        batch.check_crc()
    except DecodeError:
        return StoredBatch(position, size, magic, header, False, batch)
    found = StoredBatch(position, size, magic, header, True, batch)
    if size > batch_bytes_max // COMPRESSED_PART and found.attributes & BATCH_COMPRESSION_MASK:
        return found._replace(batch=None)
    return found


def _has_right_crc(window: Window, position: int, size: int, magic: int) -> bool:
    """Compare the checksum of a batch piece by piece."""
    is_old = magic != BATCH_MAGIC
    head = window.at(position, BATCH_HEADER_BYTES)
    if len(head) < (MESSAGE_V0_HEADER if is_old else BATCH_HEADER).size:  # somebody cut the file meanwhile
        return False
    expected: int = MESSAGE_V0_HEADER.unpack_from(head)[2] if is_old else BATCH_HEADER.unpack_from(head)[4]
    at = position + (MESSAGE_V0_CRC_COVERS_FROM if is_old else BATCH_CRC_COVERS_FROM)
    crc = 0
    while at < position + size:
        piece = window.at(at, min(WINDOW_BYTES, position + size - at))
        if not piece:
            return False
        crc = crc32(piece, crc) if is_old else crc32c(piece, crc)
        at += len(piece)
    return crc == expected


class _Search:
    """Finds where batches of magic 2 with a right checksum begin, with a bound on the work for one file."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._left_bytes = SEARCH_BYTES_MAX

    def next_sound(self, position: int, end: int | None = None) -> int:
        """Return where the next one begins, the end if there is none or the search took too long.

        Args:
            position: where to begin.
            end: where to stop; None for the end of the file.
        """
        window = self._window
        end = window.end if end is None else end
        while position + BATCH_HEADER_BYTES <= window.end and position < end:
            piece = bytes(window.at(position, WINDOW_BYTES))
            for found in MAY_BEGIN.finditer(piece):
                at = position + found.start()
                if at >= end or self._left_bytes < 0:
                    return end
                if self.is_sound(at):
                    return at
            position += max(len(piece) - BATCH_HEADER_BYTES + 1, 1)
        return end

    def is_sound(self, position: int) -> bool:
        """Return whether a batch with a right checksum begins at a position; False if the search took too long."""
        size, reason = _size_at(self._window, position)
        if reason:
            return False
        self._left_bytes -= CANDIDATE_BYTES
        if size > self._left_bytes:  # one length that lies must not end the search
            return False
        self._left_bytes -= size
        magic = self._window.at(position, BATCH_HEADER_BYTES)[BATCH_MAGIC_AT]
        return _has_right_crc(self._window, position, size, magic)
