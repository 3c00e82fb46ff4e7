"""The parts that serve share groups work together: sessions release records, and the log of states is pruned.

Method: send requests to a broker without sockets, crash it and restart it.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.coordinator import PRUNE_INTERVAL_MS
from tests.reference_broker.apis.share_bench import ShareBench, acquired, values_of


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path, share_coordinator_snapshot_update_records_per_snapshot=2)
    bench.begin_group()
    return bench


@pytest.mark.parametrize("is_crash", [True, False])
def test_acknowledged_records_are_not_delivered_again_after_a_restart(bench, is_crash):
    bench.produce_values(b"a", b"b", b"c", b"d")
    bench.fetch()
    bench.acknowledge(1, (0, 0, [1]), (2, 2, [3]), (3, 3, [2]))
    bench.crash() if is_crash else bench.restart()
    bench.use_connection()
    assert acquired(bench.fetch()) == [(1, 1, 1), (3, 3, 2)]


def test_the_session_of_a_closed_connection_ends(bench):
    bench.produce_values(b"a")
    bench.fetch()
    bench.peer.lost()
    bench.pass_turns()
    assert (len(bench.core.shares.sessions), len(bench.core.shares.partitions)) == (0, 0)
    bench.use_connection()
    assert acquired(bench.fetch()) == [(0, 0, 2)]


def test_the_last_request_ends_a_session(bench):
    bench.produce_values(b"a")
    bench.fetch()
    bench.core.shares.end_session("g", "nobody")
    bench.core.shares.end_session("g", "m")
    assert len(bench.core.shares.sessions) == 0
    bench.pass_turns()
    assert acquired(bench.fetch()) == [(0, 0, 2)]


def test_the_log_of_states_is_pruned(bench):
    replica = bench.core.replicas.get("__share_group_state", 0)
    epoch = 0
    for number in range(6):
        bench.produce_values(b"%d" % number)
        assert values_of(bench.fetch(epoch)) == [b"%d" % number]
        bench.acknowledge(epoch + 1, (number, number, [1]))
        epoch += 2
    bench.advance(PRUNE_INTERVAL_MS)
    bench.pass_turns()
    assert replica.log.log_start_offset > 0
    bench.crash()
    bench.use_connection()
    bench.produce_values(b"last")
    assert values_of(bench.fetch()) == [b"last"]
