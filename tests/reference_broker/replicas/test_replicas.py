"""A broker has the replicas that the metadata image assigns to it, with their configurations, and reports lost logs.

Method: a directory on a disk in memory, whose topics are changed by `LocalTopics`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.local_topics import LocalTopics
from kafkawire.reference_broker.metadata.topic_store import TopicStore
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.directories import on


class Hosted:
    """The replicas of a directory, and the controller that changes its topics."""

    def __init__(self, store: TopicStore) -> None:
        self.directory = directory = store.directory
        self.lost: list[tuple[str, int]] = []
        self.topics = LocalTopics(
            store, read_options({}), directory.services.timers, {}, {}, lambda topic, done, now_ms: done()
        )
        self.replicas = Replicas(1, directory, self.topics.metadata.image, self._lost)
        self.topics.metadata.listen(self.replicas.changed)

    def _lost(self, topic: str, number: int) -> None:
        self.lost.append((topic, number))
        self.topics.lost(topic, number)

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.topics.create(name, partitions, named, lambda made: None)

    def delete(self, name: str) -> None:
        self.topics.delete(self.topics.metadata.image.topics[name], 0, lambda error: None)


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
    again = Replicas(1, hosted.directory, hosted.topics.metadata.image, lambda topic, number: None)
    assert [replica.log for replica in again.of("old")] == [*hosted.directory.of("old").values()]


def test_partitions_of_other_brokers_are_not_here(hosted: Hosted) -> None:
    topic = hosted.topics.metadata.image.topics["old"]
    moved = topic.partitions[0]._replace(replicas=(2,), leader=2)
    elsewhere = topic._replace(name="old", partitions=(moved, topic.partitions[1]))
    image = hosted.topics.metadata.image.with_changes([elsewhere]).after
    replicas = Replicas(1, hosted.directory, image, lambda topic, number: None)
    assert (replicas.get("old", 0), len(replicas.of("old"))) == (None, 1)
    assert replicas.leader("old", 1).log is hosted.directory.log("old", 1)


@pytest.mark.parametrize(("topic", "number"), [("none", 0), ("old", 2), ("old", -1)])
def test_what_is_not_here(hosted: Hosted, topic: str, number: int) -> None:
    assert hosted.replicas.get(topic, number) is None
    with pytest.raises(BrokerError) as raised:
        hosted.replicas.leader(topic, number)
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_clients_of_other_epochs(hosted: Hosted) -> None:
    assert hosted.replicas.leader("old", 1, 0).log is hosted.directory.log("old", 1)
    with pytest.raises(BrokerError) as raised:
        hosted.replicas.leader("old", 1, 1)
    assert raised.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_epoch_is_that_of_the_image(hosted: Hosted) -> None:
    topic = hosted.topics.metadata.image.topics["old"]
    later = topic._replace(partitions=tuple(each._replace(leader_epoch=7) for each in topic.partitions))
    image = hosted.topics.metadata.image.with_changes([later]).after
    replicas = Replicas(1, hosted.directory, image, lambda topic, number: None)
    assert replicas.leader("old", 0, 7).leader_epoch == 7
    with pytest.raises(BrokerError) as raised:
        replicas.leader("old", 0, 0)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_those_who_wait_for_a_deleted_topic_find_it_ended(hosted: Hosted) -> None:
    found = []

    def told(error: BrokerError | None) -> None:
        replica = hosted.replicas.get("old", 0)
        found.append((error is not None and error.code, replica is not None and replica.error is error))

    hosted.replicas.leader("old", 0).when_reached(1, told)
    hosted.delete("old")
    assert found == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)]
    assert not hosted.lost, "a deleted topic is no failure"


def test_a_topic_that_is_created_again_while_the_old_one_ends_is_there(hosted: Hosted) -> None:
    directory, replicas = hosted.directory, hosted.replicas
    old = directory.log("old", 0)
    replicas.leader("old", 0).when_reached(1, lambda error: hosted.create("old"))
    hosted.delete("old")
    (replica,) = replicas.of("old")
    assert replica.log is directory.log("old", 0)
    assert replica.log is not old


def test_a_log_that_goes_offline_leaves_its_partition_without_a_leader(hosted: Hosted) -> None:
    hosted.replicas.leader("old", 1).log.fail(OSError("broken"))
    assert hosted.lost == [("old", 1)]
    first, second = hosted.topics.metadata.image.topics["old"].partitions
    assert (first.has_leader, second.has_leader) == (True, False)
    assert (second.isr, second.replicas, second.offline_replicas) == ((), (1,), (1,))
    assert (second.eligible_leader_replicas, second.last_known_elr) == ((1,), (1,))
    with pytest.raises(BrokerError) as raised:
        hosted.replicas.leader("old", 1)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_logs_go_by_the_configurations_of_their_topic(hosted: Hosted) -> None:
    hosted.create("other", 1, retention_ms="1000")
    image = hosted.topics.metadata.image
    hosted.topics.configure(image.topics["old"], {"retention.ms": "5", "segment.bytes": "1048576"}, lambda topic: None)
    configs = [replica.log.config for replica in hosted.replicas.of("old")]
    assert [(config.retention_ms, config.segment_bytes) for config in configs] == [(5, 1048576)] * 2
    assert hosted.replicas.leader("other", 0).log.config.retention_ms == 1000
    hosted.topics.configure(image.topics["old"], {"retention.ms": None}, lambda topic: None)
    assert hosted.topics.metadata.image.topics["old"].configs == {"segment.bytes": "1048576"}
    assert hosted.replicas.leader("old", 0).log.config.retention_ms == 7 * 24 * 3600 * 1000


def test_nothing_is_left_of_replicas_that_are_let_go(hosted: Hosted) -> None:
    hosted.replicas.abandon()
    assert hosted.replicas.of("old") == []


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
