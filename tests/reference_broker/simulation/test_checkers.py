"""Each checker detects the violation that it is meant to detect.

Method: change one thing at a time in a cluster at rest.
"""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import Mock, patch

import pytest

from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.simulation.checkers import LOSSY, Checkers, Committed, Violation
from kafkawire.reference_broker.simulation.cluster import SimulatedCluster
from kafkawire.reference_broker.simulation.scheduler import Scheduler
from kafkawire.reference_broker.simulation.simulation import Simulation
from kafkawire.sdk.protocol.tables.znodes import PARTITION_STATE, PartitionState
from kafkawire.sdk.routing.partitions import TopicPartition


def replica_of(simulation: Simulation, broker_id: int) -> Replica:
    core = simulation.cluster.brokers[broker_id].core
    assert core is not None
    replica = core.replicas.get("in", 0)
    assert replica is not None
    return replica


@pytest.fixture
def checkers(calm: Simulation) -> Checkers:
    """Checkers that have checked the cluster once."""
    checkers = Checkers(calm.cluster)
    for broker in calm.cluster.brokers.values():
        checkers.check_broker(broker)
    return checkers


def committed_of(checkers: Checkers, simulation: Simulation) -> Committed:
    return checkers.committed[replica_of(simulation, 1).topic_id, 0]


def test_a_cluster_at_rest(calm: Simulation, checkers: Checkers) -> None:
    assert checkers.unsettled() == ""
    checkers.check_end()
    assert committed_of(checkers, calm).end == replica_of(calm, 1).log.next_offset > 0


def test_other_bytes(calm: Simulation, checkers: Checkers) -> None:
    batches = committed_of(checkers, calm).batches
    batches[0] = batches[0][:-1] + bytes([batches[0][-1] ^ 1])
    with pytest.raises(Violation, match="a different batch at 0 from the committed one"):
        checkers.check_end()


def test_zeros_instead_of_a_batch(calm: Simulation, checkers: Checkers) -> None:
    """A file that has not been synced may contain zeros after a power cut."""
    log = replica_of(calm, 1).log
    zeros = Mock(records=Mock(read=lambda: bytes(100)))
    with patch.object(log, "read", return_value=zeros), pytest.raises(Violation, match="has a damaged batch at 0"):
        next(checkers._batches("t-0", log, 0, 1))


def test_a_leader_without_committed_records(calm: Simulation, checkers: Checkers) -> None:
    committed_of(checkers, calm).end += 1
    with pytest.raises(Violation, match="are committed"):
        checkers.check_end()


def test_two_leaders_of_one_epoch(calm: Simulation, checkers: Checkers) -> None:
    leaders = checkers.leaders
    for key in leaders:
        leaders[key] = "broker 9"
    with pytest.raises(Violation, match="but broker 9 already leads in it"):
        checkers.check_end()


def test_an_acknowledgement_of_what_is_not_committed(calm: Simulation, checkers: Checkers) -> None:
    end = committed_of(checkers, calm).end
    topic_id = replica_of(calm, 1).topic_id
    with pytest.raises(Violation, match=f"offset {end} is acknowledged"):
        checkers.acknowledged("in", topic_id, 0, end, (b"x",))
    checkers.acknowledged("in", topic_id, 0, end - 1, (b"x",))
    with pytest.raises(Violation, match="b'x' was acknowledged"):
        checkers.check_end()


def test_a_replica_in_sync_without_committed_records(calm: Simulation, checkers: Checkers) -> None:
    epoch = replica_of(calm, 1).leader_epoch
    state = PartitionState(controller_epoch=1, leader=1, leader_epoch=epoch, isr=(1, 2, 3))
    path = PARTITION_STATE.path("in", 0)
    checkers.check_in_sync(path, state)
    committed_of(checkers, calm).end += 1
    with pytest.raises(Violation, match="is in sync with a log up to"):
        checkers.check_in_sync(path, state)


def test_a_leader_with_deleted_records(calm: Simulation, checkers: Checkers) -> None:
    topic_id = replica_of(calm, 1).topic_id
    checkers.deleted(topic_id, 0, 0)
    checkers.check_end()
    checkers.deleted(topic_id, 0, 1)
    with pytest.raises(Violation, match="begins at 0, but records before 1 are deleted"):
        checkers.check_end()


def test_records_that_may_be_deleted() -> None:
    checkers, partition = Checkers(SimulatedCluster(Scheduler(1), {})), TopicPartition("t", 0)
    assert not checkers.may_be_deleted(partition, 0)
    checkers.deletion_asked(partition, 5)
    checkers.deletion_asked(partition, 3)
    assert [checkers.may_be_deleted(partition, offset) for offset in (4, 5)] == [True, False]


def test_batches_of_one_epoch_that_differ(calm: Simulation, checkers: Checkers) -> None:
    lossy = checkers.lossy
    assert lossy
    for key in lossy:
        lossy[key] = b"other"
    with pytest.raises(Violation, match="has a different batch at 0 from the one of epoch"):
        checkers.check_end()


BEFORE = PartitionState(controller_epoch=3, leader=1, leader_epoch=5, isr=(1, 2))


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (BEFORE._replace(leader=2, leader_epoch=6), ""),
        (BEFORE._replace(leader=-1, leader_epoch=6), ""),
        (BEFORE._replace(leader=3, leader_epoch=6, isr=(3,)), "3 is elected, but not in sync"),
        (BEFORE._replace(leader=2), "the leader changed without a new epoch"),
        (BEFORE._replace(leader_epoch=4), "epochs moved back"),
        (BEFORE._replace(controller_epoch=2), "epochs moved back"),
        (BEFORE._replace(isr=()), "no replica is in sync"),
    ],
)
def test_elections(after: PartitionState, text: str) -> None:
    with pytest.raises(Violation, match=text) if text else nullcontext():
        Checkers.check_election(PARTITION_STATE.path("in", 0), BEFORE, after)


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (BEFORE._replace(leader=3, leader_epoch=6, isr=(3,)), ""),
        (BEFORE._replace(leader=3, leader_epoch=6, isr=(3, 1)), "is not alone in sync"),
    ],
)
def test_unclean_elections(after: PartitionState, text: str) -> None:
    with pytest.raises(Violation, match=text) if text else nullcontext():
        Checkers.check_election(PARTITION_STATE.path(*LOSSY), BEFORE, after)
