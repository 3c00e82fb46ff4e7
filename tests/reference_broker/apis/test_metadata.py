"""In every version, Metadata shows brokers and topics, and creates topics if the request allows it.

Method: send requests to a broker without sockets.
"""

import pytest

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, PartitionImage, TopicImage
from kafkawire.reference_broker.metadata.new_topics import PARTITIONS_MAX
from kafkawire.reference_broker.requests.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.several_brokers import BROKERS, INSIDE
from tests.reference_broker.broker_bench import NOT_ASKED, BrokerBench, all_steps, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.thorough import sampled

Topic = MetadataRequest.MetadataRequestTopic


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_every_version(bench, version):
    topic_id = bench.create(partitions=2)
    response = bench.ask(MetadataRequest([Topic(name="t")]), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "broker", 9092)]
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (ErrorCode.NONE, "t", False)
    assert topic.topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (bench.store.cluster_id if version >= 2 else None)
    for number, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.leader_id) == (number, 1)
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert partition.replica_nodes == partition.isr_nodes == (1,)
    assert len(topic.partitions) == 2


@pytest.mark.parametrize(
    ("version", "topics", "count"), [(0, [], 2), (1, [], 0), (1, None, 2), (12, None, 2), (12, [], 0)]
)
def test_all_topics(bench, version, topics, count):
    bench.create("a")
    bench.create("b")
    assert len(bench.ask(MetadataRequest(topics), version).topics) == count


UNKNOWN, INVALID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("option", "may_create", "name", "code", "comes"),
    [
        (True, True, "new", UNKNOWN, True),
        (True, False, "new", UNKNOWN, False),
        (False, True, "new", UNKNOWN, False),
        (True, True, "__consumer_offsets", UNKNOWN, True),
        (True, True, "__cluster_metadata", UNKNOWN, False),
        (True, True, "o_ld", UNKNOWN, False),
        (True, True, "bad name", INVALID, False),
        (True, False, "bad name", INVALID, False),
        (False, True, "bad name", INVALID, False),
        (True, True, "", INVALID, False),
    ],
)
def test_a_missing_topic_is_unknown_and_then_there(tmp_path, option, may_create, name, code, comes):
    bench = BrokerBench(tmp_path / "data", auto_create_topics=option, num_partitions=3)
    bench.create("o.ld")
    request = MetadataRequest([Topic(name=name)], may_create)
    (topic,) = bench.ask(request).topics
    assert (topic.error_code, topic.name, topic.partitions, topic.topic_id) == (code, name, (), ZERO_UUID)
    assert topic.is_internal is name.startswith("__consumer")
    (topic,) = bench.ask(request).topics
    assert topic.error_code == (ErrorCode.NONE if comes else code)
    expected = 0 if not comes else 1 if topic.is_internal else 3
    assert len(topic.partitions) == expected


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_a_missing_topic_comes_in_every_version(bench, version):
    request = MetadataRequest([Topic(name="new")])
    for code in (UNKNOWN, ErrorCode.NONE):
        (topic,) = bench.ask(request, version).topics
        assert (topic.error_code, len(topic.partitions)) == (code, int(code == ErrorCode.NONE))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("__cluster_metadata", "INVALID_REQUEST: Creation of internal topic __cluster_metadata is prohibited."),
        ("o_ld", "INVALID_TOPIC_EXCEPTION: Topic 'o_ld' collides with existing topic: o.ld"),
    ],
)
def test_the_log_says_why_a_topic_does_not_come(bench, caplog, name, line):
    bench.create("o.ld")
    bench.ask(MetadataRequest([Topic(name=name)]))
    assert [record.message for record in caplog.records] == [f"could not create the topic {name}: {line}"]


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA)[12:])
def test_by_id(bench, version):
    topic_id = bench.create()
    request = MetadataRequest([Topic(topic_id, None), Topic(b"x" * 16, None)], False)
    known, unknown = bench.ask(request, version).topics
    assert (known.error_code, known.name) == (ErrorCode.NONE, "t")
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"x" * 16)


def test_what_is_named_twice_is_answered_once(bench):
    """Otherwise, a 100 kB request could lead to a response of several gigabytes."""
    topic_id = bench.create()
    names = [Topic(name=name) for name in ("t", "none", "a b", "t", "none", "a b")]
    topics = bench.ask(MetadataRequest(names, False)).topics
    assert [topic.name for topic in topics] == ["t", "none", "a b"]
    ids = [Topic(each, None) for each in (topic_id, b"x" * 16, topic_id, b"x" * 16)]
    topics = bench.ask(MetadataRequest([*ids, Topic(name="none")], False)).topics
    assert [(topic.name, topic.topic_id) for topic in topics] == [("t", topic_id), (None, b"x" * 16)]


