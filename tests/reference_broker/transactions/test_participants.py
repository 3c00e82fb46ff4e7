"""Markers and verifications reach the logs and groups of the same broker.

Method: use a broker without sockets, and read its logs.
"""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from kafkawire.reference_broker.groups.requests import TransactionalCommit
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.transactions.participants import verify_commit, write_marker
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.replicas.leader_bench import EPOCH, LeaderBench
from tests.reference_broker.transactions.transaction_bench import code_of

MARKER = Marker(0, 1, True, 0)


def write(bench, partition, marker, outcomes):
    write_marker(bench.core.replicas, bench.core.groups, partition, marker, 2, outcomes.append, bench.now_ms)


def verify(bench, commit, verified, refused):
    """Verify that the only partition of the offsets topic is in a transaction."""
    of, partition = bench.core, ("__consumer_offsets", 0)
    outcomes = verified.append, refused.append
    verify_commit(of.replicas, lambda: of.transactions, partition, commit, *outcomes, bench.now_ms)


@pytest.mark.parametrize("partition", [("a", 1), ("__consumer_offsets", 0)])
def test_markers_are_written(bench, partition):
    Transacting(bench)
    outcomes = []
    write(bench, partition, MARKER, outcomes)
    name, number = partition
    (_, header), *_ = bench.core.directory.of(name)[number].headers()
    assert (outcomes, header.is_control, header.producer_epoch) == ([None], True, 1)
    write(bench, partition, MARKER._replace(producer_epoch=0), outcomes)
    assert code_of(outcomes[1]) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("partition", [("none", 0), ("a", 2)])
def test_what_is_not_there(bench, partition):
    Transacting(bench)
    outcomes = []
    write(bench, partition, MARKER, outcomes)
    assert code_of(outcomes[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_markers_need_enough_replicas_in_sync():
    """A coordinator keeps resending its marker, and each attempt would make the log longer."""
    leader = LeaderBench(isr=(1,), min_insync_replicas="2").lead()
    replicas, outcomes = Mock(Replicas), []
    replicas.get.return_value = leader.replica
    write_marker(replicas, Mock(), ("t", 0), MARKER, 2, outcomes.append, leader.now_ms)
    assert ([code_of(each) for each in outcomes], leader.log.next_offset) == ([ErrorCode.NOT_ENOUGH_REPLICAS], 0)
    leader.lead(EPOCH + 1, isr=(1, 2))
    write_marker(replicas, Mock(), ("t", 0), MARKER, 2, outcomes.append, leader.now_ms)
    assert (len(outcomes), leader.log.next_offset) == (1, 1), "the marker waits for the other replica"
    leader.fetch_all(2)
    assert outcomes[1:] == [None]


def test_markers_are_for_leaders_to_write(bench):
    Transacting(bench)
    bench.core.replicas.stop("a", 1)
    outcomes = []
    write(bench, ("a", 1), MARKER, outcomes)
    assert code_of(outcomes[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.core.directory.of("a")[1].next_offset == 0


def test_offsets_are_verified_once(bench):
    x = Transacting(bench)
    verified, refused = [], []

    def verify_epoch(epoch):
        verify(bench, TransactionalCommit("x", x.producer[0], epoch, 2), verified, refused)

    verify_epoch(5)
    assert code_of(refused[0]) is ErrorCode.INVALID_PRODUCER_EPOCH
    verify_epoch(0)
    assert verified[0] is not None
    assert x.commit_offset(3) is ErrorCode.NONE
    verify_epoch(0)
    assert verified[1] is None, "the transaction is already open there"
    x.end()
    verify_epoch(0)
    assert code_of(refused[1]) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_transaction_takes_in_no_offsets_whose_log_is_offline(bench):
    x = Transacting(bench)
    bench.core.directory.log("__consumer_offsets", 0).fail(OSError("broken"))
    verified, refused = [], []
    commit = TransactionalCommit("x", *x.producer, 2)
    verify(bench, commit, verified, refused)
    assert (verified, code_of(refused[0])) == ([], ErrorCode.NOT_COORDINATOR)
    found = []
    bench.core.transactions.describe("x", found.append, bench.now_ms)
    assert not found[0].partitions


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_errors_of_a_verifier(bench, code, told):
    """Clients that commit offsets do not expect every error that a coordinator on another broker may return."""

    class Refusing:
        def ensure_partitions(
            self, transactional_id, producer_id, epoch, topic_partitions, transaction_version, done, now_ms
        ):
            done(dict.fromkeys(topic_partitions, BrokerError(code)))

    x = Transacting(bench)
    verified, refused = [], []
    commit, outcomes = TransactionalCommit("x", *x.producer, 2), (verified.append, refused.append)
    verify_commit(bench.core.replicas, Refusing, ("__consumer_offsets", 0), commit, *outcomes, bench.now_ms)
    assert (verified, [error.code for error in refused]) == ([], [told])
