"""The log directories of brokers: list the replicas in them, and move replicas between them.

Each broker knows only its own directories, so all brokers are asked in parallel, each for its own part. A broker that
fails does not affect the others.

Source: KIP-113 (JBOD), KIP-827 (sizes of volumes), KIP-1066 (cordoned directories).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafkawire.sdk.admin.descriptions import (
    ItemResults,
    LogDir,
    LogDirReplica,
    ReplicaLogDirs,
    TopicPartitionReplica,
)
from kafkawire.sdk.admin.item_batches import in_parallel
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import by_topic, check, lacking

__all__ = ["alter_replica_log_dirs", "describe_log_dirs", "describe_replica_log_dirs"]

#: The number that a broker sends for an unknown size.
_SIZE_UNKNOWN = -1


async def describe_log_dirs(
    operations: Operations, node_ids: Collection[int] | None
) -> ItemResults[int, dict[str, LogDir]]:
    """Return the log directories of brokers; see `Admin.describe_log_dirs`."""
    if node_ids is None:
        await operations.describe(())
        node_ids = operations.router.metadata.brokers

    async def of_node(node_id: int, deadline_ms: int) -> dict[str, LogDir]:
        detail = f"log directories of node {node_id}"
        response = await operations.request(
            Node(node_id),
            versioned(messages.DescribeLogDirsRequest(topics=None)),
            messages.DescribeLogDirsResponse,
            lambda response: check(_code_of(response), detail),
            deadline_ms=deadline_ms,
        )
        return {result.log_dir: _log_dir(result, detail) for result in response.results}

    return await in_parallel(operations, node_ids, of_node)


async def describe_replica_log_dirs(
    operations: Operations, replicas: Iterable[TopicPartitionReplica]
) -> ItemResults[TopicPartitionReplica, ReplicaLogDirs]:
    """Return the log directories of replicas; see `Admin.describe_replica_log_dirs`."""
    kind = messages.DescribeLogDirsRequest
    wanted = dict.fromkeys(replicas)
    by_node: dict[int, list[TopicPartition]] = {}
    for topic, number, node_id in wanted:
        by_node.setdefault(node_id, []).append(TopicPartition(topic, number))

    async def of_node(node_id: int, deadline_ms: int) -> dict[TopicPartition, ReplicaLogDirs]:
        topics = [kind.DescribableLogDirTopic(topic, numbers) for topic, numbers in by_topic(by_node[node_id]).items()]
        response = await operations.request(
            Node(node_id),
            versioned(kind(topics)),
            messages.DescribeLogDirsResponse,
            lambda response: check(_code_of(response), f"log directories of node {node_id}"),
            deadline_ms=deadline_ms,
        )
        found = dict.fromkeys(by_node[node_id], ReplicaLogDirs(None, None, None, None))
        for result in response.results:
            if result.error_code != ErrorCode.KAFKA_STORAGE_ERROR:  # an offline directory lists no replicas
                check(result.error_code, f"log directory {result.log_dir} of node {node_id}")
            for topic in result.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    known = found.get(partition, ReplicaLogDirs(None, None, None, None))
                    if each.is_future_key:
                        known = known._replace(future_path=result.log_dir, future_offset_lag=each.offset_lag)
                    else:
                        known = known._replace(path=result.log_dir, offset_lag=each.offset_lag)
                    found[partition] = known
        return found

    nodes = await in_parallel(operations, by_node, of_node)
    values: dict[TopicPartitionReplica, ReplicaLogDirs] = {}
    errors: dict[TopicPartitionReplica, KafkaWireError] = {}
    for replica in wanted:
        if replica.node_id in nodes.errors:
            errors[replica] = nodes.errors[replica.node_id]
        else:
            values[replica] = nodes.values[replica.node_id][TopicPartition(replica.topic, replica.partition)]
    return ItemResults(values, errors)


async def alter_replica_log_dirs(
    operations: Operations, moves: Mapping[TopicPartitionReplica, str]
) -> ItemResults[TopicPartitionReplica, None]:
    """Move replicas to other log directories; see `Admin.alter_replica_log_dirs`."""
    by_node: dict[int, dict[str, list[TopicPartition]]] = {}
    for replica, log_dir in moves.items():
        place = TopicPartition(replica.topic, replica.partition)
        by_node.setdefault(replica.node_id, {}).setdefault(log_dir, []).append(place)

    async def on_node(node_id: int, deadline_ms: int) -> dict[TopicPartition, int]:
        asked = by_node[node_id]

        def read(response: messages.AlterReplicaLogDirsResponse) -> None:
            codes = _codes(response)
            for partition in (each for several in asked.values() for each in several):
                if partition not in codes:
                    raise lacking(response, f"partition {partition}")

        response = await operations.request(
            Node(node_id), versioned(_moves(asked)), messages.AlterReplicaLogDirsResponse, read, deadline_ms=deadline_ms
        )
        return _codes(response)

    nodes = await in_parallel(operations, by_node, on_node)
    values: dict[TopicPartitionReplica, None] = {}
    errors: dict[TopicPartitionReplica, KafkaWireError] = {}
    for replica, log_dir in moves.items():
        if replica.node_id in nodes.errors:
            errors[replica] = nodes.errors[replica.node_id]
            continue
        code = nodes.values[replica.node_id][TopicPartition(replica.topic, replica.partition)]
        if code == ErrorCode.NONE:
            values[replica] = None
        else:
            errors[replica] = BrokerError(code, f"move of {replica} to {log_dir}")
    return ItemResults(values, errors)


def _code_of(response: messages.DescribeLogDirsResponse) -> int:
    """Return the error of a response; a broker older than Apache Kafka 3.2 rejects it by sending no directories."""
    if response.error_code == ErrorCode.NONE and not response.results:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return response.error_code


def _moves(wanted: Mapping[str, list[TopicPartition]]) -> messages.AlterReplicaLogDirsRequest:
    kind = messages.AlterReplicaLogDirsRequest
    return kind(
        [
            kind.AlterReplicaLogDir(
                path,
                [kind.AlterReplicaLogDirTopic(topic, numbers) for topic, numbers in by_topic(partitions).items()],
            )
            for path, partitions in wanted.items()
        ]
    )


def _codes(response: messages.AlterReplicaLogDirsResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): each.error_code
        for topic in response.results
        for each in topic.partitions
    }


def _log_dir(result: messages.DescribeLogDirsResponse.DescribeLogDirsResult, detail: str) -> LogDir:
    is_sound = result.error_code == ErrorCode.NONE
    return LogDir(
        None if is_sound else BrokerError(result.error_code, f"{detail}: {result.log_dir}"),
        {
            TopicPartition(topic.name, each.partition_index): LogDirReplica(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in result.topics
            for each in topic.partitions
        },
        None if result.total_bytes == _SIZE_UNKNOWN else result.total_bytes,
        None if result.usable_bytes == _SIZE_UNKNOWN else result.usable_bytes,
        result.is_cordoned,
    )
