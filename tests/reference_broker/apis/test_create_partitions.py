"""Topics gain partitions that are usable immediately; impossible requests are refused as in Apache Kafka.

Method: send the cases that `tests/kafka/test_create_partitions.py` also sends to a real Kafka; then use new partitions
on a broker without sockets and with an in-memory disk.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.metadata.topic_controller import TopicTexts
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_sometimes
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.partition_cases import CASES, PRESENT, Case, answers_of
from tests.reference_broker.apis.transaction_of_one import Transacting
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced

Topic = CreatePartitionsRequest.CreatePartitionsTopic


def grow(count: int, topic: str = "t", timeout_ms: int = 1_000, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([Topic(topic, count, None)], timeout_ms, validate_only)


def count_of(bench: BrokerBench, topic: str = "t") -> int:
    asked = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)], False)
    (described,) = bench.ask(asked).topics
    assert [each.leader_id for each in described.partitions] == [1] * len(described.partitions)
    assert [each.partition_index for each in described.partitions] == [*range(len(described.partitions))]
    return len(described.partitions)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_apache_kafka_answers(bench: BrokerBench, case: Case) -> None:
    for name, count in PRESENT.items():
        bench.create(name, count)
    assert answers_of(bench.ask(case.request({}))) == case.expected({})
    assert {name: count_of(bench, name) for name in PRESENT} == PRESENT, "no request takes effect"


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_PARTITIONS))
def test_every_version(bench: BrokerBench, version: int) -> None:
    bench.create()
    response = bench.ask(grow(3), version)
    assert response == CreatePartitionsResponse(results=[CreatePartitionsResponse.CreatePartitionsTopicResult("t")])
    assert count_of(bench) == 3


def test_records_go_to_new_partitions_and_come_from_them(bench: BrokerBench) -> None:
    topic_id = bench.create()
    assert bench.produce(produced(b"v"), partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = FetchRequest.FetchPartition(1, partition_max_bytes=1000)
    topic = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])
    first = bench.ask(FetchRequest(max_bytes=1000, session_epoch=0, topics=[topic]))
    (unknown,) = first.responses[0].partitions
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.ask(grow(2))
    assert bench.produce(produced(b"v"), partition=1).base_offset == 0
    again = bench.ask(FetchRequest(max_bytes=1000, session_id=first.session_id, session_epoch=1))
    (found,) = again.responses[0].partitions
    assert (found.partition_index, found.error_code, found.high_watermark) == (1, ErrorCode.NONE, 1)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_acknowledged_is_there_after_a_crash(seed: int) -> None:
    bench = BrokerBench(disk := MemoryDisk())
    bench.create(partitions=2)
    bench.produce(produced(b"v"), partition=1)
    bench.ask(grow(5))
    again = BrokerBench(disk.crash(seed))
    assert count_of(again) == 5
    assert again.produce(produced(b"v"), partition=4).base_offset == 0
    assert answers_of(again.ask(grow(6)))["t"] == (ErrorCode.NONE, None)


def test_the_response_waits_for_the_disk_or_for_as_long_as_it_may_take() -> None:
    bench = BrokerBench(MemoryDisk(), work := HeldWork())
    bench.core.topics.create(NewTopic("t", 1), lambda made: None)
    work.run()
    late, early = bench.ask(grow(2, timeout_ms=50)), bench.ask(grow(3, timeout_ms=500))
    assert isinstance(late, DelayedOperation)
    assert isinstance(early, DelayedOperation)
    bench.advance(50)
    assert isinstance(late.response, CreatePartitionsResponse)
    assert answers_of(late.response)["t"][0] is ErrorCode.REQUEST_TIMED_OUT
    assert (early.response, count_of(bench)) == (None, 1)
    work.run()
    assert isinstance(early.response, CreatePartitionsResponse)
    assert answers_of(early.response)["t"] == (ErrorCode.NONE, None)
    assert count_of(bench) == 3


def test_a_topic_that_is_growing_has_what_it_will_have() -> None:
    bench = BrokerBench(MemoryDisk(), work := HeldWork())
    bench.core.topics.create(NewTopic("t", 1), lambda made: None)
    work.run()
    bench.ask(grow(3))
    assert answers_of(bench.ask(grow(3)))["t"] == (ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s).")
    bench.ask(grow(4))
    deleted = bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("t")], timeout_ms=1_000))
    gone = bench.ask(grow(5))
    work.run()
    assert isinstance(deleted, DelayedOperation)
    assert deleted.response is not None
    assert isinstance(gone, DelayedOperation)
    assert isinstance(gone.response, CreatePartitionsResponse)
    assert answers_of(gone.response)["t"][0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not [name for name in bench.disk.names("") if name.startswith("t-")], "all four folders are gone"
    bench.core.topics.create(NewTopic("t", 1), lambda made: None)
    work.run()
    assert answers_of(bench.ask(grow(2, validate_only=True)))["t"] == (ErrorCode.NONE, None)


def test_the_texts_are_those_of_the_controller_of_topics() -> None:
    bench = BrokerBench(MemoryDisk())
    bench.create()
    bench.core.topics.texts = TopicTexts("created twice", "extended twice", "no {}")
    request = CreatePartitionsRequest([Topic("t", 3), Topic("t", 4), Topic("none", 3)], timeout_ms=1_000)
    assert answers_of(bench.ask(request)) == {
        "t": (ErrorCode.INVALID_REQUEST, "extended twice"),
        "none": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no none"),
    }
    new = CreateTopicsRequest.CreatableTopic
    created = bench.ask(CreateTopicsRequest([new("a", 1, 1), new("a", 1, 1)], timeout_ms=1_000))
    assert isinstance(created, CreateTopicsResponse)
    assert [each.error_message for each in created.topics] == ["created twice"]


def test_a_disk_that_fails_leaves_the_topic_as_it_was() -> None:
    bench = BrokerBench(disk := MemoryDisk())
    bench.create()
    disk.plan = fail_sometimes(0, 1.0)
    assert answers_of(bench.ask(grow(2)))["t"][0] is ErrorCode.KAFKA_STORAGE_ERROR
    disk.plan = None
    assert count_of(bench) == 1
    bench.ask(grow(2))
    assert count_of(bench) == count_of(BrokerBench(disk.crash())) == 2


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        ([10_001], [ErrorCode.NONE]),
        ([10_002], [ErrorCode.POLICY_VIOLATION]),
        ([2**31 - 1], [ErrorCode.POLICY_VIOLATION]),
        ([6_001, 6_001, 4_001], [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]),
    ],
)
def test_a_request_adds_a_number_of_partitions_at_most(
    bench: BrokerBench, counts: list[int], codes: list[ErrorCode]
) -> None:
    names = [f"t{number}" for number in range(len(counts))]
    for name in names:
        bench.create(name)
    topics = [Topic(name, count, None) for name, count in zip(names, counts, strict=True)]
    answers = answers_of(bench.ask(CreatePartitionsRequest(topics, 1_000, True)))
    assert [answers[name][0] for name in names] == codes


def test_groups_stay_where_they_are_when_their_topic_grows() -> None:
    """As in Kafka, groups stay until the next startup: a transaction's offsets must be committed to the group's log."""
    bench = BrokerBench(MemoryDisk(), offsets_topic_num_partitions=2)
    bench.offsets_topic()
    client = Transacting(bench)
    before = bench.core.groups.partition_for("g")
    bench.ask(grow(50, "__consumer_offsets"))
    assert count_of(bench, "__consumer_offsets") == 50
    assert bench.core.groups.partition_for("g") == before
    assert client.add_offsets("g") == ErrorCode.NONE
    (transaction,) = bench.ask(DescribeTransactionsRequest(["x"])).transaction_states
    assert [(each.topic, list(each.partitions)) for each in transaction.topics] == [("__consumer_offsets", [before])]
