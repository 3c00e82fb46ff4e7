"""Read the batches of a segment in order, no matter what else is in the file.

After an impossible header, reading continues at the next whole batch with a correct checksum. A batch with a wrong
checksum may also have a wrong length. If a sound batch or the end of the file follows it, the length is trusted, and
the batch is skipped; otherwise, the bytes within its length are first searched for sound batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire.commands.inspection.dumping.limits import BATCH_BYTES_MAX, COMPRESSED_PART
from kafkawire.commands.inspection.dumping.window import Window
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_COMPRESSION_MASK,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    MESSAGE_V0_HEADER,
)
from kafkawire.sdk.records import MessageBatch, RecordBatch
from kafkawire.sdk.records.java_integers import int64
from kafkawire.sdk.records.sound_batches import MIN_BYTES, SoundBatches, announced, has_right_crc, size_at

__all__ = ["Damage", "StoredBatch", "read_batches"]


class StoredBatch(NamedTuple):
    """A batch of any magic.

    Attributes:
        position: where the batch begins in the file.
        size: its size in bytes.
        magic: the magic of its format.
        header: the unpacked `BATCH_HEADER` of magic 2, or `MESSAGE_V0_HEADER`.
        is_valid: whether its checksum is correct.
        batch: the batch, for reading its records; None if it is too large to open.
    """

    position: int
    size: int
    magic: int
    header: tuple[int, ...]
    is_valid: bool
    batch: RecordBatch | MessageBatch | None

    @property
    def attributes(self) -> int:
        """The bits of the header: compression, timestamp type and others."""
        return self.header[5 if self.magic == BATCH_MAGIC else 4]

    @property
    def base_offset(self) -> int | None:
        """The first offset; None for a batch in an old format, whose header does not contain it."""
        return self.header[0] if self.magic == BATCH_MAGIC else None

    @property
    def last_offset(self) -> int:
        """The last offset."""
        return int64(self.header[0] + self.header[6]) if self.magic == BATCH_MAGIC else self.header[0]


class Damage(NamedTuple):
    """Bytes that are not a batch, or a batch with a wrong checksum that has already been yielded.

    Attributes:
        position: where the bytes begin.
        reason: the fault.
        passed_over: the number of skipped bytes; None if none are skipped.
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
    """Yield the batches and the damage of a segment; each batch can be used until the next one is requested.

    Args:
        window: the window of the file.
        position: where to begin.
        batch_bytes_max: larger batches are not opened.
        read: called regularly with the position, unless it is None.

    Raises:
        OSError: the file cannot be read.
    """
    search = SoundBatches(window)
    while position < window.end:
        if read is not None:
            read(position)
        size, reason = size_at(window, position)
        if position >= window.end:  # the file was truncated in the meantime
            return
        if reason and window.is_limited and _may_be_cut(window, position):
            return
        if reason:
            is_zero = position + BATCH_MAGIC_AT < window.end and window.is_zero_from(position)
            if is_zero:
                reason = "zeros up to the end of the file: preallocated, or lost in a crash"
            end = window.end if is_zero else search.next(position + 1)
            yield Damage(position, reason, max(end - position, 0))
            position = end
            continue
        batch = _batch_at(window, position, size, batch_bytes_max)
        if window.end < position + size:
            continue  # truncated in the middle of a batch, which is reported like any incomplete batch
        yield batch
        end = position + size
        if not batch.is_valid:
            end, reason = _after_wrong_crc(window, search, position, end)
            yield Damage(position, reason, max(end - position, 0) if end != position + size else None)
        position = end


def _after_wrong_crc(window: Window, search: SoundBatches, position: int, end: int) -> tuple[int, str]:
    """Return where to continue after a batch with a wrong checksum, and the reason to report.

    Args:
        window: the window of the file.
        search: the search in the window.
        position: where the batch begins.
        end: where it ends, if its length is correct.
    """
    reason = "the batch's checksum is wrong"
    if end == window.end or search.begins_at(end):
        return end, reason
    inside = search.next(position + 1, end)
    if inside < end:
        return inside, f"{reason}, and a valid batch begins inside it"
    if not size_at(window, end)[1] or _may_be_cut(window, end):
        return end, reason  # the next one is damaged too
    return search.next(end + 1), f"{reason}, and no batch begins where it ends"


def _may_be_cut(window: Window, position: int) -> bool:
    """Return whether the batch at a position may continue past the end."""
    head = window.at(position, BATCH_HEADER_BYTES)
    if len(head) <= BATCH_MAGIC_AT:
        return True
    size, _ = announced(head)
    return head[BATCH_MAGIC_AT] in MIN_BYTES and size > window.end - position


def _batch_at(window: Window, position: int, size: int, batch_bytes_max: int) -> StoredBatch:
    """Return the batch at a position, with the result of its checksum check."""
    head = bytes(window.at(position, BATCH_HEADER_BYTES))
    magic = head[BATCH_MAGIC_AT]
    header = (BATCH_HEADER if magic == BATCH_MAGIC else MESSAGE_V0_HEADER).unpack_from(head)
    if size > batch_bytes_max:
        return StoredBatch(position, size, magic, header, has_right_crc(window, position, size), None)
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
