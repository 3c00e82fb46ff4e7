"""The KRaft quorum: the controllers that keep a cluster's metadata.

Source: KIP-595, KIP-642 (describing it), KIP-836 (times), KIP-853 (directories and endpoints).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkawire.sdk.admin.quorum_values import QuorumInfo, QuorumReplica
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.requests import check, error_text, lacking
from kafkawire.sdk.transport.wire import Address

__all__ = ["describe_metadata_quorum"]

#: The only partition of the metadata topic.
_PARTITION: Final = 0

#: The value for an unknown time.
_NO_TIME: Final = -1


async def describe_metadata_quorum(operations: Operations) -> QuorumInfo:
    """Return the quorum; see `Admin.describe_metadata_quorum`."""
    kind = messages.DescribeQuorumRequest
    request = kind([kind.TopicData(CLUSTER_METADATA_TOPIC, [kind.PartitionData(_PARTITION)])])

    def read(response: messages.DescribeQuorumResponse) -> None:
        check(response.error_code, error_text("metadata quorum", response.error_message))
        partition = _partition(response)
        check(partition.error_code, error_text("metadata quorum", partition.error_message))

    response = await operations.request(ANY_BROKER, versioned(request), messages.DescribeQuorumResponse, read)
    partition = _partition(response)
    return QuorumInfo(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        _replicas(partition.current_voters),
        _replicas(partition.observers),
        {
            node.node_id: {each.name: Address(each.host, each.port) for each in node.listeners}
            for node in response.nodes
        },
    )


def _partition(response: messages.DescribeQuorumResponse) -> messages.DescribeQuorumResponse.PartitionData:
    for topic in response.topics:
        for partition in topic.partitions:
            if (topic.topic_name, partition.partition_index) == (CLUSTER_METADATA_TOPIC, _PARTITION):
                return partition
    raise lacking(response, f"partition {CLUSTER_METADATA_TOPIC}-{_PARTITION}")


def _replicas(states: Iterable[messages.DescribeQuorumResponse.ReplicaState]) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            state.replica_id,
            None if state.replica_directory_id == ZERO_UUID else format_uuid(state.replica_directory_id),
            state.log_end_offset,
            None if state.last_fetch_timestamp == _NO_TIME else state.last_fetch_timestamp,
            None if state.last_caught_up_timestamp == _NO_TIME else state.last_caught_up_timestamp,
        )
        for state in states
    )
