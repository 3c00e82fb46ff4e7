"""Replicas get their roles by partition name; handlers find leading replicas, and listeners are told of each step.

Method: use a directory on an in-memory disk, and change its topics through `LocalTopics`. See `test_local_roles.py` for
the roles that a metadata image assigns.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, BrokerRegistration
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.replicas.hosted_topics import Hosted
from tests.reference_broker.replicas.leading import term
from tests.reference_broker.storage.directories import on

ENDED = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted")


@pytest.fixture
def hosted() -> Hosted:
    hosted = Hosted(on(MemoryDisk()))
    hosted.create("old", 2)
    return hosted


def refusal(hosted: Hosted, topic: str, number: int, epoch: int = -1) -> ErrorCode:
    with pytest.raises(BrokerError) as raised:
        hosted.replicas.leader(topic, number, epoch)
    return raised.value.code


@pytest.mark.parametrize(("topic", "number"), [("none", 0), ("old", 2), ("old", -1)])
def test_what_does_not_exist(hosted: Hosted, topic: str, number: int) -> None:
    assert hosted.replicas.get(topic, number) is None
    assert refusal(hosted, topic, number) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_other_brokers_have(hosted: Hosted) -> None:
    """After NOT_LEADER_OR_FOLLOWER, clients look for another leader."""
    topic = hosted.topics.metadata.image.topics["old"]
    elsewhere = topic.partitions[0]._replace(replicas=(2,), leader=2)
    partitions = (*topic.partitions, elsewhere, UNKNOWN_PARTITION, elsewhere)
    hosted.topics.metadata.publish([topic._replace(partitions=partitions)])
    assert refusal(hosted, "old", 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(hosted, "old", 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no broker is known to have it"
    assert refusal(hosted, "old", 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_clients_are_told_of_the_leader(hosted: Hosted) -> None:
    """The controller's last word about a replica takes precedence over the image, which may be older."""
    topic, second = hosted.topics.metadata.image.topics["old"], BrokerRegistration(2, {})
    elsewhere = topic.partitions[0]._replace(replicas=(2,), leader=2, leader_epoch=7)
    partitions = (*topic.partitions, elsewhere, UNKNOWN_PARTITION)
    hosted.topics.metadata.publish([topic._replace(partitions=partitions)], brokers={2: second})
    hosted.replicas.follow("old", 0, term(5, leader=2))
    hosted.replicas.follow("old", 1, term(5, leader=3))
    found = [hosted.replicas.current_leader("old", number) for number in range(5)]
    assert found == [(2, 5, second), (3, 5, None), (2, 7, second), (-1, -1, None), (-1, -1, None)]
    assert hosted.replicas.current_leader("none", 0) == (-1, -1, None)


def test_clients_of_other_epochs(hosted: Hosted) -> None:
    assert hosted.replicas.leader("old", 1, 0).log is hosted.directory.log("old", 1)
    assert refusal(hosted, "old", 1, 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    hosted.replicas.follow("old", 1, term(2, leader=2))
    assert refusal(hosted, "old", 1, 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(hosted, "old", 1, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_roles_and_what_listeners_hear(hosted: Hosted) -> None:
    heard: list[tuple[Partition, Role, Role]] = []

    hosted.replicas.listen(lambda partition, replica, before: heard.append((partition, before, replica.role)))
    hosted.replicas.follow("old", 0, term(1, leader=2))
    hosted.replicas.lead("old", 0, term(2))
    hosted.replicas.stop("old", 0)
    hosted.replicas.delete("old", 0, ENDED)
    hosted.replicas.delete("old", 0, ENDED)
    assert heard == [
        (("old", 0), Role.LEADER, Role.FOLLOWER),
        (("old", 0), Role.FOLLOWER, Role.LEADER),
        (("old", 0), Role.LEADER, Role.STOPPED),
        (("old", 0), Role.STOPPED, Role.GONE),
    ]
    assert [replica.log for replica in hosted.replicas.of("old")] == [hosted.directory.log("old", 1)]
    hosted.replicas.delete("old", 1, ENDED)
    assert hosted.replicas.of("old") == []


@pytest.mark.defect
def test_a_listener_that_breaks_keeps_no_other_from_hearing(hosted: Hosted, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Role] = []

    def broken(partition: Partition, replica: Replica, before: Role) -> None:
        raise ValueError("broken")

    hosted.replicas.listen(broken)
    hosted.replicas.listen(lambda partition, replica, before: heard.append(replica.role))
    hosted.replicas.stop("old", 0)
    assert heard == [Role.STOPPED]
    assert caplog.text.count("ValueError: broken") == 1


def test_a_listener_that_hears_of_the_end_finds_nobody_told_yet(hosted: Hosted) -> None:
    heard: list[str] = []
    hosted.replicas.listen(lambda partition, replica, before: heard.append(replica.role.name))
    hosted.replicas.leader("old", 0).when_reached(1, lambda error: heard.append("refused"))
    hosted.replicas.follow("old", 0, term(1, leader=2))
    assert heard == ["FOLLOWER", "refused"]


def test_a_partition_whose_log_appears_later(hosted: Hosted) -> None:
    hosted.replicas.abandon()
    with pytest.raises(BrokerError, match="this broker has no log for old-7") as raised:
        hosted.replicas.lead("old", 7, term(1))
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for number in (1, 0):
        hosted.replicas.lead("old", number, term(1))
    assert [replica.log for replica in hosted.replicas.of("old")] == [*hosted.directory.of("old").values()]


def test_an_offline_log_takes_no_role(hosted: Hosted) -> None:
    hosted.replicas.leader("old", 1).log.fail(OSError("broken"))
    for change in (
        lambda: hosted.replicas.lead("old", 1, term(1)),
        lambda: hosted.replicas.follow("old", 1, term(1, leader=2)),
        lambda: hosted.replicas.stop("old", 1),
    ):
        with pytest.raises(BrokerError) as raised:
            change()
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_that_goes_offline_leaves_its_partition_without_a_leader(hosted: Hosted) -> None:
    hosted.replicas.leader("old", 1).log.fail(OSError("broken"))
    assert hosted.lost == [("old", 1)]
    first, second = hosted.topics.metadata.image.topics["old"].partitions
    assert (first.has_leader, second.has_leader) == (True, False)
    assert (second.isr, second.replicas, second.offline_replicas) == ((), (1,), (1,))
    assert (second.eligible_leader_replicas, second.last_known_elr) == ((1,), (1,))
    assert refusal(hosted, "old", 1) is ErrorCode.KAFKA_STORAGE_ERROR


def test_configurations_reach_the_logs_in_every_role(hosted: Hosted) -> None:
    hosted.replicas.follow("old", 1, term(1, leader=2))
    hosted.replicas.configure("old", {"retention.ms": "5"})
    assert [replica.log.config.retention_ms for replica in hosted.replicas.of("old")] == [5, 5]


def test_nothing_is_left_of_replicas_that_are_let_go(hosted: Hosted) -> None:
    hosted.replicas.abandon()
    assert hosted.replicas.of("old") == []
