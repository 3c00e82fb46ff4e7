"""What the members of a group have been promised: who owns which partition in a generation, and which offsets are kept.

The offsets committed for a partition increase, whichever member commits them, so an offset that is read must be between
the last one that was acknowledged and the last one that was sent. A commit of a member that has been replaced must be
refused: otherwise, the offset would go back.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any, Final

from kafkawire.reference_broker.simulation.checkers import Violation
from kafkawire.reference_broker.simulation.client import Ask, Pause, ask
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID, CoordinatorType
from kafkawire.sdk.routing.call import Coordinator
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["OFFSETS_VERSION", "Group"]

#: The last version of OffsetCommit and OffsetFetch with topic names.
OFFSETS_VERSION: Final = 9


class Group:
    """A group, as its members see it.

    Args:
        name: the id of the group.
        partitions: the partitions to share.

    Attributes:
        name, partitions: see above.
        coordinator: the target of the members' requests.
        generation: the highest generation in which a member got its partitions.
    """

    def __init__(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        self.name = name
        self.partitions = partitions
        self.coordinator = Coordinator(CoordinatorType.GROUP, name)
        self.generation = UNKNOWN_GENERATION_ID
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        self._sent = dict.fromkeys(partitions, 0)
        self._acknowledged = dict.fromkeys(partitions, 0)

    def assigned(self, generation: int, member_id: str, partitions: Collection[TopicPartition]) -> None:
        """Note that a member got its partitions.

        Raises:
            Violation: another member has one of the partitions in the same generation.
        """
        self.generation = max(self.generation, generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member_id)
            if owner != member_id:
                raise Violation(
                    f"group {self.name}: {member_id} owns {partition} in generation {generation}, and so does {owner}"
                )

    def next_offset(self, partition: TopicPartition) -> int:
        """Return the offset to commit next."""
        self._sent[partition] += 1
        return self._sent[partition]

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that a commit was acknowledged."""
        for partition, offset in offsets.items():
            self._acknowledged[partition] = max(self._acknowledged[partition], offset)

    def read(self, partitions: Collection[TopicPartition]) -> Generator[Ask | Pause, Any, None]:
        """Read the committed offsets of some partitions.

        Raises:
            Violation: an offset is lower than one that was acknowledged, or higher than all that were sent.
        """
        lowest = dict(self._acknowledged)
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                topic, partition_indexes=[each.partition for each in partitions if each.topic == topic]
            )
            for topic in sorted({each.topic for each in partitions})
        ]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequest.OffsetFetchRequestGroup(self.name, topics=topics)], require_stable=True
        )
        response = yield from ask(Ask(self.coordinator, request, OFFSETS_VERSION), OffsetFetchResponse)
        if response is None or response.groups[0].error_code:
            return
        for topic in response.groups[0].topics:
            for part in topic.partitions:
                if part.error_code:
                    continue
                partition, offset = TopicPartition(topic.name, part.partition_index), max(part.committed_offset, 0)
                if not lowest[partition] <= offset <= self._sent[partition]:
                    raise Violation(
                        f"group {self.name}: offset {offset} is committed for {partition}, but {lowest[partition]} "
                        f"was acknowledged and {self._sent[partition]} was the last one sent"
                    )
                self.committed({partition: offset})
