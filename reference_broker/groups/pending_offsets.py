"""Offsets that producers commit in transactions; they take effect once a marker commits them.

The order of the offsets' records decides, not that of the markers: an offset committed after a pending one stays in
effect, even if the transaction is committed later. Until the transaction ends, the partition remains unstable.

Source: `OffsetMetadataManager` in Apache Kafka; KIP-98, KIP-447.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kafkawire.reference_broker.groups.records import Committed
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["PendingOffset", "PendingOffsets"]


class PendingOffset(NamedTuple):
    """An offset in an open transaction.

    Attributes:
        group_id: the group's id.
        partition: the partition.
        entry: the offset to commit.
        record_offset: the offset of its record in the log.
    """

    group_id: str
    partition: Partition
    entry: Committed
    record_offset: int


class PendingOffsets:
    """The offsets in open transactions."""

    def __init__(self) -> None:
        #: Pending offsets, keyed by producer id, then by group and partition.
        self._by_producer: dict[int, dict[tuple[str, Partition], PendingOffset]] = {}
        #: Pending offsets that a later commit has overtaken: their producer ids, groups and partitions.
        self._superseded: set[tuple[int, str, Partition]] = set()
        #: The producers with pending offsets, keyed by group and partition.
        self._producers: dict[str, dict[Partition, set[int]]] = {}

    def of_group(self, group_id: str) -> Collection[Partition]:
        """Return the partitions for which a group has pending offsets."""
        return self._producers.get(group_id, {}).keys()

    def of_topic(self, topic: str) -> Iterator[PendingOffset]:
        """Yield all pending offsets of a topic."""
        for pending in self._by_producer.values():
            for offset in pending.values():
                if offset.partition[0] == topic:
                    yield offset

    def put(self, producer_id: int, offset: PendingOffset) -> None:
        """Add a pending offset."""
        group_id, partition = offset.group_id, offset.partition
        self._by_producer.setdefault(producer_id, {})[group_id, partition] = offset
        self._superseded.discard((producer_id, group_id, partition))
        self._producers.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def committed(self, group_id: str, partition: Partition, record_offset: int) -> None:
        """Record that an offset whose record is at `record_offset` has taken effect."""
        for producer_id in self._producers.get(group_id, {}).get(partition, ()):
            if self._by_producer[producer_id][group_id, partition].record_offset < record_offset:
                self._superseded.add((producer_id, group_id, partition))

    def remove(self, group_id: str, partition: Partition) -> None:
        """Remove the pending offsets for a partition, because its committed offset is deleted."""
        for producer_id in list(self._producers.get(group_id, {}).get(partition, ())):
            del self._by_producer[producer_id][group_id, partition]
            self._forget(producer_id, group_id, partition)

    def end(self, producer_id: int, is_commit: bool) -> list[PendingOffset]:
        """End a transaction; return the offsets that take effect, in the order in which they were written."""
        counting = []
        for offset in self._by_producer.pop(producer_id, {}).values():
            if is_commit and (producer_id, offset.group_id, offset.partition) not in self._superseded:
                counting.append(offset)
            self._forget(producer_id, offset.group_id, offset.partition)
        return counting

    def _forget(self, producer_id: int, group_id: str, partition: Partition) -> None:
        self._superseded.discard((producer_id, group_id, partition))
        partitions = self._producers[group_id]
        partitions[partition].discard(producer_id)
        if not partitions[partition]:
            del partitions[partition]
            if not partitions:
                del self._producers[group_id]
