"""AlterPartitionReassignments: move partitions to other brokers of a ZooKeeper-based cluster (KIP-455).

0: the only version in Apache Kafka 3. 1, which is not served: whether the replication factor may change.

As in Apache Kafka, the response does not wait for the moves, and the request's timeout has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.refusals import Refusal
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["handle"]

Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse

_VERSIONS = VersionRange(
    APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS].versions.first,
    since(AlterPartitionReassignmentsRequest, "allow_replication_factor_change") - 1,
)


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _VERSIONS, scope=Scope.CLUSTER)
def handle(
    call: Call, request: AlterPartitionReassignmentsRequest, *, authorizer: Authorizer, controller: AskedController
) -> Work[AlterPartitionReassignmentsResponse | DelayedOperation]:
    """Handle AlterPartitionReassignments; the response waits until the assignments are stored.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.ALTER)
    wanted: dict[TopicPartition, Sequence[int] | None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            # If a partition is named more than once, the last entry wins.
            replicas = partition.replicas
            wanted[TopicPartition(topic.name, partition.partition_index)] = (
                None if replicas is None else tuple(replicas)
            )
            yield

    def ask(give: Callable[[AlterPartitionReassignmentsResponse], None]) -> None:
        controller.alter_reassignments(wanted, lambda results: give(_response(results)))

    return given_later(ask)


def _response(results: Mapping[TopicPartition, Refusal] | Refusal) -> AlterPartitionReassignmentsResponse:
    if isinstance(results, Refusal):
        return AlterPartitionReassignmentsResponse(error_code=results.error_code, error_message=results.message)
    topics: dict[str, list[Partition]] = {}
    for partition, result in results.items():
        topics.setdefault(partition.topic, []).append(Partition(partition.partition, *result))
    return AlterPartitionReassignmentsResponse(responses=[Topic(*each) for each in topics.items()])
