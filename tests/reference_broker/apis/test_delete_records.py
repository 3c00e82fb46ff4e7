"""DeleteRecords durably moves the start of a partition, or says why it cannot.

Method: send requests to a broker without sockets; the table of answers is Kafka's.
"""

from typing import Any

import pytest

from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced

Topic = DeleteRecordsRequest.DeleteRecordsTopic
Partition = DeleteRecordsRequest.DeleteRecordsPartition


@pytest.fixture
def filled(bench):
    bench.create()
    for _ in range(5):
        bench.produce(produced(b"a", b"b"))
    return bench


def ask(bench, *asked, version=None) -> Any:
    """Send DeleteRecords for (topic, partition, offset); return (partition, low watermark, error) for each."""
    topics = [Topic(name, [Partition(number, offset)]) for name, number, offset in asked]
    response = bench.ask(DeleteRecordsRequest(topics, 1000), version)
    if isinstance(response, DelayedOperation):
        return response
    return results(response)


def results(response):
    return [
        (partition.partition_index, partition.low_watermark, ErrorCode(partition.error_code))
        for topic in response.topics
        for partition in topic.partitions
    ]


def start_of(bench, timestamp=OffsetTimestamp.EARLIEST):
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic("t", [partition])])
    return bench.ask(request).topics[0].partitions[0].offset


def fetch(bench, offset):
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    request = FetchRequest(topics=[FetchRequest.FetchTopic("t", partitions=[partition])], max_bytes=2**20)
    return bench.ask(request, 12).responses[0].partitions[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_RECORDS))
@pytest.mark.parametrize(
    ("offset", "low_watermark", "error"),
    [
        (0, 0, ErrorCode.NONE),
        (3, 3, ErrorCode.NONE),
        (10, 10, ErrorCode.NONE),
        (-1, 10, ErrorCode.NONE),
        (11, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_answers(filled, version, offset, low_watermark, error):
    assert ask(filled, ("t", 0, offset), version=version) == [(0, low_watermark, error)]


def test_start_never_moves_back(filled):
    ask(filled, ("t", 0, 6))
    assert ask(filled, ("t", 0, 3)) == [(0, 6, ErrorCode.NONE)]


def test_unknown_partitions_internal_and_compacted_topics(filled):
    filled.offsets_topic()
    filled.create("compacted", cleanup_policy="compact")
    filled.create("both", cleanup_policy="compact,delete")
    filled.create("neither", cleanup_policy="")
    asked = [(name, 0, 0) for name in ("__consumer_offsets", "compacted", "both", "neither")]
    assert ask(filled, ("x", 0, 1), ("t", 1, 1), *asked) == [
        (0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (0, -1, ErrorCode.POLICY_VIOLATION),
        (0, 0, ErrorCode.NONE),
        (0, 0, ErrorCode.NONE),
    ]


def test_partition_named_twice_is_answered_once(filled):
    assert ask(filled, ("t", 0, 4), ("t", 0, 2)) == [(0, 2, ErrorCode.NONE)]


def test_what_is_before_the_start_is_out_of_range(filled):
    ask(filled, ("t", 0, 3))
    assert start_of(filled) == start_of(filled, OffsetTimestamp.EARLIEST_LOCAL) == 3
    assert fetch(filled, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = fetch(filled, 3)
    assert (data.error_code, data.log_start_offset) == (ErrorCode.NONE, 3)
    filled.crash()
    assert start_of(filled) == 3
    filled.restart()
    assert fetch(filled, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_response_waits_for_the_disk():
    disk, work = MemoryDisk(), HeldWork()
    bench = BrokerBench(disk, work)
    created = []
    bench.core.topics.create(NewTopic("t", 1), created.append)
    work.run()
    bench.produce(produced(b"a", b"b"))
    work.run()
    answer = ask(bench, ("t", 0, 1))
    assert isinstance(answer, DelayedOperation)
    assert answer.response is None
    assert fetch(bench, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    work.run()
    assert results(answer.response) == [(0, 1, ErrorCode.NONE)]
    for seed in range(10):
        assert start_of(BrokerBench(disk.crash(seed))) <= 1


def with_held_work():
    bench = BrokerBench(MemoryDisk(), work := HeldWork())
    bench.core.topics.create(NewTopic("t", 1), lambda made: None)
    work.run()
    return bench, work


def test_a_client_is_answered_in_its_time_and_the_records_still_go():
    bench, work = with_held_work()
    bench.produce(produced(b"a", b"b"))
    work.run()
    waiting = ask(bench, ("t", 0, 1))
    assert isinstance(waiting, DelayedOperation)
    bench.advance(999)
    assert waiting.response is None
    bench.advance(1)
    assert results(waiting.response) == [(0, 1, ErrorCode.REQUEST_TIMED_OUT)]
    work.run()
    bench.restart()
    assert start_of(bench) == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_gives_no_time_is_answered_when_it_is_done(timeout_ms):
    bench, work = with_held_work()
    bench.produce(produced(b"a", b"b"))
    work.run()
    waiting = bench.ask(DeleteRecordsRequest([Topic("t", [Partition(0, 1)])], timeout_ms))
    assert isinstance(waiting, DelayedOperation)
    bench.advance(1)
    assert waiting.response is None
    work.run()
    assert results(waiting.response) == [(0, 1, ErrorCode.NONE)]


def test_topics_that_are_created_hold_up_nothing():
    bench, work = with_held_work()
    created = []
    for number in range(9):
        bench.core.topics.create(NewTopic(f"many{number}", 1), created.append)
    waiting = ask(bench, ("t", 0, -1))
    assert isinstance(waiting, DelayedOperation)
    while waiting.response is None:
        work.run(1)
    assert results(waiting.response) == [(0, 0, ErrorCode.NONE)]
    assert len(created) == 2, "one sync was already in progress, and another covers all the other requests"


def test_failed_checkpoint_is_reported():
    disk = MemoryDisk()
    bench = BrokerBench(disk)
    bench.create()
    bench.produce(produced(b"a", b"b"))
    disk.plan = fail_at(disk.calls + 1)
    assert ask(bench, ("t", 0, 1)) == [(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]
    log = bench.core.directory.of("t")[0]
    log.fail(OSError("gone"))
    assert ask(bench, ("t", 0, 1)) == [(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert log.error is not None
    assert log.error.__traceback__ is None, "the log keeps the error, so the error would grow with every request"
