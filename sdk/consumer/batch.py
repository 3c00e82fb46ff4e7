"""Record batches as a consumer hands them out: decoded on demand, as records or as columns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import PartialBatch
from kafkawire.sdk.records import Batch, Record, RecordBatch, walk

if TYPE_CHECKING:
    import pyarrow

    from kafkawire.sdk.consumer.fetcher import Fetched

__all__ = ["ConsumerBatch", "batches"]


class ConsumerBatch:
    """One record batch of one partition.

    Attributes:
        partition: where it is from.
        batch: the batch itself, with its header.
        start_offset: the first offset to hand out: a fetch may begin inside a batch.
    """

    __slots__ = ("_records", "batch", "partition", "start_offset")

    def __init__(self, partition: TopicPartition, batch: Batch, start_offset: int) -> None:
        self.partition = partition
        self.batch = batch
        self.start_offset = start_offset
        self._records: list[Record] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def next_offset(self) -> int:
        """The offset after the last one of the batch."""
        return self.batch.next_offset

    @property
    def records(self) -> list[Record]:
        """The records, decoded once.

        Raises:
            DecodeError: a record is damaged.
        """
        if self._records is None:
            records = self.batch.records(*self.partition)
            if self.batch.base_offset < self.start_offset:
                records = [record for record in records if record.offset >= self.start_offset]
            self._records = records
        return self._records

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the records as Arrow columns, without a Python object for each; needs pyarrow.

        Returns:
            One row per record: offset, timestamp, key, value.

        Raises:
            DecodeError: a record is damaged.
        """
        columns = self.batch.to_arrow()
        if self.batch.base_offset >= self.start_offset:
            return columns
        return columns.slice(bisect_left(columns.column("offset").to_pylist(), self.start_offset))


def batches(fetched: Fetched, check_crcs: bool) -> Iterator[ConsumerBatch]:
    """Yield the batches of a fetch, without control batches and batches before the requested offset.

    A partial batch at the end is left out too: the next fetch begins with it.

    Raises:
        DecodeError: a size, a magic number or a checksum is wrong; earlier batches were yielded.
    """
    try:
        for batch in walk(fetched.records, check_crcs):
            is_control = isinstance(batch, RecordBatch) and batch.is_control
            if not is_control and batch.next_offset > fetched.offset:
                yield ConsumerBatch(fetched.partition, batch, fetched.offset)
    except PartialBatch:
        return
