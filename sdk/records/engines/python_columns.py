"""Read records as columns in Python, as the extension's `read_columns` does: from batches of any magic or engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines.shared_columns import (
    INLINE,
    INLINE_BYTES,
    INT64,
    POINTER,
    Columns,
    OffsetRange,
    ReadableBatch,
    ViewColumn,
)
from kafkawire.sdk.records.record import Headers, Record

__all__ = ["headers_of", "read_columns"]


def read_columns(
    batches: Sequence[ReadableBatch], ranges: Sequence[OffsetRange], with_headers: bool
) -> tuple[Columns, list[int]]:
    """Make columns from records; keys and values are copied into one buffer."""
    offsets, timestamps = bytearray(), bytearray()
    data = bytearray()
    keys, values = _Views(data), _Views(data)
    counts = []
    for batch, wanted in zip(batches, ranges, strict=True):
        before = len(offsets)
        for record in _chosen(batch, wanted):
            offsets += INT64.pack(record.offset)
            timestamps += INT64.pack(record.timestamp_ms)
            keys.add(record.key)
            values.add(record.value)
        counts.append((len(offsets) - before) // INT64.size)
    buffers: tuple[Buffer, ...] = (bytes(data),)
    headers = headers_of(batches, ranges) if with_headers else None
    key_column, value_column = keys.column(buffers), values.column(buffers)
    return Columns(sum(counts), bytes(offsets), bytes(timestamps), key_column, value_column, headers), counts


def headers_of(batches: Sequence[ReadableBatch], ranges: Sequence[OffsetRange]) -> tuple[Headers, ...]:
    """Return the headers of the wanted records."""
    pairs = zip(batches, ranges, strict=True)
    return tuple(record.headers for batch, wanted in pairs for record in _chosen(batch, wanted))


def _chosen(batch: ReadableBatch, wanted: OffsetRange) -> Iterator[Record]:
    if wanted is None:
        return batch.views()
    return (record for record in batch.views() if wanted[0] <= record.offset < wanted[1])


class _Views:
    """A growing view column.

    Args:
        data: the buffer that its views point into.
    """

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self._views = bytearray()
        self._is_valid: list[bool] = []

    def add(self, content: bytes | None) -> None:
        """Add a byte string, or None for a null."""
        self._is_valid.append(content is not None)
        if content is None or len(content) <= INLINE_BYTES:
            self._views += INLINE.pack(len(content or b""), content or b"")
            return
        self._views += POINTER.pack(len(content), content, 0, len(self._data))  # the first four bytes of the content
        self._data += content

    def column(self, buffers: tuple[Buffer, ...]) -> ViewColumn:
        """Return the column."""
        validity = bytearray((len(self._is_valid) + 7) // 8)
        for index, is_valid in enumerate(self._is_valid):
            validity[index // 8] |= is_valid << index % 8
        nulls = self._is_valid.count(False)
        return ViewColumn(bytes(self._views), bytes(validity) if nulls else None, buffers, nulls)
