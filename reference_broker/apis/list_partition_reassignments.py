"""ListPartitionReassignments: list the partitions that are being moved (KIP-455); a standalone broker moves none.

0: the only version.

As in Apache Kafka, partitions that are unknown or not being moved are left out, and the request's timeout has no
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.refusals import Refusal
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["handle", "handle_in_cluster"]

Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
Partition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


@serves(ApiKey.LIST_PARTITION_REASSIGNMENTS, scope=Scope.ALONE)
def handle(
    call: Call, request: ListPartitionReassignmentsRequest, *, authorizer: Authorizer
) -> ListPartitionReassignmentsResponse:
    """Handle ListPartitionReassignments for a standalone broker.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.DESCRIBE)
    return ListPartitionReassignmentsResponse(error_message=None)


@serves(ApiKey.LIST_PARTITION_REASSIGNMENTS, scope=Scope.CLUSTER)
def handle_in_cluster(
    call: Call, request: ListPartitionReassignmentsRequest, *, authorizer: Authorizer, controller: AskedController
) -> Work[ListPartitionReassignmentsResponse | DelayedOperation]:
    """Handle ListPartitionReassignments in a cluster.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.DESCRIBE)
    wanted: dict[TopicPartition, None] = {}
    for topic in request.topics or ():
        for number in topic.partition_indexes:
            wanted[TopicPartition(topic.name, number)] = None
            yield

    def ask(give: Callable[[ListPartitionReassignmentsResponse], None]) -> None:
        controller.list_reassignments(None if request.topics is None else wanted, lambda moves: give(_response(moves)))

    return given_later(ask)


def _response(moves: Mapping[TopicPartition, ReplicaAssignment] | Refusal) -> ListPartitionReassignmentsResponse:
    if isinstance(moves, Refusal):
        return ListPartitionReassignmentsResponse(error_code=moves.error_code, error_message=moves.message)
    topics: dict[str, list[Partition]] = {}
    for partition, move in moves.items():
        topics.setdefault(partition.topic, []).append(Partition(partition.partition, *move))
    return ListPartitionReassignmentsResponse(topics=[Topic(*each) for each in topics.items()])
