"""Fetch: read batches; delayed until there are enough, if the request asks for it.

4: lowest version of Kafka 4, isolation level. 5: log start offset. 7: fetch sessions. 9: leader epoch, to fence stale
clients. 11: rack. 12: flexible, divergence from the leader's epochs. 13: topic ids instead of names. 15: replica state.
16: the current leader's address. 17: directory id. 18: high watermark of a follower.

There are no fetch sessions: every response has session id 0, which makes clients send all partitions each time.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.log.log_directory import Topic
from kafkawire.reference_broker.log.partition_log import PartitionLog
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_FETCH_SESSION_ID, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["check_leader_epoch", "handle"]

_BY_ID_SINCE = since(FetchRequest.FetchTopic, "topic_id")

PartitionData = FetchResponse.PartitionData


class _Result(NamedTuple):
    """The result of one pass over the partitions."""

    response: FetchResponse
    size_bytes: int
    has_errors: bool


@serves(ApiKey.FETCH)
def handle(call: Call, request: FetchRequest) -> FetchResponse | DelayedOperation:
    """Handle Fetch: respond at once with enough bytes or any error, otherwise delay the response."""
    if request.session_id != NO_FETCH_SESSION_ID:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    result = _read(call, request)
    if result.has_errors or result.size_bytes >= request.min_bytes or request.max_wait_ms <= 0 or not request.topics:
        return result.response
    return _delay(call, request, request.min_bytes - result.size_bytes)


def _delay(call: Call, request: FetchRequest, missing_bytes: int) -> DelayedOperation:
    """Delay a fetch until `missing_bytes` more can be read from its partitions, or `max_wait_ms` has passed."""
    delayed_fetch = DelayedOperation()
    logs = [
        topic.logs[partition.partition]
        for wanted in request.topics
        if (topic := _find(call, wanted)) is not None
        for partition in wanted.partitions
    ]

    def readable(size_bytes: int) -> None:
        nonlocal missing_bytes
        missing_bytes -= size_bytes
        if missing_bytes <= 0:
            finish(call.now_ms)

    def release() -> None:
        timer.cancel()
        for log in logs:
            log.unwatch(readable)

    def finish(now_ms: int) -> None:
        release()
        delayed_fetch.complete_by(lambda: _read(call, request).response)

    for log in logs:
        log.watch(readable)
    timer = call.core.timers.at(call.now_ms + request.max_wait_ms, finish)
    delayed_fetch.on_cancel = release
    return delayed_fetch


def _read(call: Call, request: FetchRequest) -> _Result:
    left = max(min(request.max_bytes, call.core.options.fetch_max_bytes), 0)
    size_bytes, has_errors = 0, False
    responses = []
    for wanted in request.topics:
        topic = _find(call, wanted)
        partitions = []
        for partition in wanted.partitions:
            # The first partition with data returns at least one batch; otherwise a large one could never be read.
            data = _read_partition(call, topic, partition, left, at_least_one=not size_bytes)
            has_errors |= data.error_code != ErrorCode.NONE
            size = len(data.records or b"")
            size_bytes += size
            left = max(left - size, 0)
            partitions.append(data)
        responses.append(FetchResponse.FetchableTopicResponse(wanted.topic, wanted.topic_id, partitions))
    return _Result(FetchResponse(responses=responses), size_bytes, has_errors)


def _find(call: Call, wanted: FetchRequest.FetchTopic) -> Topic | None:
    directory = call.core.directory
    if call.version >= _BY_ID_SINCE:
        return directory.topics_by_id.get(wanted.topic_id)
    return directory.topics.get(wanted.topic)


def _read_partition(
    call: Call, topic: Topic | None, partition: FetchRequest.FetchPartition, left: int, *, at_least_one: bool
) -> PartitionData:
    data = PartitionData(partition.partition, high_watermark=UNKNOWN_OFFSET, aborted_transactions=None, records=b"")
    if topic is None or not 0 <= partition.partition < len(topic.logs):
        by_id = topic is None and call.version >= _BY_ID_SINCE
        data.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return data
    log = topic.logs[partition.partition]
    try:
        check_leader_epoch(log, partition.current_leader_epoch)
        read = log.read(partition.fetch_offset, min(left, partition.partition_max_bytes), at_least_one=at_least_one)
    except BrokerError as error:
        data.error_code = error.code
        return data
    data.high_watermark = data.last_stable_offset = log.high_watermark
    data.log_start_offset = log.log_start_offset
    if read.is_first_whole:
        data.records = read.records  # type: ignore[assignment]  # a slice of a file: encode_parts keeps it apart
    return data


def check_leader_epoch(log: PartitionLog, epoch: int) -> None:
    """Check that a client knows the current leader epoch of a partition.

    Args:
        log: the partition's log.
        epoch: the epoch known to the client; negative if it sent none.

    Raises:
        BrokerError: the client's epoch is older (FENCED_LEADER_EPOCH) or newer (UNKNOWN_LEADER_EPOCH).
    """
    if 0 <= epoch < log.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {epoch}, {log.leader_epoch} is the current one")
    if epoch > log.leader_epoch:
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {epoch}, {log.leader_epoch} is the current one")
