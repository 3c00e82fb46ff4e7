"""ListOffsets and DeleteRecords take the other replicas of a partition into account.

Method: use a broker without sockets that leads or follows a partition, and play the other brokers.
"""

import pytest

from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.cluster_bench import ClusterBench
from tests.reference_broker.broker_bench import NOW_MS
from tests.reference_broker.replicas.leader_bench import EPOCH

CONSUMER, TOOL, FOLLOWER = -1, -2, 2


@pytest.fixture
def bench(tmp_path):
    """Return a leader with four records, one of which is committed."""
    bench = ClusterBench(tmp_path / "data")
    bench.leader.lead()
    bench.leader.append(4)
    bench.leader.fetch(2, 1)
    bench.leader.fetch(3, 1)
    return bench


def ask(bench, timestamp: int = OffsetTimestamp.LATEST, replica_id=CONSUMER, epoch=-1, version=7):
    """Return (error, offset, leader epoch)."""
    wanted = ListOffsetsRequest.ListOffsetsPartition(0, epoch, timestamp)
    topics = [ListOffsetsRequest.ListOffsetsTopic("t", [wanted])]
    (partition,) = bench.ask(ListOffsetsRequest(replica_id, 0, topics), version).topics[0].partitions
    return partition.error_code, partition.offset, partition.leader_epoch


@pytest.mark.parametrize(("replica_id", "end_offset"), [(CONSUMER, 1), (FOLLOWER, 4), (TOOL, 4)])
def test_who_sees_what_is_not_committed(bench, replica_id, end_offset):
    assert ask(bench, replica_id=replica_id) == (ErrorCode.NONE, end_offset, EPOCH)
    bench.leader.log.begin_at(1)
    by_time = ask(bench, NOW_MS, replica_id)
    assert by_time[1] == (-1 if replica_id == CONSUMER else 1)
    assert ask(bench, OffsetTimestamp.MAX_TIMESTAMP, replica_id)[1] == by_time[1]
    assert ask(bench, OffsetTimestamp.EARLIEST, replica_id)[1] == 1


@pytest.mark.parametrize(
    ("replica_id", "epoch", "code"),
    [
        (CONSUMER, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (FOLLOWER, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (TOOL, -1, ErrorCode.NONE),
        (TOOL, EPOCH + 1, ErrorCode.NONE),
        (TOOL, EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_only_tools_ask_followers(bench, replica_id, epoch, code):
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=2))
    found = ask(bench, replica_id=replica_id, epoch=epoch)
    assert found[0] == code
    if code == ErrorCode.NONE:
        assert found[1:] == (4, EPOCH + 1)


@pytest.mark.parametrize(
    ("timestamp", "replica_id", "version", "code"),
    [
        (OffsetTimestamp.LATEST, CONSUMER, 5, ErrorCode.OFFSET_NOT_AVAILABLE),
        (OffsetTimestamp.LATEST, CONSUMER, 4, ErrorCode.LEADER_NOT_AVAILABLE),
        (OffsetTimestamp.LATEST, FOLLOWER, 5, ErrorCode.NONE),
        (OffsetTimestamp.EARLIEST, CONSUMER, 5, ErrorCode.NONE),
        (NOW_MS, CONSUMER, 5, ErrorCode.NONE),
        (NOW_MS + 5, CONSUMER, 5, ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
)
def test_a_new_leader_does_not_know_what_is_committed(bench, timestamp, replica_id, version, code):
    bench.leader.lead(EPOCH + 1)
    assert ask(bench, timestamp, replica_id, version=version)[0] == code
    bench.leader.fetch_all(2, 3)
    assert ask(bench, timestamp, replica_id, version=version)[0] == ErrorCode.NONE


def delete(bench, offset, timeout_ms=1_000):
    topic = DeleteRecordsRequest.DeleteRecordsTopic("t", [DeleteRecordsRequest.DeleteRecordsPartition(0, offset)])
    return bench.ask(DeleteRecordsRequest([topic], timeout_ms))


def result(response):
    (partition,) = response.topics[0].partitions
    return partition.error_code, partition.low_watermark


def test_deleted_records_are_gone_everywhere_before_the_answer(bench):
    waiting = delete(bench, 1)
    assert bench.leader.log.log_start_offset == 1
    bench.leader.fetch(2, 4, log_start_offset=1)
    assert waiting.response is None
    bench.leader.fetch(3, 4, log_start_offset=1)
    assert result(waiting.response) == (ErrorCode.NONE, 1)


def test_the_timeout_of_deleted_records(bench):
    waiting = delete(bench, 1)
    bench.advance(1_000)
    assert result(waiting.response) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_without_a_timeout_nobody_waits_for_other_replicas(bench):
    assert result(delete(bench, 1, 0)) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    bench.leader.fetch(2, 4, log_start_offset=1)
    bench.leader.fetch(3, 4, log_start_offset=1)
    assert result(delete(bench, 1, 0)) == (ErrorCode.NONE, 1)


def test_records_that_are_not_committed_cannot_be_deleted(bench):
    assert result(delete(bench, 2)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_the_end_of_the_role_ends_the_wait(bench):
    waiting = delete(bench, 1)
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=2))
    assert result(waiting.response) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
