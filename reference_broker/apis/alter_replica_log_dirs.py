"""AlterReplicaLogDirs: move replicas to other log directories (KIP-113). This broker has only one log directory.

0: removed in Apache Kafka 4. 1: the lowest version. 2: flexible.

As in Apache Kafka with a single log directory, moving a replica there changes nothing, and moving it elsewhere fails.
"""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import folder_of

__all__ = ["handle"]

Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
Partition = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult

#: The longest folder name that file systems allow.
_FOLDER_CHARACTERS_MAX: Final = 255
#: The suffix that Apache Kafka appends to the name of a replica's folder while the replica is being moved.
_FUTURE_SUFFIX: Final = f".{'0' * 32}-future"


@serves(ApiKey.ALTER_REPLICA_LOG_DIRS)
def handle(
    call: Call,
    request: AlterReplicaLogDirsRequest,
    *,
    authorizer: Authorizer,
    directory: LogDirectory,
    replicas: Replicas,
) -> Work[AlterReplicaLogDirsResponse]:
    """Handle AlterReplicaLogDirs."""
    if not allows_on_cluster(authorizer, call, AclOperation.ALTER):
        return (yield from _refused(request))
    # If a partition is named more than once, the last entry wins.
    wanted: dict[str, dict[int, str]] = {}
    for place in request.dirs:
        for topic in place.topics:
            numbers = wanted.setdefault(topic.name, {})
            for number in topic.partitions:
                numbers[number] = place.path
                yield
    results = []
    for name, numbers in wanted.items():
        partitions = []
        for number, path in numbers.items():
            partitions.append(Partition(number, _moved(directory, replicas, name, number, path)))
            yield
        if partitions:
            results.append(Topic(name, partitions))
    return AlterReplicaLogDirsResponse(results=results)


def _refused(request: AlterReplicaLogDirsRequest) -> Work[AlterReplicaLogDirsResponse]:
    """Return the response for a client that may not move replicas."""
    results = []
    for place in request.dirs:
        for topic in place.topics:
            partitions: list[Partition] = []
            results.append(Topic(topic.name, partitions))
            for number in topic.partitions:
                partitions.append(Partition(number, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
                yield
    return AlterReplicaLogDirsResponse(results=results)


def _moved(directory: LogDirectory, replicas: Replicas, topic: str, number: int, path: str) -> ErrorCode:
    """Return the result for one replica."""
    if len(folder_of(topic, number)) + len(_FUTURE_SUFFIX) > _FOLDER_CHARACTERS_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != directory.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    replica = replicas.get(topic, number)
    if replica is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if replica.error is None else ErrorCode.KAFKA_STORAGE_ERROR
