"""The requests of leaders and of the group coordinator to the share coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kafkawire.sdk.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kafkawire.sdk.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from kafkawire.sdk.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kafkawire.sdk.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import SHARE_GROUP_STATE_TOPIC
from tests.reference_broker.apis.share_bench import ShareBench

__all__ = ["UNKNOWN_ID", "StateBench", "told"]

#: An id that no topic has.
UNKNOWN_ID = bytes(15) + b"\xff"


class StateBench(ShareBench):
    """A broker with a topic of two partitions, and the topic of the share coordinator."""

    def begin_states(self) -> None:
        """Create the topics."""
        self.create(partitions=2)
        self.core.topics.ensure(SHARE_GROUP_STATE_TOPIC, lambda made: None)
        self.pass_turns()

    def answered(self, request: Message, version: int) -> Any:
        """Send a request; return the results of its partitions in each topic."""
        answer = self.ask(request, version)
        if isinstance(answer, DelayedOperation):
            self.pass_turns()
            assert answer.response is not None, "the response is still delayed"
            answer = self.through(answer.response, version)
        return [(topic.topic_id, part) for topic in answer.results for part in topic.partitions]

    def initialize(
        self, *numbers: int, epoch: int = 0, start: int = 0, topic_id: bytes | None = None, group_id: str = "g"
    ) -> Any:
        """Begin states."""
        Part = InitializeShareGroupStateRequest.PartitionData
        parts = [Part(number, epoch, start) for number in numbers]
        topic = InitializeShareGroupStateRequest.InitializeStateData(topic_id or self.topic_id, parts)
        return self.answered(InitializeShareGroupStateRequest(group_id, [topic]), 0)

    def read(self, *numbers: int, leader_epoch: int = 0, topic_id: bytes | None = None, group_id: str = "g") -> Any:
        """Read states."""
        parts = [ReadShareGroupStateRequest.PartitionData(number, leader_epoch) for number in numbers]
        topic = ReadShareGroupStateRequest.ReadStateData(topic_id or self.topic_id, parts)
        return self.answered(ReadShareGroupStateRequest(group_id, [topic]), 0)

    def write(
        self,
        number: int,
        batches: Sequence[tuple[int, int, int, int]] = (),
        *,
        epoch: int = 0,
        leader_epoch: int = 0,
        start: int = -1,
        complete: int = 0,
        version: int = 1,
    ) -> Any:
        """Write a state; the batches are given by their offsets, delivery state and delivery count."""
        Batch = WriteShareGroupStateRequest.StateBatch
        part = WriteShareGroupStateRequest.PartitionData(number, epoch, leader_epoch, start)
        part.delivery_complete_count = complete if version else -1
        part.state_batches = [Batch(*batch) for batch in batches]
        topic = WriteShareGroupStateRequest.WriteStateData(self.topic_id, [part])
        return self.answered(WriteShareGroupStateRequest("g", [topic]), version)

    def delete(self, *numbers: int, topic_id: bytes | None = None, group_id: str = "g") -> Any:
        """Delete states."""
        parts = [DeleteShareGroupStateRequest.PartitionData(number) for number in numbers]
        topic = DeleteShareGroupStateRequest.DeleteStateData(topic_id or self.topic_id, parts)
        return self.answered(DeleteShareGroupStateRequest(group_id, [topic]), 0)

    def summary(self, *numbers: int, version: int = 1, topic_id: bytes | None = None) -> Any:
        """Read summaries."""
        parts = [ReadShareGroupStateSummaryRequest.PartitionData(number, 0) for number in numbers]
        topic = ReadShareGroupStateSummaryRequest.ReadStateSummaryData(topic_id or self.topic_id, parts)
        return self.answered(ReadShareGroupStateSummaryRequest("g", [topic]), version)


def told(results: Any) -> list[tuple[int, int, str | None]]:
    """Return the partitions with their errors."""
    return [(part.partition, part.error_code, part.error_message) for _, part in results]
