"""The records that a `read_committed` consumer returns, given batches and a list of aborted transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.control import control_type

__all__ = ["committed", "committed_in"]


class Aborted(Protocol):
    """An aborted transaction, in a log or in a response."""

    @property
    def producer_id(self) -> int:
        """The producer of the transaction."""
        ...

    @property
    def first_offset(self) -> int:
        """The offset of the transaction's first record."""
        ...


def committed_in(records: Buffer, aborted: Iterable[Aborted], offset: int = 0) -> tuple[list[tuple[int, bytes]], int]:
    """Return the offset and value of each record that the consumer returns, and the offset of the next fetch.

    Args:
        records: whole batches.
        aborted: the aborted transactions in the same response.
        offset: the requested offset.
    """
    upcoming = sorted(aborted, key=lambda entry: entry.first_offset)
    ignored: set[int] = set()
    found = []
    for batch in walk(records):
        while upcoming and upcoming[0].first_offset <= batch.last_offset:
            ignored.add(upcoming.pop(0).producer_id)
        if batch.is_control:
            for record in batch.records():
                if control_type(record).type == ControlRecordType.ABORT:
                    ignored.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in ignored):
            found += [
                (record.offset, bytes(record.value or b"")) for record in batch.records() if record.offset >= offset
            ]
        offset = batch.last_offset + 1
    return found, offset


def committed(log: PartitionLog, max_bytes: int = 2**20, offset: int = 0) -> Iterator[bytes]:
    """Yield the values that a consumer of committed records reads, in fetches of one batch or up to `max_bytes`."""
    while offset < log.last_stable_offset:
        size = max_bytes
        read = log.read(offset, size, at_least_one=True, is_committed=True)
        assert read.records is not None
        assert read.aborted is not None
        content = _whole(read.records.read())
        found, offset = committed_in(content, read.aborted, offset)
        for _, value in found:
            yield value


def _whole(content: bytes) -> bytes:
    """Return the complete batches at the start of the given bytes."""
    end = 0
    while end + 12 <= len(content):
        size = 12 + int.from_bytes(content[end + 8 : end + 12], "big")
        if end + size > len(content):
            break
        end += size
    return content[:end]
