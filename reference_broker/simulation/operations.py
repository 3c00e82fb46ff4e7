"""The administrative operations in a plan: `Step.name` names the method that carries one out."""

from __future__ import annotations

from kafkawire.reference_broker.simulation.client import Ask, Client, Script, ask
from kafkawire.sdk.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkawire.sdk.routing.call import CONTROLLER
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Operations"]

_TIMEOUT_MS = 2_000

#: The topic to create, extend and delete.
_TOPIC = "other"


class Operations:
    """The operations in one run; their errors do not matter, since anything may be broken at the time.

    Args:
        client: sends the requests.
        partitions: the partitions to reassign.
    """

    def __init__(self, client: Client, partitions: tuple[TopicPartition, ...]) -> None:
        self._client = client
        self._partitions = partitions

    def create_topic(self) -> Script:
        """Create a topic."""
        request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(_TOPIC, 2, 3)], _TIMEOUT_MS)
        yield from ask(Ask(CONTROLLER, request), CreateTopicsResponse)

    def extend_topic(self) -> Script:
        """Add a partition to a topic."""
        topic = CreatePartitionsRequest.CreatePartitionsTopic(_TOPIC, 3, None)
        yield from ask(Ask(CONTROLLER, CreatePartitionsRequest([topic], _TIMEOUT_MS)), CreatePartitionsResponse)

    def delete_topic(self) -> Script:
        """Delete a topic."""
        request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(_TOPIC)], [_TOPIC], _TIMEOUT_MS)
        yield from ask(Ask(CONTROLLER, request), DeleteTopicsResponse)

    def reassign(self, number: int, *replicas: int) -> Script:
        """Assign other replicas to a partition."""
        partition = self._partitions[number % len(self._partitions)]
        part = AlterPartitionReassignmentsRequest.ReassignablePartition(partition.partition, list(replicas))
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(partition.topic, [part])
        request = AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=[topic])
        yield from ask(Ask(CONTROLLER, request), AlterPartitionReassignmentsResponse)

    def elect(self) -> Script:
        """Elect the preferred leaders of all partitions."""
        request = ElectLeadersRequest(0, None, _TIMEOUT_MS)
        yield from ask(Ask(CONTROLLER, request), ElectLeadersResponse)
