"""Produce waits for the in-sync replicas, and refuses batches if there are too few of them.

Method: use a broker without sockets that leads a partition, and play the followers.
"""

import pytest

from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.cluster_bench import ClusterBench
from tests.reference_broker.replicas.leader_bench import EPOCH
from tests.reference_broker.storage.produced_batches import produced


@pytest.fixture
def bench(tmp_path):
    bench = ClusterBench(tmp_path / "data", min_insync_replicas="2")
    bench.leader.lead()
    return bench


def outcome(delayed):
    """Return the error and the offset in a response, or None if there is no response yet."""
    if delayed.response is None:
        return None
    (partition,) = delayed.response.responses[0].partition_responses
    return partition.error_code, partition.base_offset


def ask(bench, acks, timeout_ms=1_000, version=9):
    Data = ProduceRequest.TopicProduceData
    data = Data("t", partition_data=[ProduceRequest.PartitionProduceData(0, produced(b"v"))])
    return bench.ask(ProduceRequest(None, acks, timeout_ms, [data]), version)


def test_a_batch_waits_for_all_in_sync_replicas(bench):
    waiting = ask(bench, Acks.ALL)
    bench.follow(1, broker_id=2)
    assert outcome(waiting) is None
    bench.follow(1, broker_id=3)
    assert outcome(waiting) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("timeout_ms", [1_000, 0, -5])
def test_the_timeout(bench, timeout_ms):
    waiting = ask(bench, Acks.ALL, timeout_ms)
    bench.advance(max(timeout_ms, 1) - 1)
    if timeout_ms > 0:
        assert outcome(waiting) is None
        bench.advance(1)
    assert outcome(waiting) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    bench.leader.fetch_all(2, 3)
    assert bench.leader.log.high_watermark == 1, "the batch is committed nevertheless"


def test_an_outcome_before_the_timeout_stands(bench):
    waiting = ask(bench, Acks.ALL)
    bench.leader.fetch_all(2, 3)
    bench.advance(2_000)
    assert outcome(waiting) == (ErrorCode.NONE, 0)


def test_acks_of_the_leader_do_not_wait(bench):
    response = ask(bench, Acks.LEADER)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(("acks", "code"), [(Acks.ALL, ErrorCode.NOT_ENOUGH_REPLICAS), (Acks.LEADER, ErrorCode.NONE)])
def test_too_few_in_sync_replicas(bench, acks, code):
    bench.leader.lead(EPOCH + 1, isr=(1,))
    response = ask(bench, acks)
    (partition,) = response.responses[0].partition_responses
    assert (partition.error_code, bench.leader.log.next_offset) == (code, int(code == ErrorCode.NONE))


def test_the_end_of_the_role_is_the_outcome(bench):
    waiting = ask(bench, Acks.ALL)
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=2))
    assert outcome(waiting) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    response = ask(bench, Acks.ALL)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("version", "leader"), [(10, 2), (9, -1)])
def test_the_current_leader(bench, version, leader):
    waiting = ask(bench, Acks.ALL, version=version)
    bench.leader.replica.follow(bench.leader.term(EPOCH + 1, leader=2))
    for response in (bench.through(waiting.response, version), ask(bench, Acks.ALL, version=version)):
        (partition,) = response.responses[0].partition_responses
        current = partition.current_leader
        assert (current.leader_id, current.leader_epoch) == (leader, -1 if leader < 0 else EPOCH + 1)
        assert [each.node_id for each in response.node_endpoints] == ([] if leader < 0 else [2])


def test_a_broker_alone_has_no_timeout(bench):
    bench.use(replicas=bench.core.replicas)
    response = ask(bench, Acks.ALL, 0)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