@pytest.mark.parametrize("names", sampled([(("a", "b", "c"),), (("a", "b"),)], 2))
def test_one_request_makes_no_more_partitions_than_create_topics_would(caplog, names):
    bench = BrokerBench(MemoryDisk(), num_partitions=PARTITIONS_MAX // 2)
    bench.create("old")
    topics = bench.ask(MetadataRequest([Topic(name=name) for name in ("old", *names, "d e")])).topics
    assert [topic.error_code for topic in topics] == [ErrorCode.NONE, *[UNKNOWN] * len(names), INVALID]
    are_too_many = len(names) > 2
    assert list(bench.store.topics) == ["old", *(() if are_too_many else names)]
    lines = [record.message for record in caplog.records]
    assert (
        lines
        == ["not creating 3 topics with 15000 partitions: the limit for one request is 10000"][: int(are_too_many)]
    )


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("by_name", [False, True])
def test_ids_are_not_taken_in_the_first_versions_that_have_them(bench, version, by_name):
    """In these versions, the topic name in a response cannot be null."""
    topic_id = bench.create()
    asked = Topic(topic_id, "t") if by_name else Topic(name=None)
    (topic,) = bench.ask(MetadataRequest([asked], False), version).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "t" if by_name else "")


def test_topics_of_the_broker_are_internal(bench):
    bench.offsets_topic()
    (topic,) = bench.ask(MetadataRequest([Topic(name="__consumer_offsets")])).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 1)


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_leaders_that_the_client_cannot_reach(bench, version):
    """Broker 3 lacks the client's listener, and broker 4 is not alive."""
    partitions = tuple(PartitionImage(leader, 5, (leader,), (leader, 2)) for leader in (1, 2, 3, 4))
    topic = TopicImage("t", b"t" * 16, partitions, {})
    bench.core.metadata.publish([topic], brokers=BROKERS, controller_id=NO_CONTROLLER_ID)
    response = bench.ask(MetadataRequest([Topic(name="t")]), version)
    assert [(each.node_id, each.rack) for each in response.brokers] == [(1, None), (2, "east" if version else None)]
    assert response.controller_id == -1
    (described,) = response.topics
    no_listener = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert [(each.error_code, each.leader_id) for each in described.partitions] == [
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 2),
        (no_listener, -1),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1),
    ]
    hidden = ((), (2,)) if version == 0 else None
    for leader, each in enumerate(described.partitions, 1):
        assert each.leader_epoch == (5 if version >= 7 else -1)
        expected = hidden if hidden and leader > 2 else ((leader,), (leader, 2))
        assert (each.isr_nodes, each.replica_nodes) == expected


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_a_client_gets_the_addresses_of_the_listener_that_it_came_through(bench, version):
    partitions = tuple(PartitionImage(leader, 5, (leader,), (leader, 2)) for leader in (3, 4))
    bench.core.metadata.publish([TopicImage("t", b"t" * 16, partitions, {})], brokers=BROKERS, controller_id=3)
    bench.peer = INSIDE
    response = bench.ask(MetadataRequest([Topic(name="t")]), version)
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
        (number, f"inside{number}", 9093) for number in (1, 2, 3)
    ]
    assert response.controller_id == (3 if version else -1)
    (described,) = response.topics
    assert [(each.error_code, each.leader_id) for each in described.partitions] == [
        (ErrorCode.NONE, 3),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1),
    ]


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_replicas_that_are_offline(bench, version):
    """A partition without a leader keeps its ISR; the offline replicas are those that the controller reports."""
    partitions = (PartitionImage(1, 5, (1,), (1, 2, 4), (2, 4)), PartitionImage(-1, 5, (4,), (4,), (4,)))
    bench.core.metadata.publish([TopicImage("t", b"t" * 16, partitions, {})], brokers=BROKERS)
    (described,) = bench.ask(MetadataRequest([Topic(name="t")]), version).topics
    assert [each.offline_replicas for each in described.partitions] == ([(2, 4), (4,)] if version >= 5 else [(), ()])
    led, other = described.partitions
    hidden = ErrorCode.NONE if version else ErrorCode.REPLICA_NOT_AVAILABLE
    assert (led.error_code, led.replica_nodes) == (hidden, (1, 2, 4) if version else (1, 2))
    assert (other.error_code, other.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (other.isr_nodes, other.replica_nodes) == (((4,), (4,)) if version else ((), ()))


@pytest.mark.parametrize(("version", "code"), [(0, ErrorCode.REPLICA_NOT_AVAILABLE), (1, ErrorCode.NONE)])
@pytest.mark.parametrize(("isr", "replicas"), [((1, 4), (1,)), ((1,), (1, 3)), ((1, 4), (1, 4))])
def test_replicas_that_the_client_cannot_reach(bench, version, code, isr, replicas):
    topic = TopicImage("t", b"t" * 16, (PartitionImage(1, 0, isr, replicas), PartitionImage(1, 0, (1,), (1, 2))), {})
    bench.core.metadata.publish([topic], brokers=BROKERS)
    (described,) = bench.ask(MetadataRequest([Topic(name="t")]), version).topics
    assert [each.error_code for each in described.partitions] == [code, ErrorCode.NONE]
    assert described.partitions[0].isr_nodes == ((1,) if code else isr)
    assert described.partitions[0].replica_nodes == ((1,) if code else replicas)


@pytest.mark.parametrize("version", [0, 1, 13])
def test_partitions_that_the_broker_has_not_heard_of_are_left_out(bench, version):
    known = PartitionImage(1, 0, (1,), (1,))
    topic = TopicImage("t", b"t" * 16, (UNKNOWN_PARTITION, known, UNKNOWN_PARTITION, known), {})
    bench.core.metadata.publish([topic])
    (described,) = bench.ask(MetadataRequest([Topic(name="t")]), version).topics
    assert [(each.partition_index, each.error_code) for each in described.partitions] == [(1, 0), (3, 0)]


def test_a_topic_without_an_id_is_listed_until_it_is_deleted(bench):
    topics = [TopicImage(name, ZERO_UUID, (PartitionImage(1, 0, (1,), (1,)),) * 100, {}) for name in "abc"]
    bench.core.metadata.publish(topics)
    assert [topic.name for topic in bench.ask(MetadataRequest(None)).topics] == ["a", "b", "c"]
    (begun := bench.begin(MetadataRequest(None))).step()
    bench.core.metadata.publish([topics[1]._replace(topic_id=b"b" * 16)], ["b", "c"])
    all_steps(begun)
    assert [topic.name for topic in begun.response.topics] == ["a"]


def test_partition_on_a_disk_that_has_failed(bench):
    bench.create(partitions=2)
    bench.core.directory.log("t", 1).fail(OSError(5, "broken"))
    (topic,) = bench.ask(MetadataRequest([Topic(name="t")])).topics
    good, bad = topic.partitions
    assert (good.error_code, good.leader_id, good.offline_replicas) == (ErrorCode.NONE, 1, ())
    assert (bad.error_code, bad.leader_id, bad.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, (1,))
    assert (bad.replica_nodes, bad.isr_nodes) == ((1,), ())


def test_no_response_waits_while_topics_are_created():
    bench = BrokerBench(MemoryDisk(), work := HeldWork())
    request = MetadataRequest([Topic(name="new"), Topic(name="other"), Topic(name="a b")])
    for _ in range(3):
        assert [topic.error_code for topic in bench.ask(request).topics] == [UNKNOWN, UNKNOWN, INVALID]
    work.run()
    topics = bench.ask(request).topics
    assert [(topic.error_code, len(topic.partitions)) for topic in topics] == [(0, 1), (0, 1), (INVALID, 0)]
    assert list(bench.store.topics) == ["new", "other"]


@pytest.mark.parametrize("version", [8, 10, 13])
def test_authorized_operations(bench, version):
    bench.create()
    names = ["t", "none", "a b", "new"]
    request = MetadataRequest([Topic(name=name) for name in names], include_topic_authorized_operations=True)
    request.include_cluster_authorized_operations = version <= 10
    response = bench.ask(request, version)
    assert [topic.topic_authorized_operations for topic in response.topics] == [TOPIC_OPERATIONS] * len(names)
    assert response.cluster_authorized_operations == (CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED)


def test_authorized_operations_of_topics_without_a_name_and_those_that_are_not_asked_about(bench):
    topic_id = bench.create()
    request = MetadataRequest([Topic(topic_id, None), Topic(b"x" * 16, None)], include_topic_authorized_operations=True)
    known, unknown = bench.ask(request).topics
    assert (known.topic_authorized_operations, unknown.topic_authorized_operations) == (TOPIC_OPERATIONS, NOT_ASKED)
    response = bench.ask(MetadataRequest([Topic(name="t")]), 10)
    assert response.topics[0].topic_authorized_operations == response.cluster_authorized_operations == NOT_ASKED
