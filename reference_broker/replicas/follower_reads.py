"""The leader's side of a follower's fetch: what it sends to the follower, and what it learns from the fetch.

A follower reads to the end of the log, beyond the high watermark. If its log differs from the leader's, it is sent the
point of divergence instead of records, and must truncate its log first (KIP-595).

Source: `Partition.fetchRecords`, `Partition.readRecords`, `ReplicaManager.readFromLog` in Apache Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica
from kafkawire.reference_broker.replicas.follower_positions import Follower, IdlePartition
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["FollowerRead", "divergence", "read_for_follower"]

PartitionData = FetchResponse.PartitionData


class FollowerRead(NamedTuple):
    """The result of a read.

    Attributes:
        data: the response for the partition, with records, an error, a divergence, or none of these.
        is_at_end: whether the partition does not have to be read again until the log changes.
        is_answer: whether the data ends the wait for more, as an error or a divergence does.
    """

    data: PartitionData
    is_at_end: bool
    is_answer: bool


def read_for_follower(
    replica: Replica,
    follower: Follower,
    wanted: FetchRequest.FetchPartition,
    max_bytes: int,
    *,
    at_least_one: bool,
    arrived_ms: int | None,
    session: IdlePartition | None = None,
) -> FollowerRead:
    """Read a partition for a follower.

    Args:
        replica: the partition's replica on this broker, which may not be the leader.
        follower: the broker that fetches.
        wanted: the partition's entry in the fetch.
        max_bytes: the maximum size of the records.
        at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
        arrived_ms: the current time if the request has just arrived, and so shows the follower's position; None when
            answering a request that has waited.
        session: the partition in the fetch session.
    """
    data = PartitionData(wanted.partition, high_watermark=UNKNOWN_OFFSET, aborted_transactions=None, records=b"")
    log = replica.log
    try:
        # Like Kafka, but unlike elsewhere, treat any negative epoch as none.
        replica.check(max(wanted.current_leader_epoch, NO_PARTITION_LEADER_EPOCH))
        leader = _assigned(replica, follower, wanted)
        diverging = divergence(log, wanted)
        if diverging is not None:
            data.diverging_epoch = diverging
        else:
            _read(log, wanted, min(max_bytes, wanted.partition_max_bytes), at_least_one, data)
            if arrived_ms is not None:
                leader.fetched(follower, wanted.fetch_offset, wanted.log_start_offset, arrived_ms, session)
            if data.records and leader.holds_back(follower.broker_id):
                data.records = b""
    except BrokerError as error:
        data.error_code = error.code
        return FollowerRead(data, is_at_end=False, is_answer=True)
    # This comes after the fetch has been recorded, which may move the high watermark.
    data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
    data.log_start_offset = log.log_start_offset
    # A partition that was not readable when the request arrived is also read at the next request, to learn the
    # follower's position; otherwise, if nothing else changed, the follower would stay out of sync forever.
    position = leader.position(follower.broker_id)
    is_noted = position is not None and position.is_noted(wanted.fetch_offset, session)
    is_at_end = is_noted and follower.broker_id in leader.isr and wanted.fetch_offset >= log.next_offset
    return FollowerRead(data, is_at_end and diverging is None, is_answer=diverging is not None)


def _assigned(replica: Replica, follower: Follower, wanted: FetchRequest.FetchPartition) -> ClusterReplica:
    """Return the replica if the partition is assigned to the follower's broker.

    Raises:
        BrokerError: UNKNOWN_LEADER_EPOCH, since that broker may know of a later assignment; NOT_LEADER_OR_FOLLOWER for
            a request without an epoch. Both are retried.
    """
    if isinstance(replica, ClusterReplica) and replica.position(follower.broker_id) is not None:
        return replica
    has_epoch = wanted.current_leader_epoch > NO_PARTITION_LEADER_EPOCH
    code = ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
    raise BrokerError(code, f"{replica.log.folder} is not assigned to broker {follower.broker_id}")


def divergence(log: PartitionLog, wanted: FetchRequest.FetchPartition) -> FetchResponse.EpochEndOffset | None:
    """Return the end of the last epoch that the fetching log shares with this one; None if the logs agree.

    Args:
        log: the log.
        wanted: what a follower or consumer fetches; the logs can be compared only if it has a last fetched epoch.

    Raises:
        BrokerError: OFFSET_OUT_OF_RANGE if the log has never had the last fetched epoch, or begins after the offset.
    """
    if wanted.last_fetched_epoch <= NO_PARTITION_LEADER_EPOCH:
        return None
    epoch, end_offset = log.end_of_epoch(wanted.last_fetched_epoch)
    if end_offset == UNKNOWN_OFFSET or epoch == NO_PARTITION_LEADER_EPOCH:
        reason = f"unknown leader epoch {wanted.last_fetched_epoch} for the last fetched record"
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
    if wanted.fetch_offset < log.log_start_offset:
        reason = f"the fetch offset is {wanted.fetch_offset}, but the log begins at {log.log_start_offset}"
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return FetchResponse.EpochEndOffset(epoch, end_offset)
    return None


def _read(
    log: PartitionLog, wanted: FetchRequest.FetchPartition, max_bytes: int, at_least_one: bool, data: PartitionData
) -> None:
    """Add the records to the response.

    Raises:
        BrokerError: OFFSET_OUT_OF_RANGE, or the error from the log.
    """
    try:
        read = log.read(wanted.fetch_offset, max_bytes, at_least_one=at_least_one, up_to=log.next_offset)
    except NotPrepared:
        return  # the log reports when it becomes readable
    if read.is_first_whole:
        data.records = read.records  # type: ignore[assignment]  # a slice of a file: encode_parts keeps it apart
