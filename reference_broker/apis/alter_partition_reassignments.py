"""AlterPartitionReassignments: move partitions to other brokers (KIP-455).

0: the only version in Apache Kafka 3. 1, only in a standalone broker: whether the replication factor may change
(KIP-860).

A standalone broker is the only place for its partitions, so a request changes nothing. As in Apache Kafka, the response
does not wait for the moves, and the request's timeout has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, refusal_of
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, MetadataImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_partitions import check_brokers
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["handle", "handle_in_cluster"]

Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse

_VERSIONS = VersionRange(
    APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS].versions.first,
    since(AlterPartitionReassignmentsRequest, "allow_replication_factor_change") - 1,
)


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, scope=Scope.ALONE)
def handle(
    call: Call, request: AlterPartitionReassignmentsRequest, *, authorizer: Authorizer, metadata: MetadataCache
) -> Work[AlterPartitionReassignmentsResponse]:
    """Handle AlterPartitionReassignments for a standalone broker."""
    denied = _denied(authorizer, call)
    may_resize = request.allow_replication_factor_change
    topics = []
    for topic in request.topics:
        partitions: list[Partition] = []
        topics.append(Topic(topic.name, partitions))
        for partition in topic.partitions:
            number = partition.partition_index
            refused = denied or _refused(metadata.image, topic.name, number, partition.replicas, may_resize=may_resize)
            partitions.append(Partition(number, *(refused or ACCEPTED)))
            yield
    code, text = denied or ACCEPTED
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_code=code, error_message=text, responses=topics
    )


def _denied(authorizer: Authorizer, call: Call) -> Refusal | None:
    """Return the error of every partition if the client may not move any."""
    try:
        require_on_cluster(authorizer, call, AclOperation.ALTER)
    except BrokerError as error:
        return Refusal(error.code, error.detail)
    return None


def _refused(
    image: MetadataImage, topic: str, number: int, replicas: Sequence[int] | None, *, may_resize: bool
) -> Refusal | None:
    """Return why a partition cannot be where it is wanted, or None if it is there."""
    known = image.topics.get(topic)
    if known is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    present = known.partition(number)
    if present is UNKNOWN_PARTITION:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{number}.")
    if replicas is None:
        return refusal_of(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    try:
        check_brokers(replicas, image.brokers)
    except BrokerError as error:
        return Refusal(error.code, error.detail)
    if not may_resize and len(replicas) != len(present.replicas):
        text = f"The replication factor is changed from {len(present.replicas)} to {len(replicas)}"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return None


@serves(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _VERSIONS, scope=Scope.CLUSTER)
def handle_in_cluster(
    call: Call, request: AlterPartitionReassignmentsRequest, *, authorizer: Authorizer, controller: AskedController
) -> Work[AlterPartitionReassignmentsResponse | DelayedOperation]:
    """Handle AlterPartitionReassignments in a cluster; the response waits until the assignments are stored.

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
