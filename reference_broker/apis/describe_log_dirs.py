"""DescribeLogDirs: describe the data directory, its volume, and the sizes of the partitions in it.

1: null asks for all partitions, as before. 2: flexible. 3: an error code for the whole response. 4: the size of the
volume, and its free space. 5: whether the directory refuses new partitions.

Partitions with an offline log are left out, since Apache Kafka lists no partitions of an offline directory.
"""

from __future__ import annotations

from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.authorization import allows_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.disk import Volume
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Partition = DescribeLogDirsResponse.DescribeLogDirsPartition
Result = DescribeLogDirsResponse.DescribeLogDirsResult

#: The offset lag of a replica, whose log is never behind its own high watermark.
_NO_LAG = 0
#: The offset lag of a partition that the cluster's controller has not assigned to this broker.
_UNKNOWN_LAG = -1


@serves(ApiKey.DESCRIBE_LOG_DIRS)
def handle(
    call: Call, request: DescribeLogDirsRequest, *, authorizer: Authorizer, directory: LogDirectory, replicas: Replicas
) -> Work[DescribeLogDirsResponse | DelayedOperation]:
    """Handle DescribeLogDirs; the response is delayed while the volume is being measured."""
    if not allows_on_cluster(authorizer, call, AclOperation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = []
    wanted = yield from _wanted(directory, request)
    for name, numbers in wanted.items():
        partitions = []
        for number in numbers:
            log = directory.log(name, number)
            if log is not None and not log.is_offline:
                lag = _UNKNOWN_LAG if replicas.get(name, number) is None else _NO_LAG
                partitions.append(Partition(number, log.size_bytes, lag))
            yield
        if partitions:
            topics.append(DescribeLogDirsResponse.DescribeLogDirsTopic(name, partitions))
    delayed = DelayedOperation()

    def measured(volume: Volume | BrokerError | None) -> None:
        result = Result(log_dir=directory.path)
        if isinstance(volume, BrokerError):
            result.error_code = volume.code
        else:
            result.topics = topics
            if volume is not None:
                result.total_bytes, result.usable_bytes = (min(size_bytes, INT64_MAX) for size_bytes in volume)
        delayed.complete(DescribeLogDirsResponse(results=[result]))

    directory.measure(measured)
    return delayed


def _wanted(directory: LogDirectory, request: DescribeLogDirsRequest) -> Work[dict[str, dict[int, None]]]:
    """Return the numbers of the requested partitions, keyed by topic, without duplicates."""
    wanted: dict[str, dict[int, None]] = {}
    if request.topics is None:
        for name in directory.topic_names():
            wanted[name] = dict.fromkeys(directory.of(name))
            yield
    for named in request.topics or ():
        numbers = wanted.setdefault(named.topic, {})
        for number in named.partitions:
            numbers[number] = None
            yield
        yield
    return wanted
