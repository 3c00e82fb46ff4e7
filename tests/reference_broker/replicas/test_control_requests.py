"""A controller's requests are processed one at a time: logs are created, roles change, and the image follows.

Method: use a broker without sockets or a directory, with logs on in-memory disks, and fire the timers.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.replicas.control_requests import QUEUED_MAX
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace, lock_directory
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.replicas.controlled_broker import (
    BROKER_EPOCH,
    ID,
    Controlled,
    alive,
    leader_and_isr,
    state,
    stop_by_partition,
)
from tests.reference_broker.storage.held_work import HeldWork

P0, P1 = ("t", 0), ("t", 1)


@pytest.fixture
def broker() -> Controlled:
    """Return a broker that knows about itself and brokers 2 and 3."""
    broker = Controlled()
    broker.ask(alive(1, 2, 3), 8)
    broker.take()
    return broker


def codes(response: Message | Exception) -> list[ErrorCode]:
    """Return the codes of the partitions in a response that uses topic ids."""
    assert isinstance(response, LeaderAndIsrResponse)
    assert response.error_code == ErrorCode.NONE
    return [ErrorCode(each.error_code) for topic in response.topics for each in topic.partition_errors]


def test_logs_are_created_and_roles_follow(broker: Controlled) -> None:
    broker.topic_configs["t"] = {"retention.ms": "5"}
    response = broker.ask(leader_and_isr(state(0), state(1, leader=2)), 7)
    assert response == LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrResponse.LeaderAndIsrTopicError(
                ID, [LeaderAndIsrResponse.LeaderAndIsrPartitionError("", number) for number in (0, 1)]
            )
        ]
    )
    assert broker.logs.created == [LogPlace("t", number, ID, log_config({"retention.ms": "5"})) for number in (0, 1)]
    assert broker.take() == [
        ("read", ["t"]),
        ("forget", [P0, P1]),
        ("LEADER", P0),
        ("FOLLOWER", P1),
        ("fetch", P1, 2, 3),
    ]
    assert broker.replicas.leader("t", 0, 3).log is broker.logs.hosted[P0]


def test_the_first_versions_name_topics(broker: Controlled) -> None:
    request = LeaderAndIsrRequest(controller_epoch=7, ungrouped_partition_states=[state(0), state(1, replicas=[2])])
    Entry = LeaderAndIsrResponse.LeaderAndIsrPartitionError
    assert broker.ask(request, 0) == LeaderAndIsrResponse(
        partition_errors=[Entry("t", 0), Entry("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    )


def test_another_leader_is_elected_and_this_one_again(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0)), 7)
    broker.take()
    assert codes(broker.ask(leader_and_isr(state(0, leader=2, leader_epoch=4)), 7)) == [ErrorCode.NONE]
    assert broker.take() == [("forget", [P0]), ("FOLLOWER", P0), ("fetch", P0, 2, 4)]
    assert codes(broker.ask(leader_and_isr(state(0, leader_epoch=5)), 7)) == [ErrorCode.NONE]
    assert broker.take() == [("forget", [P0]), ("LEADER", P0)]
    assert codes(broker.ask(leader_and_isr(state(0, leader_epoch=5)), 7)) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert broker.take() == []


def test_a_log_that_is_there_is_not_created_again(broker: Controlled) -> None:
    log = broker.logs.add(P0)
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.NONE]
    assert (broker.logs.created, broker.replicas.leader("t", 0).log) == ([], log)


def test_a_log_of_another_topic_of_the_name_stays_as_it_is() -> None:
    broker = Controlled({P0: b"o" * 16})
    broker.logs.add(P0)
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert broker.role() is Role.CREATED
    broker.ask(stop_by_partition((0, -2, True)), 4)
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.NONE], "that log is gone"


def test_a_log_that_was_made_for_a_topic_without_a_leader_is_that_of_this_topic(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0, leader=6)), 7)
    other = leader_and_isr(state(0), topic_id=b"o" * 16)
    assert codes(broker.ask(other, 7)) == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_logs_in_a_directory() -> None:
    disk = MemoryDisk()
    directory = LogDirectory(LogServices(disk), lock_directory(disk), is_replicated=True)
    directory.open([])
    broker = Controlled(directory=directory)
    broker.topic_configs["t"] = {"retention.ms": "5"}
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.NONE]
    log = broker.replicas.leader("t", 0).log
    assert (directory.log("t", 0), log.config.retention_ms, log.leader_epoch) == (log, 5, 3)
    broker.ask(stop_by_partition((0, -2, True)), 4)
    assert (directory.log("t", 0), broker.role()) == (None, None)


def test_configurations_that_change_before_a_log_has_a_role() -> None:
    """A broker opens its logs long before the controller gives them roles."""
    disk = MemoryDisk()
    directory = LogDirectory(LogServices(disk), lock_directory(disk), is_replicated=True)
    directory.open([])
    directory.create([LogPlace("t", 0, ID, log_config({}))], lambda failed: None)
    broker = Controlled({P0: ID}, directory)
    broker.replicas.configure("t", {"retention.ms": "5"})
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.NONE]
    assert broker.replicas.leader("t", 0).log.config.retention_ms == 5


def test_configurations_that_change_while_a_log_is_created() -> None:
    work = HeldWork()
    disk = MemoryDisk()
    directory = LogDirectory(LogServices(disk, work), lock_directory(disk), is_replicated=True)
    directory.open([])
    broker = Controlled(directory=directory)
    broker.topic_configs["t"] = {"retention.ms": "1"}
    broker.send(leader_and_isr(state(0)), 7)
    broker.run()
    assert directory.log("t", 0) is None, "the disk is slow"
    broker.topic_configs["t"] = {"retention.ms": "5"}
    broker.replicas.configure("t", {"retention.ms": "5"})
    work.run()
    broker.run()
    assert broker.replicas.leader("t", 0).log.config.retention_ms == 5


def test_a_partition_without_a_leader_that_is_alive_gets_its_log_alone(broker: Controlled) -> None:
    assert codes(broker.ask(leader_and_isr(state(0, leader=6)), 7)) == [ErrorCode.NONE]
    assert broker.take() == [("read", ["t"])]
    assert (broker.role(), P0 in broker.logs.hosted) == (Role.CREATED, True)
    broker.ask(alive(1, 6), 8)
    assert codes(broker.ask(leader_and_isr(state(0, leader=6)), 7)) == [ErrorCode.NONE]
    assert broker.role() is Role.FOLLOWER, "the epoch was not adopted before"


def test_a_log_that_cannot_be_created_or_has_failed(broker: Controlled) -> None:
    broker.logs.broken = {P0}
    response = broker.ask(leader_and_isr(state(0), state(1)), 7)
    assert codes(response) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert (broker.role(0), broker.role(1)) == (None, Role.LEADER)
    broker.logs.hosted[P1].fail(OSError("broken"))
    assert codes(broker.ask(leader_and_isr(state(1, leader_epoch=4)), 7)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    stopped = broker.ask(stop_by_partition((1, -2, True)), 4)
    assert isinstance(stopped, StopReplicaResponse)
    assert [each.error_code for each in stopped.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_log_that_fails_while_others_are_created(broker: Controlled) -> None:
    log, broker.logs.held = broker.logs.add(P1), []
    broker.send(leader_and_isr(state(0), state(1)), 7)
    log.fail(OSError("broken"))
    while broker.logs.held:
        broker.logs.held.pop(0)()
    assert codes(broker.responses[-1]) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.defect
def test_an_epoch_before_that_of_the_records_changes_no_role(
    broker: Controlled, caplog: pytest.LogCaptureFixture
) -> None:
    broker.logs.add(P0).lead(9)
    response = broker.ask(leader_and_isr(state(0, leader_epoch=8), state(1)), 7)
    assert codes(response) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert (broker.role(0), broker.role(1)) == (Role.CREATED, Role.LEADER)
    assert "its last epoch is 9" in caplog.text


@pytest.mark.parametrize(("leader", "heard"), [(1, []), (2, [("fetch", P0, 2, 3)])])
def test_a_topic_gets_an_id_in_the_same_epoch(broker: Controlled, leader: int, heard: list[object]) -> None:
    broker.ask(leader_and_isr(state(0, leader=leader), topic_id=ZERO_UUID), 7)
    broker.take()
    assert codes(broker.ask(leader_and_isr(state(0, leader=leader)), 7)) == [ErrorCode.NONE]
    assert broker.take() == heard
    replica = broker.replicas.get("t", 0)
    assert replica is not None
    assert replica.term is not None
    assert replica.term.topic_id == ID
    assert broker.logs.identified == [{P0: ID}]
    assert codes(broker.ask(leader_and_isr(state(0, leader=leader)), 7)) == [ErrorCode.STALE_CONTROLLER_EPOCH]


def test_a_topic_gets_an_id_with_a_new_epoch(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0), topic_id=ZERO_UUID), 7)
    for _ in range(2):
        broker.ask(leader_and_isr(state(0, leader_epoch=4), state(1)), 7)
    assert broker.logs.identified == [{P0: ID}]


def test_an_id_that_cannot_be_noted(broker: Controlled) -> None:
    """After a restart, the folder would be set aside as belonging to a topic without an id."""
    broker.ask(leader_and_isr(state(0), topic_id=ZERO_UUID), 7)
    broker.logs.broken.add(P0)
    response = broker.ask(leader_and_isr(state(0), state(1)), 7)
    assert codes(response) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert broker.role(1) is Role.LEADER


def test_a_topic_that_gets_an_id_while_its_replica_is_stopped(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0), topic_id=ZERO_UUID), 7)
    broker.ask(stop_by_partition((0, 3, False)), 4)
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.NONE]
    assert broker.role() is Role.STOPPED


# StopReplica.


def test_replicas_are_stopped_and_deleted(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0), state(1, leader=2)), 7)
    broker.take()
    Entry = StopReplicaResponse.StopReplicaPartitionError
    assert broker.ask(stop_by_partition((0, 2, True), (0, 3, False), (1, 2, True)), 4) == StopReplicaResponse(
        partition_errors=[Entry("t", 0), Entry("t", 1, ErrorCode.FENCED_LEADER_EPOCH)]
    )
    assert broker.take() == [("forget", [P0]), ("STOPPED", P0)]
    assert broker.logs.deleted == []
    response = broker.ask(stop_by_partition((0, -2, True), (1, -2, True), (7, -2, True)), 4)
    assert response == StopReplicaResponse(partition_errors=[Entry("t", number) for number in (0, 1, 7)])
    assert broker.take() == [("forget", [P0, P1, ("t", 7)]), ("GONE", P0), ("GONE", P1)]
    assert broker.logs.deleted == [P0, P1, ("t", 7)], "a folder may have been left behind"
    assert broker.role() is None


def test_what_is_stopped_but_not_hosted_needs_no_log(broker: Controlled) -> None:
    response = broker.ask(stop_by_partition((0, 3, False)), 4)
    assert response == StopReplicaResponse(partition_errors=[StopReplicaResponse.StopReplicaPartitionError("t", 0)])
    assert (broker.role(), broker.logs.deleted) == (None, [])


def test_a_deletion_that_fails(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0)), 7)
    broker.logs.broken = {P0}
    response = broker.ask(stop_by_partition((0, -2, True)), 4)
    assert isinstance(response, StopReplicaResponse)
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_who_waits_for_a_deleted_partition_looks_elsewhere(broker: Controlled) -> None:
    broker.ask(leader_and_isr(state(0)), 7)
    found: list[object] = []
    broker.replicas.leader("t", 0).when_reached(1, lambda error: found.append(error and error.code))
    broker.ask(stop_by_partition((0, -2, True)), 4)
    assert found == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# UpdateMetadata.


def test_the_image_follows_and_configurations_are_read_first(broker: Controlled) -> None:
    broker.topic_configs["a"] = {"retention.ms": "5"}
    assert broker.ask(alive(1, 4, topics=["a"]), 8) == UpdateMetadataResponse()
    image = broker.cluster.metadata.image
    assert (list(image.brokers), image.topics["a"].configs) == ([1, 4], {"retention.ms": "5"})
    assert broker.take() == [("read", ["a"])]
    broker.ask(alive(1, topics=["a"]), 8)
    assert broker.take() == [], "the partitions are already known"


# Epochs.

REQUESTS = [
    pytest.param(leader_and_isr, (state(0),), 7, id="LeaderAndIsr"),
    pytest.param(stop_by_partition, ((0, 3, True),), 4, id="StopReplica"),
    pytest.param(alive, (1, 5), 8, id="UpdateMetadata"),
]


@pytest.mark.parametrize(("build", "arguments", "version"), REQUESTS)
@pytest.mark.parametrize(
    ("epochs", "code"),
    [
        ({"broker_epoch": BROKER_EPOCH - 1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"controller_epoch": 6}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"controller_epoch": 6, "broker_epoch": BROKER_EPOCH - 1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"is_k_raft_controller": True}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_of_others_change_nothing(broker: Controlled, build, arguments, version, epochs, code) -> None:
    before = broker.cluster.metadata.image
    request = build(*arguments)
    for name, value in epochs.items():
        setattr(request, name, value)
    response = broker.ask(request, version)
    if isinstance(response, LeaderAndIsrResponse):
        entry = LeaderAndIsrResponse.LeaderAndIsrPartitionError("", 0, code)
        topics = [LeaderAndIsrResponse.LeaderAndIsrTopicError(ID, [entry])]
        assert response == LeaderAndIsrResponse(code, topics=topics)
    else:
        assert response in (StopReplicaResponse(code), UpdateMetadataResponse(code))
    assert broker.take() == []
    assert (broker.logs.created, broker.logs.deleted) == ([], [])
    assert broker.cluster.metadata.image is before
    assert broker.requests.controller_epoch == 7


@pytest.mark.parametrize(("build", "arguments", "version"), REQUESTS)
@pytest.mark.parametrize("broker_epoch", [BROKER_EPOCH, BROKER_EPOCH + 1, -1])
def test_requests_of_a_later_controller_are_carried_out(
    broker: Controlled, build, arguments, version, broker_epoch
) -> None:
    response = broker.ask(build(*arguments, controller_epoch=8, broker_epoch=broker_epoch), version)
    assert isinstance(response, LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse)
    assert response.error_code == ErrorCode.NONE
    assert broker.requests.controller_epoch == 8


# The queue.


def test_requests_come_one_after_the_other(broker: Controlled) -> None:
    broker.logs.held = []
    before = len(broker.responses)
    broker.send(leader_and_isr(state(0)), 7)
    broker.send(stop_by_partition((0, 3, True)), 4)
    broker.send(alive(1), 8)
    broker.run()
    assert (len(broker.responses), broker.logs.deleted) == (before, [])
    broker.logs.held.pop()()
    broker.run()
    assert [type(each) for each in broker.responses[before:]] == [LeaderAndIsrResponse]
    broker.logs.held.pop()()
    broker.run()
    assert [type(each) for each in broker.responses[before + 1 :]] == [StopReplicaResponse, UpdateMetadataResponse]


def test_requests_wait_until_the_broker_has_registered(broker: Controlled) -> None:
    before = len(broker.responses)
    broker.broker_epoch = -1
    broker.send(leader_and_isr(state(0), broker_epoch=BROKER_EPOCH - 1), 7)  # for the former process
    broker.send(alive(1, broker_epoch=BROKER_EPOCH), 8)
    broker.run()
    assert len(broker.responses) == before
    broker.broker_epoch = BROKER_EPOCH
    broker.requests.registered()
    broker.run()
    answers = broker.responses[before:]
    assert [type(each) for each in answers] == [LeaderAndIsrResponse, UpdateMetadataResponse]
    assert [getattr(each, "error_code", None) for each in answers] == [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NONE]
    broker.requests.registered()  # as in another session
    assert broker.run() == 0


def test_others_have_turns_during_a_large_request(broker: Controlled) -> None:
    request = leader_and_isr(*(state(number) for number in range(1200)))
    before = len(broker.responses)
    broker.send(request, 7)
    assert len(broker.responses) == before
    assert broker.run() >= 4, "two steps of 500 make the decisions, and two more carry them out"
    assert set(codes(broker.responses[before])) == {ErrorCode.NONE}


def test_no_more_requests_wait_than_the_limit(broker: Controlled) -> None:
    broker.logs.held = []
    broker.send(leader_and_isr(state(0)), 7)
    before = len(broker.responses)
    for _ in range(QUEUED_MAX):
        broker.send(alive(1), 8)
    (refused,) = broker.responses[before:]
    assert isinstance(refused, RemoteProtocolError)
    assert str(QUEUED_MAX) in str(refused)
    broker.logs.held[0]()
    broker.run()
    assert len(broker.responses) == before + 1 + QUEUED_MAX


@pytest.mark.defect
@pytest.mark.parametrize("part", ["read", "forget"])
def test_a_defect_is_answered_and_the_queue_goes_on(
    broker: Controlled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    def broken(*arguments: object) -> None:
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Controlled, part, broken)
        response = broker.ask(leader_and_isr(state(0)), 7)
    assert isinstance(response, LeaderAndIsrResponse)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ValueError: broken" in caplog.text
    assert codes(broker.ask(leader_and_isr(state(0)), 7)) == [ErrorCode.NONE]


def test_nothing_happens_after_the_end(broker: Controlled) -> None:
    broker.logs.held = []
    before = len(broker.responses)
    broker.send(leader_and_isr(state(0)), 7)
    broker.send(alive(5), 8)
    broker.requests.close()
    broker.logs.held[0]()
    broker.run()
    assert (broker.responses[before:], broker.role()) == ([], None)
    broker.requests.close()
