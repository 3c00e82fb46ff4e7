"""Record batches as a consumer hands them out, decoded on demand as records or as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.records import Batch, MessageBatch, Record
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ConsumerBatch"]


class ConsumerBatch:
    """One record batch of one partition.

    Attributes:
        partition: the partition that the batch is from.
        batch: the record batch with its header.
        start_offset: the first offset to hand out, which may lie inside the batch.
    """

    __slots__ = ("_end_offset", "_records", "batch", "partition", "start_offset")

    def __init__(
        self, partition: TopicPartition, batch: Batch, start_offset: int, end_offset: int | None = None
    ) -> None:
        self.partition = partition
        self.batch = batch
        self.start_offset = start_offset
        self._end_offset = end_offset
        self._records: list[Record] | None = None

    def __repr__(self) -> str:
        first = f"from offset {self.start_offset} " * (self.start_offset > 0)
        return f"<ConsumerBatch of {self.partition}, {first}to {self.next_offset - 1}: {self.batch!r}>"

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last offset."""
        end = self.batch.next_offset
        return end if self._end_offset is None else min(end, self._end_offset)

    @property
    def records(self) -> list[Record]:
        """The records, decoded once.

        Raises:
            DecodeError: a record is damaged.
        """
        if self._records is None:
            records = self.batch.records(*self.partition)
            if self.is_cut:
                records = [record for record in records if self.start_offset <= record.offset < self.next_offset]
            self._records = records
        return self._records

    def to_arrow(self, *, headers: bool = False) -> pyarrow.RecordBatch:
        """Return the records as Arrow columns, without creating a Python object per record; needs pyarrow.

        Args:
            headers: whether to add a column of headers.

        Returns:
            One row per record, with the columns of `kafkawire.sdk.consumer.arrow.to_arrow`.

        Raises:
            DecodeError: a record is damaged.
        """
        from kafkawire.sdk.consumer.arrow import to_arrow  # pyarrow is optional

        return to_arrow([self], headers=headers)

    @property
    def is_cut(self) -> bool:
        """Whether the batch has records that must not be handed out."""
        end = self._end_offset
        return self.batch.base_offset < self.start_offset or (end is not None and end < self.batch.next_offset)

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that wrote the batch; -1 in old formats, which do not store it."""
        return NO_PARTITION_LEADER_EPOCH if isinstance(self.batch, MessageBatch) else self.batch.partition_leader_epoch
