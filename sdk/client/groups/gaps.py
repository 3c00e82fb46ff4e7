"""Which offset may be committed when records are finished in any order: the one before which none is unfinished.

For programs that process the records of a partition in parallel. Offsets have holes (compaction, control records), so
only records that were handed out count. The user's side begins and finishes records, in one thread; `to_commit` may be
called from another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.errors import LocalProtocolError

__all__ = ["MAX_UNFINISHED", "Gaps"]

#: Records of one partition between the first unfinished one and the last: beyond this, one of them is stuck, and after
#: a restart all would come again.
MAX_UNFINISHED = 100_000


class _Gap:
    """The records of one partition from the first unfinished one on: leader epoch, and whether finished."""

    __slots__ = ("committed", "finished", "records")

    def __init__(self) -> None:
        self.records: OrderedDict[int, tuple[int, bool]] = OrderedDict()
        self.finished: OffsetAndMetadata | None = None
        self.committed: OffsetAndMetadata | None = None


class Gaps:
    """Track the records that were handed out."""

    def __init__(self) -> None:
        self._gaps: dict[TopicPartition, _Gap] = {}

    def began(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Note that a record was handed out; the offsets of a partition come in order.

        Raises:
            LocalProtocolError: `MAX_UNFINISHED` records wait for one that is not finished.
        """
        gap = self._gaps.get(partition)
        if gap is None:
            gap = self._gaps[partition] = _Gap()
        if len(gap.records) >= MAX_UNFINISHED:
            first = next(iter(gap.records))
            raise LocalProtocolError(
                f"{partition}: {MAX_UNFINISHED} records wait for offset {first} to be finished, that is the limit"
            )
        gap.records[offset] = leader_epoch, False

    def finished(self, partition: TopicPartition, offset: int) -> None:
        """Note that a record is finished; does nothing if its partition was given up meanwhile."""
        gap = self._gaps.get(partition)
        if gap is None or offset not in gap.records:
            return
        records = gap.records
        records[offset] = records[offset][0], True
        last = None
        while records:
            first, (epoch, done) = next(iter(records.items()))
            if not done:
                break
            del records[first]
            last = OffsetAndMetadata(first + 1, leader_epoch=epoch)
        if last is not None:
            gap.finished = last

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that were given up, or whose position was moved."""
        for partition in partitions:
            self._gaps.pop(partition, None)

    def unfinished(self, partition: TopicPartition) -> int:
        """Return how many records stand between the first unfinished one and the last handed out."""
        gap = self._gaps.get(partition)
        return 0 if gap is None else len(gap.records)

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what may be committed and is not, of all partitions or of some."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition in list(self._gaps) if partitions is None else partitions:
            gap = self._gaps.get(partition)
            if gap is not None and gap.finished is not None and gap.finished != gap.committed:
                offsets[partition] = gap.finished
        return offsets

    def committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Note what was committed."""
        for partition, offset in offsets.items():
            gap = self._gaps.get(partition)
            if gap is not None:
                gap.committed = offset
