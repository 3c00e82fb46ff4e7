"""The administrative operations in a plan: `Step.name` names the method that carries one out."""

from __future__ import annotations

from kafkawire.reference_broker.simulation.checkers import LOSSY, Checkers
from kafkawire.reference_broker.simulation.client import Ask, Client, Script, ask
from kafkawire.reference_broker.simulation.cluster import BROKERS
from kafkawire.sdk.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import CONTROLLER, Node
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Operations"]

_TIMEOUT_MS = 2_000

#: The topic to create, extend and delete.
_TOPIC = "other"


class Operations:
    """The operations in one run; their errors do not matter, since anything may be broken at the time.

    Args:
        client: sends the requests.
        checkers: are told about deleted records.
        partitions: the partitions to reassign.
        trimmed: the partitions whose records are deleted.
    """

    def __init__(
        self,
        client: Client,
        checkers: Checkers,
        partitions: tuple[TopicPartition, ...],
        trimmed: tuple[TopicPartition, ...],
    ) -> None:
        self._client = client
        self._checkers = checkers
        self._partitions = partitions
        self._trimmed = trimmed

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

    def move_leader(self, number: int, broker_id: int) -> Script:
        """Make a broker the preferred leader of a partition, and elect it if it is in sync."""
        others = [each for each in BROKERS if each != broker_id]
        yield from self.reassign(number, broker_id, *others)
        yield from self.elect()

    def delete_records(self, number: int, percent: int) -> Script:
        """Delete a part of the committed records of a partition."""
        partition = self._trimmed[number]
        client, checkers = self._client, self._checkers
        leader = client.leader(partition)
        if leader is None:
            return
        topic_id = client.metadata.last_topic_id(partition.topic)
        offset = checkers.end_of(topic_id, partition.partition) * percent // 100
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition.partition, offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(partition.topic, [part])
        checkers.deletion_asked(partition, offset)
        response = yield from ask(Ask(Node(leader), DeleteRecordsRequest([topic], _TIMEOUT_MS)), DeleteRecordsResponse)
        if response is not None:
            result = response.topics[0].partitions[0]
            if result.error_code == ErrorCode.NONE:
                checkers.deleted(topic_id, partition.partition, result.low_watermark)

    def elect_unclean(self) -> Script:
        """Elect a leader of a partition that has none, even one that is not in sync, where that is allowed."""
        partition = ElectLeadersRequest.TopicPartitions(LOSSY.topic, [LOSSY.partition])
        request = ElectLeadersRequest(ElectionType.UNCLEAN, [partition], _TIMEOUT_MS)
        yield from ask(Ask(CONTROLLER, request), ElectLeadersResponse)

    def elect(self) -> Script:
        """Elect the preferred leaders of all partitions."""
        request = ElectLeadersRequest(0, None, _TIMEOUT_MS)
        yield from ask(Ask(CONTROLLER, request), ElectLeadersResponse)
