"""Keep the last record of each key in Python, as the extension's `LatestRecords` does."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.compression import Compression
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.walk import walk

__all__ = ["LatestRecords", "Stored"]

#: The last offset of a record's batch, and the record's value.
Stored = tuple[int, bytes | None]


class LatestRecords:
    """The last record of each key; iteration yields keys and stored records, in write order.

    Adding a record during an iteration makes the iteration raise a `RuntimeError`.

    Attributes:
        end_offset: the offset after the last added batch, 0 before the first.
    """

    def __init__(self) -> None:
        self.end_offset = 0
        self._stored: dict[bytes, Stored] = {}
        self._changes = 0

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[tuple[bytes, Stored]]:
        changes = self._changes
        for entry in self._stored.items():
            yield entry
            if changes != self._changes:
                raise RuntimeError("a record was noted while the records were read")

    def get(self, key: bytes) -> Stored | None:
        """Return the last record of a key, or None if the key is unknown."""
        return self._stored.get(key)

    def put(self, key: bytes, offset: int, value: bytes | None) -> None:
        """Add a record that was written after all the others."""
        self._changes += 1
        self._stored.pop(key, None)
        self._stored[key] = offset, value

    def add(self, buffer: Buffer, start: int = 0, deleted: list[bytes] | None = None) -> int:
        """Add the records of whole batches, in order, up to the first batch that is not plain.

        A plain batch is of magic 2, undamaged, uncompressed, and neither a control batch nor part of a transaction.
        Records without a key are ignored.

        Args:
            buffer: the batches.
            start: where the first batch begins.
            deleted: receives the keys of records without a value.

        Returns:
            The position where it stopped: the end of the buffer, or the start of the first batch that is not plain or
            not whole.

        Raises:
            ValueError: `start` is outside the buffer.
        """
        view = bytes_of(buffer)
        if not 0 <= start <= len(view):
            raise ValueError(f"position {start} is outside the {len(view)} bytes")
        try:
            for batch in walk(view[start:]):
                if isinstance(batch, MessageBatch) or batch.is_control or batch.is_transactional:
                    break
                if batch.compression != Compression.NONE:
                    break
                for record in batch.records():
                    if record.key is not None:
                        self.put(bytes(record.key), batch.last_offset, record.value)
                        if deleted is not None and record.value is None:
                            deleted.append(bytes(record.key))
                self.end_offset = batch.next_offset
                start += batch.size_in_bytes
        except DecodeError:
            pass  # the caller reads the batch at which this stops, and gets the error
        return start
