"""Find the partition whose next batch is too large for any response, to let the others continue without it.

A broker sends the whole of the first batch that it finds, however large the batch is (KIP-74). If this makes a response
larger than `max_frame_bytes`, the response cannot be read and does not reveal which partition the batch is from.
Therefore the partitions of that broker are fetched in halves, then in quarters, and so on, until the one with the large
batch is alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["OversizedBatchSearch"]

Fetch = TypeVar("Fetch")


class OversizedBatchSearch:
    """Groups of one broker's partitions, to be fetched in turn; usually there are none, and one fetch is enough."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: list[Sequence[TopicPartition]] = []

    @property
    def is_active(self) -> bool:
        """Whether there are groups."""
        return bool(self._groups)

    def group(self, wanted: Mapping[TopicPartition, Fetch]) -> Mapping[TopicPartition, Fetch]:
        """Return the partitions to fetch next: the first group, or all wanted partitions if there are no groups."""
        while self._groups:
            group = {each: wanted[each] for each in self._groups[0] if each in wanted}
            if group:
                return group
            del self._groups[0]
        return wanted

    def taken(self) -> None:
        """Record that a response arrived, and move on to the next group."""
        del self._groups[:1]

    def too_large(self, wanted: Mapping[TopicPartition, Fetch]) -> TopicPartition | None:
        """Record that a response was too large to be accepted.

        Returns:
            The partition, if it was alone in its group. If just one partition is wanted, it first becomes a group and
            is tried again.
        """
        if not self._groups:
            self._groups = _halves(list(wanted))
            return None
        group = [each for each in self._groups.pop(0) if each in wanted]
        if len(group) == 1:
            return group[0]
        self._groups[:0] = _halves(group)
        return None


def _halves(partitions: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    middle = len(partitions) // 2
    return [half for half in (partitions[:middle], partitions[middle:]) if half]
