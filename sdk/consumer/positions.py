"""The positions of a consumer in its partitions.

Three offsets move through a partition: the next one to fetch, the next one for the application (`position`), and the
next one to commit (`finished`). A record is finished when the application asks for the next one, so that work cut short
by an error or a rebalance is done again. Pure state; the fetcher and the consumer move the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp

__all__ = ["RESET_TIMESTAMPS", "PartitionPosition", "Positions"]

#: Reset policies that name a place in the log.
RESET_TIMESTAMPS = {"earliest": OffsetTimestamp.EARLIEST, "latest": OffsetTimestamp.LATEST}

#: Shared by all partitions: one that was revoked and assigned again must not accept what was fetched for it before.
_epochs = count()


class PartitionPosition:
    """The state of one partition; every offset is that of the next record.

    Attributes:
        position: next offset for the application; None until the committed offset is looked up, or reset.
        finished: next offset to commit: everything before it is finished.
        fetch_offset: next offset to fetch.
        reset: the policy for looking up `position`; None for the committed offset.
        paused: whether fetching and handing out are suspended.
        epoch: changes with each seek; what was fetched in an earlier epoch is dropped.
        high_watermark: the first offset that was not readable at the last fetch; -1 if not known.
        queued_bytes: bytes fetched but not handed out.
        committed: the last offset committed from here, -1 if none.
    """

    __slots__ = (
        "committed",
        "fetch_offset",
        "finished",
        "high_watermark",
        "paused",
        "position",
        "queued_bytes",
        "reset",
        "epoch",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        self.finished = -1
        self.fetch_offset = -1
        self.reset: str | None = None
        self.paused = False
        self.epoch = next(_epochs)
        self.high_watermark = -1
        self.queued_bytes = 0
        self.committed = -1

    def seek(self, offset: int) -> None:
        """Continue from `offset`."""
        self.position = self.finished = self.fetch_offset = offset
        self.reset = None
        self.epoch = next(_epochs)
        self.queued_bytes = 0

    def rewind(self) -> None:
        """Drop what was fetched but not handed out; it is fetched again when needed."""
        if self.position is not None:
            self.fetch_offset = self.position
        self.epoch = next(_epochs)
        self.queued_bytes = 0

    def pause(self) -> None:
        """Suspend fetching and handing out."""
        self.paused = True
        self.rewind()

    def look_up(self, policy: str | None) -> None:
        """Have the position looked up again, by a reset policy or, if None, from the committed offset first."""
        self.position = None
        self.reset = policy
        self.epoch = next(_epochs)
        self.queued_bytes = 0


class Positions:
    """The positions of all assigned partitions."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionPosition] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def __contains__(self, partition: object) -> bool:
        return partition in self._partitions

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those already assigned keep their position."""
        former = self._partitions
        self._partitions = {each: former.get(each) or PartitionPosition() for each in sorted(partitions)}
        for partition in former.keys() - self._partitions.keys():
            former[partition].epoch = next(_epochs)

    def get(self, partition: TopicPartition) -> PartitionPosition | None:
        """Return the state of a partition, None if it is not assigned."""
        return self._partitions.get(partition)

    def __getitem__(self, partition: TopicPartition) -> PartitionPosition:
        state = self._partitions.get(partition)
        if state is None:
            raise LocalProtocolError(f"partition {partition} is not assigned to this consumer")
        return state

    def without_position(self) -> list[TopicPartition]:
        """Return the partitions whose position must be looked up before they can be fetched."""
        return [each for each, state in self._partitions.items() if state.position is None]

    def finish_all(self) -> None:
        """Mark everything that was handed out as finished."""
        for state in self._partitions.values():
            if state.position is not None:
                state.finished = state.position

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record what was committed."""
        for partition, offset in offsets.items():
            state = self._partitions.get(partition)
            if state is not None:
                state.committed = offset

    def to_commit(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the offsets that are finished but not committed yet; None for all partitions."""
        chosen = self._partitions if partitions is None else partitions
        return {
            each: state.finished
            for each in chosen
            if (state := self._partitions.get(each)) is not None and 0 <= state.finished != state.committed
        }
