"""Share partitions are created for what the broker leads, and dropped when others may change their state.

Method: fetches of a broker without sockets; topics go, members leave, and the stored state is changed by others.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.shares.acknowledgement import AcknowledgedRange
from kafkawire.reference_broker.shares.share_partition import LoadState
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_bench import ShareBench, acquired


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.begin_group(2)
    return bench


def key(bench, partition=0):
    return SharePartitionKey("g", bench.topic_id, partition)


def test_a_share_partition_is_created_once(bench):
    shares = bench.core.shares.partitions
    assert (len(shares), shares.get(key(bench))) == (0, None)
    first = shares.create(key(bench), "t")
    assert (shares.create(key(bench), "t"), shares.get(key(bench))) == (first, first)
    with pytest.raises(BrokerError) as refused:
        shares.create(key(bench, 7), "t")
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("how", ["drop", "drop_group", "failed", "changed_role"])
def test_a_share_partition_is_dropped(bench, how):
    bench.produce_values(b"a")
    assert acquired(bench.fetch()) == [(0, 0, 1)]
    shares = bench.core.shares.partitions
    share = shares.get(key(bench))
    told = []
    shares.on_change = told.append
    if how == "drop":
        shares.drop(key(bench))
        shares.drop(key(bench))
    elif how == "drop_group":
        shares.drop_group("other")
        assert len(shares) == 1
        shares.drop_group("g")
    elif how == "failed":
        shares.failed(key(bench), BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, ""))
        assert len(shares) == 1
        shares.failed(key(bench), BrokerError(ErrorCode.FENCED_STATE_EPOCH, ""))
    else:
        replica = bench.core.replicas.get("t", 0)
        shares.changed_role(("t", 0), replica, Role.LEADER)
        assert len(shares) == 1
        replica.role = Role.OFFLINE
        shares.changed_role(("t", 0), replica, Role.LEADER)
    assert (len(shares), share.state, told) == (0, LoadState.FENCED, [key(bench)])


def test_the_share_partitions_of_a_deleted_topic_are_dropped(bench):
    bench.fetch(max_wait_ms=0)
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1_000))
    bench.pass_turns()
    assert len(bench.core.shares.partitions) == 0


def test_acknowledgements_are_passed_on(bench):
    bench.produce_values(b"a")
    bench.fetch()
    shares = bench.core.shares.partitions
    outcomes = []
    ranges = [AcknowledgedRange(0, 0, [1])]
    shares.acknowledge("m", {key(bench): ranges, key(bench, 1): ranges}, outcomes.append, bench.now_ms)
    bench.pass_turns()
    (found,) = outcomes
    assert found[key(bench)] is None
    assert found[key(bench, 1)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    shares.acknowledge("m", {}, outcomes.append, bench.now_ms)
    assert outcomes[1] == {}


def test_what_a_member_has_is_released(bench):
    bench.produce_values(b"a")
    bench.fetch()
    shares = bench.core.shares.partitions
    shares.release("m", [key(bench), key(bench, 1)], bench.now_ms)
    bench.pass_turns()
    assert acquired(bench.fetch(1)) == [(0, 0, 2)]


def test_a_state_that_others_have_begun_again_is_loaded_again(bench):
    bench.produce_values(b"a")
    bench.fetch()
    bench.core.shares.persister.initialize(key(bench), 9, 0, lambda outcome: None)
    bench.pass_turns()
    told = bench.acknowledge(1, (0, 0, [1]))
    assert told.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(bench.core.shares.partitions) == 0
    assert acquired(bench.fetch(2)) == [(0, 0, 1)]


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("earliest", [(0, 1, 1)]),
        ("latest", []),
        ("by_duration:PT1H", [(0, 1, 1)]),
        ("by_duration:PT0S", []),
    ],
)
def test_where_a_group_begins(tmp_path, reset, expected):
    bench = ShareBench(tmp_path)
    bench.begin_group(share_auto_offset_reset=reset)
    bench.produce_values(b"a", b"b")
    bench.now_ms += 1_000
    answer = bench.fetch_later(max_wait_ms=100)
    for _ in range(20):
        bench.advance(10)
    assert acquired(bench.through(answer.response, 2)) == expected
