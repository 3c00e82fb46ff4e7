"""Topics are written once, as Kafka writes them; a change is complete when this broker's image shows it.

Method: use the embedded registry with a second session for other programs, and images that the test publishes in place
of a controller. Inject each fault into each operation of a change, and compare the content byte for byte with what
Apache Kafka 3.9.1 wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from kafkawire.reference_broker.cluster.controller.replica_assignment import Start
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.cluster.registry_topics import (
    AUTOMATIC_WAIT_MS,
    WAIT_MS_MAX,
    RandomChoices,
    RegistryTopics,
    ReplicationFactors,
)
from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.config_operations import Operation
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.config_controller import ConfigController
from kafkawire.reference_broker.metadata.config_rules import ConfigRules
from kafkawire.reference_broker.metadata.image import (
    UNKNOWN_PARTITION,
    BrokerRegistration,
    PartitionImage,
    TopicImage,
)
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import (
    CONSUMER_OFFSETS_TOPIC,
    NO_LEADER_ID,
    TRANSACTION_STATE_TOPIC,
    AlterConfigOperation,
    ConfigResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC, TopicAssignment
from kafkawire.sdk.protocol.uuids import ZERO_UUID, parse_uuid
from kafkawire.sdk.registry.registry import (
    Check,
    Create,
    Delete,
    RegistryCode,
    SetData,
    Transaction,
)
from kafkawire.sdk.registry.registry import Operation as RegistryOperation
from tests.reference_broker.cluster.cluster_nodes import TOPIC_ID, fault_at
from tests.reference_broker.cluster.topics_bench import TopicsBench

ANOTHER_ID = bytes([9] * 16)


@pytest.fixture
def registry() -> TopicsBench:
    return TopicsBench()


def test_they_are_a_controller_of_topics(registry: TopicsBench) -> None:
    controller: TopicController = registry.topics
    assert isinstance(controller, TopicController)


# Contents.


def test_the_writes_of_kafka_for_a_topic(registry: TopicsBench) -> None:
    registry.starts, registry.ids = [Start(1, 0)], [parse_uuid("fd1hfM2jQ4GI3hxptNkCtQ")]
    writes = registry.writes()
    registry.create(NewTopic("two", 4, 2))
    config = b'{"version":1,"config":{}}'
    assert writes == [
        Transaction((Check("/controller", 0), SetData("/config/topics/two", config))),
        Create("/config/topics/two", config),
        Create(
            "/brokers/topics/two",
            b'{"partitions":{"0":[1,0],"1":[0,1],"2":[1,0],"3":[0,1]},"topic_id":"fd1hfM2jQ4GI3hxptNkCtQ",'
            b'"adding_replicas":{},"removing_replicas":{},"version":3}',
        ),
    ]


#: The recorded order, which is that of Scala's maps.
OFFSETS_ORDER = [*range(44, 50), *range(10, 20), *range(10), *range(20, 44)]


def test_the_writes_of_kafka_for_the_offsets_topic() -> None:
    registry = TopicsBench(offsets_topic_segment_bytes=104857600)
    registry.ids = [parse_uuid("tg95CREeRJORSx5GY8Wz5g")]
    writes = registry.writes()
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    partitions = ",".join(f'"{number}":[{number % 2}]' for number in OFFSETS_ORDER)
    configs = b'"compression.type":"producer","cleanup.policy":"compact","segment.bytes":"104857600"'
    assert writes[1:] == [
        Create("/config/topics/__consumer_offsets", b'{"version":1,"config":{%s}}' % configs),
        Create(
            "/brokers/topics/__consumer_offsets",
            b'{"partitions":{%s},"topic_id":"tg95CREeRJORSx5GY8Wz5g","adding_replicas":{},"removing_replicas":{},'
            b'"version":3}' % partitions.encode(),
        ),
    ]


def test_the_writes_of_kafka_for_more_partitions_and_a_deletion(registry: TopicsBench) -> None:
    topic = registry.existing("cfg", (0,))
    writes = registry.writes()
    registry.topics.add_partitions(topic, 2, registry.ended.append)
    registry.owner.run_all()
    registry.topics.delete(topic, 0, registry.ended.append)
    registry.owner.run_all()
    content = TOPIC.encode(TopicAssignment({0: (0,), 1: (1,)}, TOPIC_ID))
    assert writes == [SetData("/brokers/topics/cfg", content, 0), Create("/admin/delete_topics/cfg")]


def test_replicas_are_in_different_racks() -> None:
    bench = TopicsBench(("a", "a", "b", "b"))
    bench.create(NewTopic("t", 8, 2))
    assert all({each // 2 for each in replicas} == {0, 1} for replicas in bench.stored("t").values())


def test_defaults() -> None:
    bench = TopicsBench(num_partitions=3)
    bench.create(NewTopic("t"))
    assert [len(replicas) for replicas in bench.stored("t").values()] == [1, 1, 1]
    bench.topics.create_by_default("u", bench.ended.append)
    bench.topics.ensure(TRANSACTION_STATE_TOPIC, bench.ended.append)
    bench.owner.run_all()
    assert [len(replicas) for replicas in bench.stored("u").values()] == [1, 1, 1]
    assert [len(replicas) for replicas in bench.stored(TRANSACTION_STATE_TOPIC).values()] == [2] * 50
    stored = bench.data(f"/config/topics/{TRANSACTION_STATE_TOPIC}") or ""
    assert '"compression.type":"uncompressed"' in stored
    assert '"min.insync.replicas":"2"' in stored, "transaction.state.log.min.isr, as brokers of Apache Kafka write it"
    assert ReplicationFactors() == (1, 3, 3, 2)
    assert (
        ReplicationFactors(1, 1, 1, 1).plan(TRANSACTION_STATE_TOPIC, read_options({})).configs["min.insync.replicas"]
        == "1"
    )
    names = ("t", CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
    assert [ReplicationFactors(4, 5, 6).of(name) for name in names] == [4, 5, 6]


def test_a_manual_assignment(registry: TopicsBench) -> None:
    registry.create(NewTopic("t", assignments=[(1, [1, 7]), (0, [0, 1])], configs={"retention.ms": "1"}))
    assert registry.stored("t") == {0: (0, 1), 1: (1, 7)}, "unknown brokers are accepted, as in Apache Kafka"
    assert registry.data("/config/topics/t") == '{"version":1,"config":{"retention.ms":"1"}}'


def test_only_brokers_may_change_topics() -> None:
    bench = TopicsBench()
    topics = RegistryTopics(
        bench.one, bench.metadata, bench.configs, read_options({}), ReplicationFactors(),
        RandomChoices(lambda: TOPIC_ID, lambda count: Start(0, 0)), bench.timers, lambda: 0, is_secure=True,
    )  # fmt: skip
    topics.create(NewTopic("t", 1, 1), bench.ended.append)
    bench.owner.run_all()
    assert bench.code() is ErrorCode.UNKNOWN_SERVER_ERROR, "this session has no identity"


# Refusals.

Prepare = Callable[[TopicsBench], object]


def nothing(bench: TopicsBench) -> None:
    """Prepare nothing."""


def store(
    topic_id: bytes, adding: int | None = None, removing: int | None = None, /, **replicas: tuple[int, ...]
) -> Prepare:
    """Return a function that stores the topic t.

    Args:
        topic_id: the topic's id.
        adding: a broker that a reassignment is adding to partition 0.
        removing: a broker that the reassignment is removing.
        replicas: the replicas of each partition, keyed by `p` and its number.
    """
    partitions = {int(name[1:]): each for name, each in replicas.items()}
    moved = ({} if each is None else {0: (each,)} for each in (adding, removing))
    content = TOPIC.encode(TopicAssignment(partitions, topic_id, *moved))
    return lambda bench: bench.put("/brokers/topics/t", content)


#: name: an earlier action, the topic, the error
NOT_CREATED: dict[str, tuple[Prepare, NewTopic, ErrorCode]] = {
    "exists": (lambda bench: bench.topic("t", {0: (1,)}), NewTopic("t", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    "exists, and a wrong assignment": (
        lambda bench: bench.topic("t", {0: (1,)}), NewTopic("t", assignments=[(1, [0])]), ErrorCode.TOPIC_ALREADY_EXISTS
    ),
    "marked": (
        lambda bench: bench.write(Create("/admin/delete_topics/t")), NewTopic("t", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS
    ),
    "collides": (
        lambda bench: bench.topic("a_b", {0: (1,)}), NewTopic("a.b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION
    ),
    "no partitions": (nothing, NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (nothing, NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many replicas": (nothing, NewTopic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
    "no brokers": (
        lambda bench: bench.metadata.publish(brokers={}), NewTopic("t", 1, 1), ErrorCode.INVALID_REPLICATION_FACTOR
    ),
    "some racks": (
        lambda bench: bench.metadata.publish(
            brokers={0: BrokerRegistration(0, {}, "a"), 1: BrokerRegistration(1, {})}
        ),
        NewTopic("t", 1, 1), ErrorCode.INVALID_REQUEST,
    ),
    "both": (nothing, NewTopic("t", 1, assignments=[(0, [0])]), ErrorCode.INVALID_REQUEST),
    "both, replicas": (nothing, NewTopic("t", -1, 1, [(0, [0])]), ErrorCode.INVALID_REQUEST),
    "gap": (nothing, NewTopic("t", assignments=[(1, [0])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "repeated broker": (nothing, NewTopic("t", assignments=[(0, [0, 0])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "different numbers": (
        nothing, NewTopic("t", assignments=[(0, [0]), (1, [0, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT
    ),
    "too large": (
        nothing, NewTopic("t", assignments=[(0, range(10**7, 10**7 + 2**17))]), ErrorCode.INVALID_REQUEST
    ),
    "no controller": (
        lambda bench: bench.write(Delete("/controller")), NewTopic("t", 1, 1), ErrorCode.NOT_CONTROLLER
    ),
    "damaged controller": (
        lambda bench: bench.put("/controller", b"]"), NewTopic("t", 1, 1), ErrorCode.UNKNOWN_SERVER_ERROR
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_CREATED)
def test_not_created(registry: TopicsBench, name: str) -> None:
    prepare, new, code = NOT_CREATED[name]
    prepare(registry)
    before = registry.data("/brokers/topics/t")
    registry.create(new)
    assert registry.code() is code
    assert registry.data("/brokers/topics/t") == before
    is_of_controller = code in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR)
    if name != "too large" and not is_of_controller:
        registry.create(new, validate_only=True)
        assert registry.code() is code
    registry.topics.check_name("free")
    assert not registry.topics._creating


def test_a_topic_that_is_only_validated_is_not_written(registry: TopicsBench) -> None:
    writes = registry.writes()
    registry.create(NewTopic("t", 2, 2, configs={"retention.ms": "1"}), validate_only=True)
    partitions = tuple(PartitionImage(each[0], 0, each, each) for each in ((0, 1), (1, 0)))
    assert registry.ended == [TopicImage("t", ZERO_UUID, partitions, {"retention.ms": "1"})]
    assert writes == []


@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 250, "__cluster_metadata", "known", "coming"])
def test_names_that_are_refused_at_once(registry: TopicsBench, name: str) -> None:
    registry.existing("known", (0,))
    registry.create(NewTopic("coming", 1, 1))
    with pytest.raises(BrokerError):
        registry.topics.check_name(name)
    if name != "coming":
        with pytest.raises(BrokerError):
            registry.topics.create_by_default(name, registry.ended.append)


#: name: the topic's replicas, the new total, the new assignments, an earlier action, the error
NOT_EXTENDED: dict[str, tuple[int, Sequence[Sequence[int]] | None, Prepare, ErrorCode]] = {
    "fewer": (1, None, nothing, ErrorCode.INVALID_PARTITIONS),
    "as many": (2, None, nothing, ErrorCode.INVALID_PARTITIONS),
    "as many, chosen": (2, [], nothing, ErrorCode.INVALID_PARTITIONS),
    "gone": (3, None, lambda bench: bench.write(Delete("/brokers/topics/t")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "empty": (3, None, store(TOPIC_ID), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "another topic": (3, None, store(ANOTHER_ID, p0=(0,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "damaged": (3, None, lambda bench: bench.put("/brokers/topics/t", b"{"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "gap": (3, None, store(TOPIC_ID, p0=(0,), p2=(1,)), ErrorCode.UNKNOWN_SERVER_ERROR),
    "grown meanwhile": (3, None, store(TOPIC_ID, p0=(0,), p1=(1,), p2=(1,)), ErrorCode.INVALID_PARTITIONS),
    "moving": (3, None, store(TOPIC_ID, 1, p0=(0, 1), p1=(1,)), ErrorCode.REASSIGNMENT_IN_PROGRESS),
    "moving away": (3, None, store(TOPIC_ID, None, 1, p0=(0, 1), p1=(1,)), ErrorCode.REASSIGNMENT_IN_PROGRESS),
    "marked": (
        3, None, lambda bench: bench.write(Create("/admin/delete_topics/t")), ErrorCode.INVALID_TOPIC_EXCEPTION
    ),
    "too few brokers": (
        3, None, lambda bench: bench.metadata.publish(brokers={}), ErrorCode.INVALID_REPLICATION_FACTOR
    ),
    "too few assignments": (4, [[0]], nothing, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "repeated broker": (3, [[0, 0]], nothing, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "more replicas": (3, [[0, 1]], nothing, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unknown broker": (3, [[9]], nothing, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}  # fmt: skip


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("name", NOT_EXTENDED)
def test_not_extended(registry: TopicsBench, name: str, validate_only: bool) -> None:
    count, assignments, prepare, code = NOT_EXTENDED[name]
    topic = registry.existing("t", (0,), (1,))
    prepare(registry)
    before = registry.data("/brokers/topics/t")
    registry.topics.add_partitions(
        topic, count, registry.ended.append, assignments=assignments, validate_only=validate_only
    )
    registry.owner.run_all()
    assert registry.code() is code
    assert registry.data("/brokers/topics/t") == before


def test_the_number_of_partitions_is_checked_at_once(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,), (1,))
    assert registry.topics.check_partitions(topic, 5) == 3
    for count, text in (
        (2, "Topic already has 2 partitions."),
        (1, "Topic currently has 2 partitions, which is higher than the requested 1."),
    ):
        with pytest.raises(BrokerError) as caught:
            registry.topics.check_partitions(topic, count)
        assert (caught.value.code, caught.value.detail) == (ErrorCode.INVALID_PARTITIONS, text)


def test_chosen_brokers_are_checked_at_once(registry: TopicsBench) -> None:
    list(registry.topics.check_assignments([[0, 1], [1, 0]], 2))
    for assignments, text in (
        ([[0, 1]], "Increasing the number of partitions by 2 but 1 assignments provided."),
        ([[8, 1, 9]], "Unknown broker(s) in replica assignment: 8, 9."),
    ):
        with pytest.raises(BrokerError) as caught:
            list(registry.topics.check_assignments(assignments, 2))
        assert (caught.value.code, caught.value.detail) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


# Completion.


def test_a_topic_is_created_when_the_image_shows_all_leaders(registry: TopicsBench) -> None:
    registry.create(NewTopic("t", 2, 1))
    registry.show("t", leader=NO_LEADER_ID)
    registry.show("t", count=1)
    other = registry.present("t")._replace(topic_id=ANOTHER_ID)
    registry.metadata.publish([other._replace(partitions=other.partitions * 2)])
    gap = registry.present("t")._replace(topic_id=TOPIC_ID)
    registry.metadata.publish([gap._replace(partitions=(UNKNOWN_PARTITION, gap.partitions[0]))])
    assert registry.ended == []
    registry.show("t")
    assert registry.ended == [registry.present("t")]


def test_a_request_for_a_topic_times_out(registry: TopicsBench) -> None:
    registry.create(NewTopic("t", 2, 1))
    registry.advance(WAIT_MS_MAX - 1)
    assert registry.ended == []
    registry.advance(1)
    assert registry.code() is ErrorCode.REQUEST_TIMED_OUT
    assert "t" not in registry.topics._creating


def test_all_who_want_a_topic_wait_for_the_same_one(registry: TopicsBench) -> None:
    for _ in range(3):
        registry.topics.create_by_default("t", registry.ended.append)
    registry.owner.run_all()
    registry.show("t")
    assert registry.ended == [registry.present("t")] * 3


def test_too_many_wait_for_a_topic(registry: TopicsBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.reference_broker.cluster.registry_topics.WAITS_MAX", 2)
    for _ in range(3):
        registry.topics.create_by_default("t", registry.ended.append)
    assert registry.code() is ErrorCode.REQUEST_TIMED_OUT


def test_partitions_are_added_when_the_image_shows_their_leaders(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    registry.topics.add_partitions(topic, 3, registry.ended.append, assignments=[[1], [0]])
    registry.owner.run_all()
    registry.show("t", count=2)
    assert registry.ended == []
    registry.show("t")
    assert registry.ended == [registry.present("t")]
    assert registry.stored("t") == {0: (0,), 1: (1,), 2: (0,)}


def test_partitions_that_are_only_validated_are_not_added(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    registry.topics.add_partitions(topic, 3, registry.ended.append, validate_only=True)
    registry.owner.run_all()
    assert registry.ended == [topic]
    assert registry.stored("t") == {0: (0,)}


def test_a_topic_is_deleted_when_the_image_lacks_it(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    for _ in range(2):  # a second request also waits
        registry.topics.delete(topic, 0, registry.ended.append)
        registry.owner.run_all()
    registry.show("t")
    assert registry.ended == []
    registry.hide("t")
    assert registry.ended == [None, None]


def test_another_topic_of_the_same_name_is_not_deleted(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    registry.put("/brokers/topics/t", TOPIC.encode(TopicAssignment({0: (0,)}, ANOTHER_ID)))
    registry.topics.delete(topic, 0, registry.ended.append)
    registry.owner.run_all()
    assert registry.code() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert registry.data("/admin/delete_topics/t") is None


def test_a_topic_that_is_made_anew_is_not_the_one_that_was_deleted(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    registry.topics.delete(topic, 0, registry.ended.append)
    registry.owner.run_all()
    registry.metadata.publish([topic._replace(topic_id=ANOTHER_ID)])
    assert registry.ended == [None]


def test_a_damaged_topic_can_be_deleted(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    registry.put("/brokers/topics/t", b"{")
    registry.topics.delete(topic, 0, registry.ended.append)
    registry.owner.run_all()
    assert registry.data("/admin/delete_topics/t") == ""
    registry.put("/brokers/topics/t", b"")
    registry.write(Delete("/brokers/topics/t"))
    registry.topics.delete(topic, 0, registry.ended.append)
    registry.owner.run_all()
    assert registry.code() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_without_an_id(registry: TopicsBench) -> None:
    registry.write(Create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[0]}}'))
    registry.show("old")
    topic = registry.present("old")
    assert topic.topic_id == ZERO_UUID
    registry.topics.add_partitions(topic, 2, registry.ended.append)
    registry.owner.run_all()
    registry.show("old")
    assert registry.ended == [registry.present("old")]
    registry.topics.delete(registry.present("old"), 0, registry.ended.append)
    registry.owner.run_all()
    assert registry.data("/admin/delete_topics/old") == ""


def test_a_configuration_is_changed(registry: TopicsBench) -> None:
    registry.topic("t", {0: (0,)}, b'{"version":1,"config":{"retention.ms":"1","segment.ms":"9"}}')
    registry.show("t")
    topic = registry.present("t")

    def revise(before: Mapping[str, str]) -> Mapping[str, str]:
        assert before == {"retention.ms": "1", "segment.ms": "9"}, (
            "the result is the stored configuration, whatever the image shows"
        )
        return {"segment.ms": "9", "flush.ms": "5"}

    registry.topics.configure(topic, revise, registry.ended.append)
    registry.owner.run_all()
    assert registry.ended == [topic]
    assert registry.data("/config/topics/t") == '{"version":1,"config":{"flush.ms":"5","segment.ms":"9"}}'
    registry.hide("t")
    registry.ended.clear()
    registry.topics.configure(topic, lambda before: before, registry.ended.append)
    registry.owner.run_all()
    assert registry.code() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def controller_of(bench: TopicsBench) -> ConfigController:
    options = read_options({})
    configs = BrokerConfigs(options, {})
    rules = ConfigRules(options, configs, is_in_registry=bench.configs.is_registry)
    return ConfigController(options, rules, configs, bench.configs, bench.metadata, bench.topics)


#: name: operations, and the configuration before and after; the image always shows retention.ms=1
STALE = {
    "what the image shows already": (
        [Operation("retention.ms", AlterConfigOperation.SET, "1")],
        '{"retention.ms":"2"}',
        '{"retention.ms":"1"}',
    ),
    "a list that another broker has changed": (
        [Operation("cleanup.policy", AlterConfigOperation.APPEND, "delete")],
        '{"cleanup.policy":"compact"}',
        '{"cleanup.policy":"compact,delete"}',
    ),
    "beside a name that is unknown here": (
        [Operation("flush.ms", AlterConfigOperation.SET, "5")],
        '{"of.another.release":"x"}',
        '{"of.another.release":"x","flush.ms":"5"}',
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_a_change_is_made_to_what_is_stored(registry: TopicsBench, name: str) -> None:
    """Another broker has answered its client, but the notification has not reached this broker yet."""
    operations, before, after = STALE[name]
    registry.topic("t", {0: (0,)}, f'{{"version":1,"config":{before}}}'.encode())
    registry.show("t")
    registry.metadata.publish([registry.present("t")._replace(configs={"retention.ms": "1"})])
    told: list[BrokerError | None] = []
    controller_of(registry).operate(ConfigResourceType.TOPIC, "t", operations, told.append)
    registry.owner.run_all()
    assert told == [None]
    assert registry.data("/config/topics/t") == f'{{"version":1,"config":{after}}}'


def test_a_replacement_leaves_nothing_of_what_is_stored(registry: TopicsBench) -> None:
    registry.topic("t", {0: (0,)}, b'{"version":1,"config":{"retention.ms":"2","segment.ms":"9"}}')
    registry.show("t")
    told: list[BrokerError | None] = []
    controller_of(registry).replace(ConfigResourceType.TOPIC, "t", [("flush.ms", "5")], told.append)
    registry.owner.run_all()
    controller_of(registry).replace(ConfigResourceType.TOPIC, "t", [("flush.ms", "-5")], told.append)
    registry.owner.run_all()
    assert [None if each is None else each.code for each in told] == [None, ErrorCode.INVALID_CONFIG]
    assert registry.data("/config/topics/t") == '{"version":1,"config":{"flush.ms":"5"}}'


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (
            Operation("retention.ms", AlterConfigOperation.SET, "odd"),
            "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): "
            "Invalid value odd for configuration retention.ms: Not a number of type LONG",
        ),
        (Operation("odd", AlterConfigOperation.SET, "1"), "Unknown topic config name: odd"),
        (
            Operation("min.compaction.lag.ms", AlterConfigOperation.SET, str(2**63 - 2)),
            f"conflict topic config setting min.compaction.lag.ms ({2**63 - 2}) > max.compaction.lag.ms (7)",
        ),
        (
            Operation("retention.ms", AlterConfigOperation.APPEND, "1"),
            "Config value append is not allowed for config key: retention.ms",
        ),
        (Operation("odd", AlterConfigOperation.SUBTRACT, "1"), "Unknown config name: odd"),
    ],
)
def test_a_refused_configuration_has_the_text_of_a_cluster(
    registry: TopicsBench, operation: Operation, text: str
) -> None:
    registry.topic("t", {0: (0,)}, b'{"version":1,"config":{"max.compaction.lag.ms":"7"}}')
    registry.show("t")
    told: list[BrokerError | None] = []

    def refused() -> BrokerError | None:
        try:
            controller_of(registry).operate(ConfigResourceType.TOPIC, "t", [operation], told.append)
        except BrokerError as error:
            return error
        registry.owner.run_all()
        return told[0]

    error = refused()
    assert error is not None
    assert (error.code, error.detail) == (ErrorCode.INVALID_CONFIG, text)


# Automatic and internal topics.


def test_another_broker_creates_the_topic_at_the_same_time(registry: TopicsBench) -> None:
    registry.existing(CONSUMER_OFFSETS_TOPIC, (1,), (0,), (1,))
    known = registry.present(CONSUMER_OFFSETS_TOPIC)
    registry.hide(CONSUMER_OFFSETS_TOPIC)
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    assert registry.ended == []
    registry.metadata.publish([known._replace(partitions=known.partitions[:2])])
    registry.owner.run_all()
    (topic,) = registry.ended
    assert isinstance(topic, TopicImage)
    assert registry.topics.size_of(topic) == 3, "the last partition is counted although it has no leader yet"


def test_another_broker_is_faster_in_writing(registry: TopicsBench) -> None:
    def plan(call: RegistryCall) -> None:
        if isinstance(call.operation, Create) and call.operation.path == "/brokers/topics/t":
            registry.embedded.plan = None
            registry.other.submit(
                [Create("/brokers/topics/t", TOPIC.encode(TopicAssignment({0: (1,)}, ANOTHER_ID)))], lambda _: None
            )
            registry.other._deliver()  # before this broker creates the topic itself

    registry.embedded.plan = plan
    registry.topics.create_by_default("t", registry.ended.append)
    registry.owner.run_all()
    registry.show("t")
    assert registry.ended == [registry.present("t")]
    assert registry.present("t").topic_id == ANOTHER_ID


def test_an_automatic_topic_times_out_and_may_be_wanted_again(
    registry: TopicsBench, caplog: pytest.LogCaptureFixture
) -> None:
    registry.topics.create_by_default("t", registry.ended.append)
    registry.owner.run_all()
    registry.advance(AUTOMATIC_WAIT_MS)
    assert registry.code() is ErrorCode.REQUEST_TIMED_OUT
    assert "could not create the topic t: REQUEST_TIMED_OUT" in caplog.text
    registry.topics.create_by_default("t", registry.ended.append)
    registry.owner.run_all()
    registry.show("t")
    assert registry.ended == [registry.present("t")]


def test_too_few_brokers_for_an_internal_topic() -> None:
    bench = TopicsBench((None,))
    bench.topics.ensure(TRANSACTION_STATE_TOPIC, bench.ended.append)
    bench.owner.run_all()
    assert bench.code() is ErrorCode.INVALID_REPLICATION_FACTOR
    bench.metadata.publish(brokers={number: BrokerRegistration(number, {}) for number in range(2)})
    bench.topics.ensure(TRANSACTION_STATE_TOPIC, bench.ended.append)
    bench.owner.run_all()
    bench.show(TRANSACTION_STATE_TOPIC)
    assert bench.ended == [bench.present(TRANSACTION_STATE_TOPIC)]


def test_the_size_of_an_internal_topic_is_that_of_the_registry(registry: TopicsBench) -> None:
    registry.topic(CONSUMER_OFFSETS_TOPIC, dict.fromkeys(range(5), (0,)))
    registry.show(CONSUMER_OFFSETS_TOPIC, count=3)
    topic = registry.present(CONSUMER_OFFSETS_TOPIC)
    assert registry.topics.size_of(topic) == 0, "the size has not been read yet; a wrong size would misplace groups"
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    assert (registry.ended, registry.topics.size_of(topic)) == ([topic], 5)
    before = registry.embedded.calls
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    assert (registry.ended, registry.embedded.calls) == ([topic, topic], before), "the size was read more than once"
    registry.hide(CONSUMER_OFFSETS_TOPIC)
    assert registry.topics.size_of(topic) == 0


def test_the_size_of_an_internal_topic_is_read_without_a_search_for_coordinators(
    registry: TopicsBench,
) -> None:
    registry.topic(CONSUMER_OFFSETS_TOPIC, dict.fromkeys(range(5), (0,)))
    fault_at(registry, 1, RegistryCode.NO_AUTH)
    registry.show(CONSUMER_OFFSETS_TOPIC, count=3)
    registry.owner.run_all()
    registry.embedded.plan = None
    topic = registry.present(CONSUMER_OFFSETS_TOPIC)
    for milliseconds, size in ((0, 0), (999, 0), (1, 5)):
        registry.advance(milliseconds)
        registry.topics.size_of(topic)
        registry.owner.run_all()
        assert registry.topics.size_of(topic) == size


def test_the_size_of_an_internal_topic_that_was_created_here(registry: TopicsBench) -> None:
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    registry.show(CONSUMER_OFFSETS_TOPIC)
    topic = registry.present(CONSUMER_OFFSETS_TOPIC)
    assert registry.ended == [topic]
    registry.show(CONSUMER_OFFSETS_TOPIC, count=7)
    assert registry.topics.size_of(registry.present(CONSUMER_OFFSETS_TOPIC)) == 50


@pytest.mark.parametrize("content", [None, b"{", TOPIC.encode(TopicAssignment({0: (0,)}, ANOTHER_ID))])
def test_the_size_of_an_internal_topic_that_cannot_be_read(registry: TopicsBench, content: bytes | None) -> None:
    topic = registry.existing(CONSUMER_OFFSETS_TOPIC, (0,), (1,))
    if content is None:
        registry.write(Delete(TOPIC.path(CONSUMER_OFFSETS_TOPIC)))
    else:
        registry.put(TOPIC.path(CONSUMER_OFFSETS_TOPIC), content)
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    assert (registry.ended, registry.topics.size_of(topic)) == ([topic], 2)


def test_an_internal_topic_while_the_registry_refuses(registry: TopicsBench) -> None:
    registry.existing(CONSUMER_OFFSETS_TOPIC, (0,))
    registry.embedded.plan = lambda call: RegistryCode.NO_AUTH
    registry.topics.ensure(CONSUMER_OFFSETS_TOPIC, registry.ended.append)
    registry.owner.run_all()
    assert registry.code() is ErrorCode.UNKNOWN_SERVER_ERROR


def test_other_topics_are_there_at_once(registry: TopicsBench) -> None:
    topic = registry.existing("t", (0,))
    registry.topics.ensure("t", registry.ended.append)
    assert registry.ended == [topic]


# Failures.


def begin_create(bench: TopicsBench) -> None:
    bench.topics.create(NewTopic("new", 2, 1, configs={"retention.ms": "1"}), bench.ended.append)


def begin_add(bench: TopicsBench) -> None:
    bench.topics.add_partitions(bench.present("t"), 3, bench.ended.append)


def begin_delete(bench: TopicsBench) -> None:
    bench.topics.delete(bench.present("t"), 0, bench.ended.append)


def begin_configure(bench: TopicsBench) -> None:
    bench.topics.configure(bench.present("t"), lambda before: {**before, "retention.ms": "1"}, bench.ended.append)


#: name: the change, and the number of its operations
CHANGES: dict[str, tuple[Callable[[TopicsBench], None], int]] = {
    "create": (begin_create, 6),
    "add": (begin_add, 4),
    "delete": (begin_delete, 3),
    "configure": (begin_configure, 6),
}
FAULTS = [(name, number) for name, (_, count) in CHANGES.items() for number in range(1, count + 1)]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_has_so_many_operations(registry: TopicsBench, name: str) -> None:
    registry.existing("t", (0,))
    begin, count = CHANGES[name]
    before = registry.embedded.calls
    begin(registry)
    registry.owner.run_all()
    assert registry.embedded.calls - before == count


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(("name", "number"), FAULTS)
def test_each_operation_meets_each_fault(registry: TopicsBench, name: str, number: int, fault: Fault) -> None:
    registry.existing("t", (0,))
    met = fault_at(registry, number, fault)
    CHANGES[name][0](registry)
    registry.owner.run_all()
    assert len(met) == 1
    registry.embedded.plan = None
    if name == "create":
        registry.show("new")
        assert registry.stored("new").keys() == {0, 1}
        assert registry.data("/config/topics/new") == '{"version":1,"config":{"retention.ms":"1"}}'
    elif name == "add":
        registry.show("t")
        assert registry.stored("t").keys() == {0, 1, 2}
    elif name == "delete":
        assert registry.data("/admin/delete_topics/t") == ""
        registry.hide("t")
    else:
        assert registry.data("/config/topics/t") == '{"version":1,"config":{"retention.ms":"1"}}'
    assert registry.code() is None


@pytest.mark.parametrize(("name", "number"), FAULTS)
def test_each_operation_is_refused(registry: TopicsBench, name: str, number: int) -> None:
    registry.existing("t", (0,))
    fault_at(registry, number, RegistryCode.NO_AUTH)
    CHANGES[name][0](registry)
    registry.owner.run_all()
    assert registry.code() is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not registry.topics._creating


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_topic_that_is_deleted_before_the_outcome_is_known(registry: TopicsBench, is_made_anew: bool) -> None:
    topic = registry.existing("t", (0,))
    deletions: list[RegistryOperation] = [Delete("/brokers/topics/t"), Delete("/admin/delete_topics/t")]
    if is_made_anew:
        deletions.append(Create("/brokers/topics/t", TOPIC.encode(TopicAssignment({0: (0,)}, ANOTHER_ID))))

    def lose(call: RegistryCall) -> Fault | None:
        if call.operation == Create("/admin/delete_topics/t"):
            registry.embedded.plan = delete
            return Fault.EXPIRE_AFTER
        return None

    def delete(call: RegistryCall) -> None:
        registry.embedded.plan = None
        registry.other.submit(deletions, lambda outcomes: None)
        registry.other._deliver()  # before the broker reads it again

    registry.embedded.plan = lose
    registry.topics.delete(topic, 0, registry.ended.append)
    registry.owner.run_all()
    registry.hide("t")
    assert registry.ended == [None]
    assert registry.data("/admin/delete_topics/t") is None
