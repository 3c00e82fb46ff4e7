"""Where a consumer stands in each of its partitions.

Three marks move through a partition: what is fetched next, what the application gets next (`position`), and what it has
finished (`finished`): a record is finished when the next one is asked for, so that work cut short by an error or a
rebalance is done again. Pure state; the fetcher and the consumer move the marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp

__all__ = ["RESET_TIMESTAMPS", "PartitionPosition", "Positions"]

#: Reset policies that are a place in the log.
RESET_TIMESTAMPS = {"earliest": OffsetTimestamp.EARLIEST, "latest": OffsetTimestamp.LATEST}

#: One for all partitions: one that was given up and came back must not take what was fetched for it before.
_turns = count()


class PartitionPosition:
    """The marks of one partition, all offsets of the record that comes next.

    Attributes:
        position: what the application gets next; None until a committed offset was looked up, or reset.
        finished: what it has not finished yet.
        fetch_offset: what is asked of the leader next.
        reset: the policy by which `position` is looked up once, None if none is needed.
        paused: whether nothing is fetched or handed out.
        turn: differs after each jump; what was fetched before a jump is dropped.
        high_watermark: the first offset that is not readable yet, as of the last fetch; -1 if not known.
        queued_bytes: fetched, but not handed out.
        committed: what was committed last from here, -1 if nothing.
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
        "turn",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        self.finished = -1
        self.fetch_offset = -1
        self.reset: str | None = None
        self.paused = False
        self.turn = next(_turns)
        self.high_watermark = -1
        self.queued_bytes = 0
        self.committed = -1

    def jump(self, offset: int) -> None:
        """Go on from `offset`."""
        self.position = self.finished = self.fetch_offset = offset
        self.reset = None
        self.turn = next(_turns)
        self.queued_bytes = 0

    def rewind(self) -> None:
        """Drop what was fetched and not handed out; it is fetched again when it is wanted."""
        if self.position is not None:
            self.fetch_offset = self.position
        self.turn = next(_turns)
        self.queued_bytes = 0

    def pause(self) -> None:
        """Hand out nothing more, and fetch nothing."""
        self.paused = True
        self.rewind()

    def look_up(self, policy: str | None) -> None:
        """Have the position looked up again, by a reset policy or, if None, from the committed offset."""
        self.position = None
        self.reset = policy
        self.turn = next(_turns)
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
        """The partitions that are read."""
        return frozenset(self._partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that were read already keep their position."""
        former = self._partitions
        self._partitions = {each: former.get(each) or PartitionPosition() for each in sorted(partitions)}
        for partition in former.keys() - self._partitions.keys():
            former[partition].turn = next(_turns)

    def get(self, partition: TopicPartition) -> PartitionPosition | None:
        """Return the marks of a partition, None if it is not assigned."""
        return self._partitions.get(partition)

    def __getitem__(self, partition: TopicPartition) -> PartitionPosition:
        state = self._partitions.get(partition)
        if state is None:
            raise LocalProtocolError(f"partition {partition} is not assigned to this consumer")
        return state

    def without_position(self) -> list[TopicPartition]:
        """Return the partitions whose position must be looked up before they can be read."""
        return [each for each, state in self._partitions.items() if state.position is None]

    def finish_all(self) -> None:
        """Take everything that was handed out for finished."""
        for state in self._partitions.values():
            if state.position is not None:
                state.finished = state.position

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Learn what was committed."""
        for partition, offset in offsets.items():
            state = self._partitions.get(partition)
            if state is not None:
                state.committed = offset

    def to_commit(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return what is finished and not committed yet."""
        chosen = self._partitions if partitions is None else partitions
        return {
            each: state.finished
            for each in chosen
            if (state := self._partitions.get(each)) is not None and 0 <= state.finished != state.committed
        }
