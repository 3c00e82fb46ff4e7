"""CreateTopics creates topics in every version, and refuses invalid requests with Kafka's error codes.

Method: send requests to a broker without sockets; refused topics must not exist afterwards.
"""

import errno

import pytest

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigSource
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.topic_cases import CREATIONS, EXISTING, NAMED_TWICE
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
def test_every_version(bench, version):
    topic = Topic("new", 3, 1, configs=[Config("retention.ms", "1000")])
    (result,) = bench.ask(CreateTopicsRequest([topic]), version).topics
    made = bench.store.topics["new"]
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (made.partitions, made.configs) == (3, {"retention.ms": "1000"})
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["retention.ms"] == ("1000", ConfigSource.TOPIC_CONFIG)
        assert shown["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)
    assert result.topic_id == (made.topic_id if version >= 7 else ZERO_UUID)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (Topic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic("x" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic("known", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (Topic("under.score", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
        (Topic("n", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (Topic("n", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (Topic("n", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (Topic("n", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Topic("n", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Topic("n", 1, 1, configs=[Config("no.such", "1")]), ErrorCode.INVALID_CONFIG),
        (Topic("n", 1, 1, configs=[Config("retention.ms", "soon")]), ErrorCode.INVALID_CONFIG),
        (Topic("n", 1, 1, configs=[Config("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
        (
            Topic("n", 1, 1, configs=[Config("min.compaction.lag.ms", "5"), Config("max.compaction.lag.ms", "3")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (Topic("n", 1, -1, [Assignment(0, [1])]), ErrorCode.INVALID_REQUEST),
        (Topic("n", -1, 1, [Assignment(0, [1])]), ErrorCode.INVALID_REQUEST),
        (Topic("n", -1, -1, [Assignment(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Topic("n", -1, -1, [Assignment(0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Topic("n", -1, -1, [Assignment(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_refused(bench, topic, code):
    bench.create("known")
    bench.create("under_score")
    (result,) = bench.ask(CreateTopicsRequest([topic])).topics
    assert (result.error_code, result.name) == (code, topic.name)
    assert result.error_message
    assert set(bench.store.topics) == {"known", "under_score"}


def test_one_of_several_faults(bench):
    """The answers are those of Apache Kafka 4.3."""
    for name in EXISTING:
        bench.create(name)
    for case in CREATIONS:
        (result,) = bench.ask(CreateTopicsRequest([case.topic], validate_only=True)).topics
        assert (result.error_code, result.error_message) == case.raft, case.name
    names, _, expected = NAMED_TWICE
    results = bench.ask(CreateTopicsRequest([Topic(name, 1, 1) for name in names])).topics
    assert sorted((each.name, each.error_code, each.error_message) for each in results) == sorted(expected)


def test_defaults_and_assignments(bench):
    topics = [Topic("default", -1, -1), Topic("assigned", -1, -1, [Assignment(1, [1]), Assignment(0, [1])])]
    assert not any(result.error_code for result in bench.ask(CreateTopicsRequest(topics)).topics)
    assert {name: topic.partitions for name, topic in bench.store.topics.items()} == {
        "default": 1,
        "assigned": 2,
    }


def test_twice_in_one_request(bench):
    topics = [Topic("twice", 1, 1), Topic("once", 1, 1), Topic("twice", 2, 1)]
    results = {result.name: result.error_code for result in bench.ask(CreateTopicsRequest(topics)).topics}
    assert results == {"twice": ErrorCode.INVALID_REQUEST, "once": ErrorCode.NONE}


def test_validate_only(bench):
    (result,) = bench.ask(CreateTopicsRequest([Topic("n", 2, 1)], validate_only=True)).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
    assert not bench.store.topics


def test_response_waits_until_the_topic_is_on_the_disk():
    disk, work = MemoryDisk(), HeldWork()
    bench = BrokerBench(disk, work)
    waiting = bench.ask(CreateTopicsRequest([Topic("new", 1, 1), Topic("a b", 1, 1)]))
    assert isinstance(waiting, DelayedOperation)
    (taken,) = bench.ask(CreateTopicsRequest([Topic("new", 1, 1)])).topics
    assert taken.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    work.run()
    assert waiting.response is not None
    new, bad = bench.through(waiting.response, 7).topics
    assert (new.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION)
    for seed in range(10):
        assert new.topic_id in BrokerBench(disk.crash(seed)).store.topics_by_id


def test_full_disk():
    bench = BrokerBench(disk := MemoryDisk())
    disk.plan = fail_at(disk.calls + 8, errno.ENOSPC)
    (result,) = bench.ask(CreateTopicsRequest([Topic("new", 3, 1)])).topics
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left" in result.error_message
    assert (result.num_partitions, result.topic_id, result.configs) == (-1, ZERO_UUID, ())
    bench.create("new")


@pytest.mark.parametrize("length", range(245, 250))
def test_longest_names(bench, length):
    """Writing the topic's file used to fail for names of 246 or more characters."""
    bench.create("x" * length, 2)
    bench.produce(produced(b"x"), "x" * length)
    bench.crash()
    assert bench.core.directory.log("x" * length, 0).next_offset == 1


def test_value_with_a_newline_does_not_keep_the_broker_from_starting(bench):
    bench.create("t", leader_replication_throttled_replicas="0:1,\n1:2")
    bench.restart()
    assert bench.store.topics["t"].configs == {"leader.replication.throttled.replicas": "0:1,\n1:2"}


@pytest.mark.parametrize(
    ("topics", "codes"),
    [
        ([Topic("a", 6_000, 1), Topic("b", 4_001, 1)], [ErrorCode.POLICY_VIOLATION] * 2),
        ([Topic("a", 9_999, 1), Topic("b", -1, -1), Topic("c", -1, -1)], [ErrorCode.POLICY_VIOLATION] * 3),
        ([Topic("a", 10_000, 1), Topic("not allowed", 1, 1)], [ErrorCode.POLICY_VIOLATION] * 2),
        ([Topic("a", 10_000, 1), Topic("b", -5, 1)], [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]),
        ([Topic("a", 10_000, 1), Topic("a", 10_000, 1)], [ErrorCode.INVALID_REQUEST]),
        ([Topic("a", 9_999, 1), Topic("b", -1, -1)], [ErrorCode.NONE] * 2),
    ],
)
def test_the_limit_of_partitions_is_that_of_a_request(bench, topics, codes):
    results = bench.ask(CreateTopicsRequest(topics, validate_only=True)).topics
    assert [result.error_code for result in results] == codes


def test_no_time_creates_nothing(bench):
    """Like Kafka's controller, the broker does not start a request whose deadline has passed."""
    topics = [Topic("a", 1, 1), Topic("not allowed", 1, 1)]
    for timeout_ms in (0, -1):
        results = bench.ask(CreateTopicsRequest(topics, timeout_ms=timeout_ms)).topics
        assert [result.error_code for result in results] == [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert [result.num_partitions for result in results] == [-1, -1]
    assert not bench.store.topics


def test_a_client_is_answered_in_its_time_and_the_topic_is_still_created():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), work)
    waiting = bench.ask(CreateTopicsRequest([Topic("slow", 1, 1), Topic("a b", 1, 1)], timeout_ms=500))
    bench.advance(499)
    assert waiting.response is None
    bench.advance(1)
    assert waiting.response is not None
    slow, bad = bench.through(waiting.response, 7).topics
    assert (slow.error_code, slow.topic_id, slow.num_partitions) == (ErrorCode.REQUEST_TIMED_OUT, ZERO_UUID, -1)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    work.run()
    assert list(bench.store.topics) == ["slow"]


def test_the_time_of_a_request_that_is_answered_does_not_run_on():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), work)
    before = bench.core.timers.next_deadline_ms
    bench.ask(CreateTopicsRequest([Topic("new", 1, 1)], timeout_ms=1))
    work.run()
    assert bench.core.timers.next_deadline_ms == before


def test_configurations_must_not_contradict_the_defaults_of_the_broker(tmp_path):
    bench = BrokerBench(tmp_path / "data", log_cleaner_max_compaction_lag_ms=3)
    topics = [Topic(lag, 1, 1, configs=[Config("min.compaction.lag.ms", lag)]) for lag in ("3", "4")]
    fits, contradicts = bench.ask(CreateTopicsRequest(topics)).topics
    assert fits.error_code == ErrorCode.NONE
    assert (contradicts.error_code, contradicts.error_message) == (
        ErrorCode.INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (4) > max.compaction.lag.ms (3)",
    )
