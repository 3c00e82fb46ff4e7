"""WriteTxnMarkers: end transactions in partitions, sent by a coordinator, or by an administrator for a hanging one.

1: lowest version of Kafka 4, flexible. 2: whether each transaction has its own epoch (KIP-1228).
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster, require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, Parts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.transactions.participants import write_marker
from kafkawire.reference_broker.work.pieces import Work, each
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

#: Errors from an offsets partition whose groups are on another broker or not loaded.
_NOT_HERE = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


@serves(ApiKey.WRITE_TXN_MARKERS)
def handle(
    call: Call, request: WriteTxnMarkersRequest, *, authorizer: Authorizer, replicas: Replicas, groups: GroupCoordinator
) -> Work[WriteTxnMarkersResponse | DelayedOperation]:
    """Handle WriteTxnMarkers; the response waits until all markers are readable.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED; only brokers may send this, and administrators with ALTER.
    """
    if not allows_on_cluster(authorizer, call, AclOperation.ALTER, logs_denied=False):
        require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    parts: Parts[WriteTxnMarkersResponse] = Parts()
    results: dict[int, list[TopicResult]] = {}
    for wanted in request.markers:
        marker = Marker(wanted.producer_id, wanted.producer_epoch, wanted.transaction_result, wanted.coordinator_epoch)
        for topic in wanted.topics:
            if topic.partition_indexes:
                partitions: list[PartitionResult] = []
                results.setdefault(marker.producer_id, []).append(TopicResult(topic.name, partitions))
                for number in topic.partition_indexes:
                    partitions.append(
                        _write(call, replicas, groups, topic.name, number, marker, wanted.transaction_version, parts)
                    )
                    yield
            yield
    markers = yield from each(results.items(), lambda result: MarkerResult(*result))
    return parts.respond(WriteTxnMarkersResponse(markers))


def _write(
    call: Call,
    replicas: Replicas,
    groups: GroupCoordinator,
    topic: str,
    number: int,
    marker: Marker,
    transaction_version: int,
    parts: Parts[WriteTxnMarkersResponse],
) -> PartitionResult:
    result = PartitionResult(number)
    if replicas.get(topic, number) is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return result
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, which cannot build such a marker
        return result
    parts.expect()

    def written(error: BrokerError | None) -> None:
        if error is not None:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_HERE else error.code
        parts.arrived()

    write_marker(replicas, groups, (topic, number), marker, transaction_version, written, call.now_ms)
    return result
