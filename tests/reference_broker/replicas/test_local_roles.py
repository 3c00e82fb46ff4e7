"""A single broker leads the partitions that its metadata image assigns to it, and no others.

Method: use a directory on an in-memory disk, and change its topics through `LocalTopics`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.hosted_topics import BROKER_ID, Hosted
from tests.reference_broker.storage.directories import on


@pytest.fixture
def hosted() -> Hosted:
    hosted = Hosted(on(MemoryDisk()))
    hosted.create("old", 2)
    return hosted


def test_topics_that_come_and_go(hosted: Hosted) -> None:
    directory, replicas = hosted.directory, hosted.replicas
    assert [replica.log for replica in replicas.of("old")] == [*directory.of("old").values()]
    hosted.create("new")
    assert replicas.leader("new", 0).log is directory.log("new", 0)
    hosted.delete("old")
    assert (replicas.of("old"), replicas.get("old", 0)) == ([], None)


def test_what_is_there_at_the_start(hosted: Hosted) -> None:
    again = hosted.begin(hosted.topics.metadata.image)
    assert [replica.log for replica in again.of("old")] == [*hosted.directory.of("old").values()]
    assert [replica.role for replica in again.of("old")] == [Role.LEADER] * 2


def test_the_term_is_that_of_the_image(hosted: Hosted) -> None:
    topic = hosted.topics.metadata.image.topics["old"]
    only = (BROKER_ID,)
    assert [replica.term for replica in hosted.replicas.of("old")] == [
        Term(BROKER_ID, 0, only, only, topic_id=topic.topic_id)
    ] * 2
    first, second = topic.partitions
    later = topic._replace(partitions=(first, second._replace(leader_epoch=7)))
    replicas = hosted.begin(hosted.topics.metadata.image.with_changes([later]).after)
    assert replicas.leader("old", 0, 0).leader_epoch == 0
    assert replicas.leader("old", 1, 7).log.leader_epoch == 7
    with pytest.raises(BrokerError) as raised:
        replicas.leader("old", 1, 0)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_partitions_of_other_brokers_are_not_here(hosted: Hosted) -> None:
    topic = hosted.topics.metadata.image.topics["old"]
    moved = topic.partitions[0]._replace(replicas=(2,), leader=2)
    elsewhere = topic._replace(name="old", partitions=(moved, topic.partitions[1]))
    replicas = hosted.begin(hosted.topics.metadata.image.with_changes([elsewhere]).after)
    assert (replicas.get("old", 0), len(replicas.of("old"))) == (None, 1)
    assert replicas.leader("old", 1).log is hosted.directory.log("old", 1)


def test_those_who_wait_for_a_deleted_topic_find_it_ended(hosted: Hosted) -> None:
    found = []

    def told(error: BrokerError | None) -> None:
        replica = hosted.replicas.get("old", 0)
        found.append((error is not None and error.code, replica is not None and replica.error is error))

    hosted.replicas.leader("old", 0).when_reached(1, told)
    hosted.delete("old")
    assert found == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)]
    assert not hosted.lost, "deleting a topic is not a failure"


def test_a_topic_that_is_created_again_while_the_old_one_ends_is_there(hosted: Hosted) -> None:
    directory, replicas = hosted.directory, hosted.replicas
    old = directory.log("old", 0)
    replicas.leader("old", 0).when_reached(1, lambda error: hosted.create("old"))
    hosted.delete("old")
    (replica,) = replicas.of("old")
    assert replica.log is directory.log("old", 0)
    assert replica.log is not old


def test_logs_go_by_the_configurations_of_their_topic(hosted: Hosted) -> None:
    hosted.create("other", 1, retention_ms="1000")
    image = hosted.topics.metadata.image
    changed = {"retention.ms": "5", "segment.bytes": "1048576"}
    hosted.topics.configure(image.topics["old"], lambda before: {**before, **changed}, lambda topic: None)
    configs = [replica.log.config for replica in hosted.replicas.of("old")]
    assert [(config.retention_ms, config.segment_bytes) for config in configs] == [(5, 1048576)] * 2
    assert hosted.replicas.leader("other", 0).log.config.retention_ms == 1000
    hosted.topics.configure(image.topics["old"], lambda before: {"segment.bytes": "1048576"}, lambda topic: None)
    assert hosted.topics.metadata.image.topics["old"].configs == {"segment.bytes": "1048576"}
    assert hosted.replicas.leader("old", 0).log.config.retention_ms == 7 * 24 * 3600 * 1000


def test_more_partitions_of_a_topic_are_there_and_those_before_stay_as_they_are(hosted: Hosted) -> None:
    before = hosted.replicas.of("old")
    hosted.topics.add_partitions(hosted.topics.metadata.image.topics["old"], 4, lambda topic: None)
    assert [replica.log for replica in hosted.replicas.of("old")] == [*hosted.directory.of("old").values()]
    assert hosted.replicas.of("old")[:2] == before
    hosted.replicas.leader("old", 3).log.fail(OSError("broken"))
    assert [partition.has_leader for partition in hosted.topics.metadata.image.topics["old"].partitions] == [
        *[True] * 3,
        False,
    ]


def test_a_log_that_has_failed_before_the_start_leads_nothing(hosted: Hosted) -> None:
    log = hosted.directory.log("old", 1)
    assert log is not None
    log.fail(OSError("broken"))
    replicas = hosted.begin(hosted.topics.metadata.image)
    assert [replica.role for replica in replicas.of("old")] == [Role.LEADER, Role.OFFLINE]
    with pytest.raises(BrokerError) as raised:
        replicas.leader("old", 1)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
