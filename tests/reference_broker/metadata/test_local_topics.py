"""An auto-created topic gets the broker's defaults, and must have a name that Kafka allows.

Method: use a broker without sockets; `apis/test_create_topics.py` tests the options of CreateTopics.
"""

import errno
from typing import NoReturn

import pytest

from kafkawire.reference_broker.metadata.image import PartitionImage, TopicImage
from kafkawire.reference_broker.metadata.local_topics import LocalTopics
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.reference_broker.metadata.topic_files import LocalTopic
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_sometimes
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.held_work import HeldWork


def test_defaults(tmp_path):
    bench = BrokerBench(tmp_path / "data", num_partitions=4)
    made = []
    bench.core.topics.create_by_default("new", made.append)
    (topic,) = made
    assert (len(topic.partitions), topic.configs) == (4, {})
    assert bench.core.metadata.image.topics["new"] is topic
    assert len(bench.core.directory.of("new")) == 4


@pytest.mark.parametrize("name", ["a", "x" * 249, "A.b_c-9", "...", "_"])
def test_allowed_names(bench, name):
    bench.core.topics.check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "ä", "a\n", "__cluster_metadata"])
def test_names_that_are_not_allowed(bench, name):
    with pytest.raises(BrokerError):
        bench.core.topics.create_by_default(name, lambda result: None)
    assert not bench.store.topics


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b", "a.b")])
def test_names_that_collide(bench, first, second):
    bench.create(first)
    with pytest.raises(BrokerError):
        bench.core.topics.check_name(second)


def test_name_is_free_again_when_the_topic_is_gone(bench):
    bench.create("a.b")
    bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("a.b")], timeout_ms=60_000))
    bench.create("a_b")
    with pytest.raises(BrokerError, match="collides with existing topic: a_b"):
        bench.core.topics.check_name("a.b")


def test_names_collide_from_the_start_of_creation_and_after_a_restart():
    bench = BrokerBench(disk := MemoryDisk(), work := HeldWork())
    bench.core.topics.create(NewTopic("a.b", 1), lambda made: None)
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"collides with existing topic: a\.b"):
            bench.core.topics.check_name("a_b")
        work.run()
    with pytest.raises(BrokerError, match=r"collides with existing topic: a\.b"):
        BrokerBench(disk.crash()).core.topics.check_name("a_b")


def test_a_name_is_not_compared_with_every_other(bench):
    """A request may have thousands of names, and a broker thousands of topics."""

    class Unlisted(dict[str, LocalTopic]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("the code iterated over all names")

    bench.store.topics = Unlisted(bench.store.topics)
    bench.core.topics.check_name("a.b")


def test_names_of_topics_that_were_never_made_are_not_kept():
    """While the disk is full, clients may try arbitrarily many names."""
    bench = BrokerBench(disk := MemoryDisk())
    topics = bench.core.topics
    assert isinstance(topics, LocalTopics)
    disk.plan = fail_sometimes(0, 1.0, errno.ENOSPC)
    made: list[TopicImage | BrokerError] = []
    for number in range(3):
        topics.create(NewTopic(f"t.{number}", 1), made.append)
    assert [type(each) for each in made] == [BrokerError] * 3
    assert not topics._similar_names


def test_a_broker_alone_is_a_controller_of_topics(bench):
    controller: TopicController = bench.core.topics
    assert controller is bench.core.topics


def test_all_who_want_a_topic_wait_for_the_same_one():
    bench = BrokerBench(MemoryDisk(), work := HeldWork())
    made: list[TopicImage | BrokerError] = []
    bench.core.topics.create(NewTopic("t", 2), made.append)
    for _ in range(2):
        bench.core.topics.create_by_default("t", made.append)
    assert not bench.core.metadata.image.topics, "the topic is not durable yet"
    work.run()
    assert made == [bench.core.metadata.image.topics["t"]] * 3
    assert len(bench.core.replicas.of("t")) == 2


def test_a_topic_that_is_only_validated_is_described(bench):
    made: list[TopicImage | BrokerError] = []
    for new in (
        NewTopic("t", 2, configs={"retention.ms": "1"}),
        NewTopic("t", 0),
        NewTopic("t", assignments=[(0, [9])]),
    ):
        bench.core.topics.create(new, made.append, validate_only=True)
    node = (bench.core.options.node_id,)
    described, *errors = made
    assert described == TopicImage("t", ZERO_UUID, (PartitionImage(node[0], 0, node, node),) * 2, {"retention.ms": "1"})
    codes = [error.code for error in errors if isinstance(error, BrokerError)]
    assert codes == [ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert not bench.core.metadata.image.topics


def test_what_the_disk_has_is_the_image_at_the_start():
    bench = BrokerBench(disk := MemoryDisk())
    topic_id = bench.create("t", 2, cleanup_policy="compact")
    node = (bench.core.options.node_id,)
    image = BrokerBench(disk.crash()).core.metadata.image
    assert image.cluster_id == bench.store.cluster_id
    assert image.controller_id in image.brokers
    topic = image.topics["t"]
    assert (topic.topic_id, topic.configs) == (topic_id, {"cleanup.policy": "compact"})
    (partition,) = set(topic.partitions)
    assert partition == PartitionImage(node[0], 1, node, node), "startup after a crash begins a new epoch"
    assert image.topics_by_id == {topic_id: topic}


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_a_deletion_that_ends_after_the_broker_has_no_effect(end):
    bench = BrokerBench(MemoryDisk(), work := HeldWork())
    bench.core.topics.create(NewTopic("t", 1), lambda made: None)
    work.run()
    told: list[BrokerError | None] = []
    bench.core.topics.delete(bench.core.metadata.image.topics["t"], bench.now_ms, told.append)
    getattr(bench.core, end)()
    work.run()
    (error,) = told
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
