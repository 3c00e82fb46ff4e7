"""The leader's side of a follower's fetch: what a follower gets of a partition, and what its fetch tells the leader.

A follower reads to the end of the log, beyond the high watermark. It is told where its log differs from the leader's,
instead of getting records, so that it truncates first (KIP-595).

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
        data: the response for the partition; it has records, an error, a divergence, or none of them.
        is_at_end: whether the partition need not be read again until the log changes.
        is_answer: whether the data ends the wait for more: an error, or a divergence.
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
        replica: the partition's replica here; it need not lead.
        follower: the broker that fetches.
        wanted: what it fetches.
        max_bytes: upper bound of the records.
        at_least_one: whether to return the first batch whole even if it is larger than `max_bytes`.
        arrived_ms: the current time if the request has just arrived, so that it tells where the follower is; None when
            a request that has waited is answered.
        session: the partition in the fetch session.
    """
    data = PartitionData(wanted.partition, high_watermark=UNKNOWN_OFFSET, aborted_transactions=None, records=b"")
    log = replica.log
    try:
        # Like Kafka, and unlike elsewhere, treat any negative epoch as none.
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
    # After the fetch was noted, since that may have moved the high watermark.
    data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
    data.log_start_offset = log.log_start_offset
    # A partition that was not readable when the request arrived is read at the next one, too, which tells where the
    # follower is: it has no news otherwise, and would fall out of sync for ever.
    position = leader.position(follower.broker_id)
    is_noted = position is not None and position.is_noted(wanted.fetch_offset, session)
    is_at_end = is_noted and follower.broker_id in leader.isr and wanted.fetch_offset >= log.next_offset
    return FollowerRead(data, is_at_end and diverging is None, is_answer=diverging is not None)


def _assigned(replica: Replica, follower: Follower, wanted: FetchRequest.FetchPartition) -> ClusterReplica:
    """Return the replica if the partition is assigned to a broker as a follower.

    Raises:
        BrokerError: UNKNOWN_LEADER_EPOCH, since the broker may know a later assignment; NOT_LEADER_OR_FOLLOWER for a
            request without an epoch. Both are tried again.
    """
    if isinstance(replica, ClusterReplica) and replica.position(follower.broker_id) is not None:
        return replica
    has_epoch = wanted.current_leader_epoch > NO_PARTITION_LEADER_EPOCH
    code = ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
    raise BrokerError(code, f"{replica.log.folder} is not assigned to broker {follower.broker_id}")


def divergence(log: PartitionLog, wanted: FetchRequest.FetchPartition) -> FetchResponse.EpochEndOffset | None:
    """Return the end of the last epoch that the fetching side has in common with the log; None if they agree.

    Args:
        log: the log.
        wanted: the fetch, of a follower or a consumer; without a last fetched epoch it says nothing.

    Raises:
        BrokerError: OFFSET_OUT_OF_RANGE, the log has never had the last fetched epoch, or begins after the offset.
    """
    if wanted.last_fetched_epoch <= NO_PARTITION_LEADER_EPOCH:
        return None
    epoch, end_offset = log.end_of_epoch(wanted.last_fetched_epoch)
    if end_offset == UNKNOWN_OFFSET or epoch == NO_PARTITION_LEADER_EPOCH:
        reason = f"epoch {wanted.last_fetched_epoch} of the last record is unknown"
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
    """Put the records into the response.

    Raises:
        BrokerError: OFFSET_OUT_OF_RANGE, or the log's error.
    """
    try:
        read = log.read(wanted.fetch_offset, max_bytes, at_least_one=at_least_one, up_to=log.next_offset)
    except NotPrepared:
        return  # the log reports when it becomes readable
    if read.is_first_whole:
        data.records = read.records  # type: ignore[assignment]  # a slice of a file: encode_parts keeps it apart
