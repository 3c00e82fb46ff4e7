"""LeaderAndIsr and StopReplica are answered with Apache Kafka 3.9.1's codes before anything is changed.

Method: check tables of known states and requests.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkawire.reference_broker.replicas.role_changes import (
    KnownReplica,
    RoleChanges,
    Stops,
    decide_roles,
    decide_stops,
    states_of,
)
from kafkawire.reference_broker.replicas.roles import Term
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.replicas.controlled_broker import (
    BROKER_ID,
    ID,
    State,
    leader_and_isr,
    state,
    stop_by_partition,
)

P0, P1 = ("t", 0), ("t", 1)
#: A replica known in leader epoch 3 and partition epoch 5.
KNOWN = KnownReplica(leader_epoch=3, partition_epoch=5, topic_id=ID)
OTHER_ID = b"o" * 16


def decide(request: LeaderAndIsrRequest, known: Mapping[Partition, KnownReplica]) -> RoleChanges:
    return finished(decide_roles(BROKER_ID, request, known.get, lambda broker_id: broker_id in (1, 2)))


@pytest.mark.parametrize(
    ("known", "asked", "topic_id", "code"),
    [
        pytest.param(None, state(), ID, ErrorCode.NONE, id="not hosted"),
        pytest.param(None, state(leader_epoch=0), ID, ErrorCode.NONE, id="first epoch"),
        pytest.param(None, state(replicas=[2]), ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="not assigned"),
        pytest.param(KNOWN, state(leader_epoch=4, partition_epoch=6), ID, ErrorCode.NONE, id="later epoch"),
        pytest.param(
            KNOWN,
            state(leader_epoch=4, replicas=[2]),
            ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            id="assigned elsewhere",
        ),
        pytest.param(KNOWN, state(leader_epoch=3), ID, ErrorCode.STALE_CONTROLLER_EPOCH, id="same epoch"),
        pytest.param(KNOWN, state(leader_epoch=2), ID, ErrorCode.STALE_CONTROLLER_EPOCH, id="earlier epoch"),
        pytest.param(
            KNOWN, state(leader_epoch=2, replicas=[2]), ID, ErrorCode.STALE_CONTROLLER_EPOCH, id="epoch first"
        ),
        pytest.param(KNOWN, state(leader_epoch=4), OTHER_ID, ErrorCode.INCONSISTENT_TOPIC_ID, id="another topic"),
        pytest.param(
            KNOWN, state(leader_epoch=2), OTHER_ID, ErrorCode.INCONSISTENT_TOPIC_ID, id="another topic, earlier epoch"
        ),
        pytest.param(
            KNOWN._replace(is_offline=True), state(), OTHER_ID, ErrorCode.KAFKA_STORAGE_ERROR, id="offline comes first"
        ),
        pytest.param(KNOWN, state(leader_epoch=4, partition_epoch=5), ZERO_UUID, ErrorCode.NONE, id="without an id"),
        pytest.param(KNOWN, state(), ZERO_UUID, ErrorCode.STALE_CONTROLLER_EPOCH, id="leader without an id again"),
        pytest.param(KNOWN, state(leader=2), ZERO_UUID, ErrorCode.NONE, id="follower that loses its id"),
        pytest.param(KNOWN._replace(topic_id=ZERO_UUID), state(), ID, ErrorCode.NONE, id="topic that gets an id"),
        pytest.param(
            KNOWN._replace(topic_id=ZERO_UUID),
            state(),
            ZERO_UUID,
            ErrorCode.STALE_CONTROLLER_EPOCH,
            id="topic that has no id yet",
        ),
    ],
)
def test_codes_of_leader_and_isr(known: KnownReplica | None, asked: State, topic_id: bytes, code: ErrorCode) -> None:
    changes = decide(leader_and_isr(asked, topic_id=topic_id), {} if known is None else {P0: known})
    assert changes.codes == {P0: code}
    has_term = code is ErrorCode.NONE and (known is None or asked.leader_epoch > known.leader_epoch)
    assert [partition for partition, _ in changes.terms()] == ([P0] if has_term else [])


def test_who_leads_and_who_follows() -> None:
    later = state(1, leader=2, leader_epoch=8)
    later.adding_replicas, later.removing_replicas = [5], [2]
    changes = decide(leader_and_isr(state(0), later), {P1: KNOWN._replace(partition_epoch=0)})
    assert changes.leaders == {P0: Term(1, 3, (1, 2), (1, 2), 0, 7, ID)}
    assert changes.followers == {P1: Term(2, 8, (1, 2), (1, 2), 0, 7, ID, (5,), (2,))}
    assert (changes.leaderless, changes.identified) == ({}, {})


def test_a_leader_that_is_not_alive_changes_no_role() -> None:
    changes = decide(leader_and_isr(state(0, leader=6), state(1, leader=-1)), {P1: KNOWN._replace(leader_epoch=0)})
    assert changes.codes == {P0: ErrorCode.NONE, P1: ErrorCode.NONE}
    assert list(changes.leaderless) == [P0, P1]
    assert (changes.leaders, changes.followers) == ({}, {})


@pytest.mark.parametrize("leader", [1, 2])
def test_an_earlier_partition_epoch_changes_nothing(leader: int) -> None:
    request = leader_and_isr(state(leader=leader, leader_epoch=4, partition_epoch=4))
    changes = decide(request, {P0: KNOWN})
    assert changes.codes == {P0: ErrorCode.NONE}
    assert list(changes.terms()) == []


def test_a_topic_gets_an_id_or_keeps_that_which_it_has() -> None:
    known = KNOWN._replace(topic_id=ZERO_UUID)
    assert decide(leader_and_isr(state()), {P0: known}).identified == {P0: ID}
    assert decide(leader_and_isr(state(leader=2), topic_id=ZERO_UUID), {P0: KNOWN}).identified == {}
    later = state(leader_epoch=4, partition_epoch=6)
    assert decide(leader_and_isr(later, topic_id=ZERO_UUID), {P0: KNOWN}).leaders[P0].topic_id == ID


def test_the_last_state_of_a_partition_counts() -> None:
    changes = decide(leader_and_isr(state(), state(leader=2, leader_epoch=4)), {})
    assert (changes.leaders, [term.leader_epoch for term in changes.followers.values()]) == ({}, [4])
    changes = decide(leader_and_isr(state(leader=6), state(replicas=[2])), {})
    assert (changes.codes, list(changes.terms())) == ({P0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, [])
    changes = decide(leader_and_isr(state(), state(replicas=[2])), {})
    assert (changes.codes, changes.leaders) == ({P0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, {})


def test_states_of_every_version() -> None:
    single, grouped = state(0), state(1)
    request = leader_and_isr(grouped)
    request.ungrouped_partition_states = [single]
    assert list(states_of(request)) == [("t", ZERO_UUID, single), ("t", ID, grouped)]


def stops(request: StopReplicaRequest, known: Mapping[Partition, KnownReplica]) -> Stops:
    return finished(decide_stops(request, known.get))


@pytest.mark.parametrize("is_deletion", [False, True])
@pytest.mark.parametrize(
    ("known", "leader_epoch", "code"),
    [
        (None, 3, ErrorCode.NONE),
        (KNOWN, 2, ErrorCode.FENCED_LEADER_EPOCH),
        (KNOWN, 3, ErrorCode.NONE),
        (KNOWN, 4, ErrorCode.NONE),
        (KNOWN, -1, ErrorCode.NONE),
        (KNOWN, -2, ErrorCode.NONE),
        (KNOWN, -3, ErrorCode.FENCED_LEADER_EPOCH),
        (KNOWN._replace(is_offline=True), 4, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_codes_of_stop_replica(
    known: KnownReplica | None, leader_epoch: int, code: ErrorCode, is_deletion: bool
) -> None:
    found = stops(stop_by_partition((0, leader_epoch, is_deletion)), {} if known is None else {P0: known})
    is_stopped = code is ErrorCode.NONE
    assert found.codes == {P0: code}
    assert list(found.stopped) == [P0] * is_stopped
    assert list(found.deleted) == [P0] * (is_stopped and is_deletion)


@pytest.mark.parametrize("is_deletion", [False, True])
def test_versions_of_stop_replica_without_epochs(is_deletion: bool) -> None:
    request = StopReplicaRequest(
        delete_partitions=is_deletion,
        ungrouped_partitions=[StopReplicaRequest.StopReplicaPartitionV0("t", 0)],
        topics=[StopReplicaRequest.StopReplicaTopicV1("t", [1, 2])],
    )
    found = stops(request, {P0: KNOWN, P1: KNOWN})
    assert found.codes == {P0: ErrorCode.NONE, P1: ErrorCode.NONE, ("t", 2): ErrorCode.NONE}
    assert list(found.deleted) == (list(found.codes) if is_deletion else [])


def test_the_last_stop_of_a_partition_counts() -> None:
    found = stops(stop_by_partition((0, 3, True), (0, 2, True)), {P0: KNOWN})
    assert (found.codes, found.stopped, found.deleted) == ({P0: ErrorCode.FENCED_LEADER_EPOCH}, {}, {})
    found = stops(stop_by_partition((0, 3, True), (0, 3, False)), {P0: KNOWN})
    assert (list(found.stopped), found.deleted) == ([P0], {})
