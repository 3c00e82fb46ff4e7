"""WriteTxnMarkers ends transactions in every version, with a result for each partition, as Apache Kafka does.

Method: send requests to a broker without sockets; Apache Kafka 4.3.0 gave the same answers to them.
"""

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench, versions_of
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.transacting_logs import Transactions

Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
NONE, EPOCH = ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH
MISSING, FENCED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TRANSACTION_COORDINATOR_FENCED
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


def marker(producer, epoch, *partitions, is_commit=True, coordinator_epoch=0, version=0, topic="t"):
    Marker = WriteTxnMarkersRequest.WritableTxnMarker
    topics = [Topic(topic, list(partitions))] if partitions else []
    return Marker(producer, epoch, is_commit, topics, coordinator_epoch, version)


def write(bench, *markers, version=2):
    """Return the codes for all partitions, keyed by producer."""
    response = bench.ask(WriteTxnMarkersRequest(list(markers)), version)
    return {
        result.producer_id: [entry.error_code for topic in result.topics for entry in topic.partitions]
        for result in response.markers
    }


@pytest.mark.parametrize("version", versions_of(ApiKey.WRITE_TXN_MARKERS))
@pytest.mark.parametrize("is_commit", [False, True])
def test_every_version(bench, version, is_commit):
    bench.create()
    log = bench.core.directory.of("t")[0]
    Transactions(log).append(7, b"x")
    assert log.last_stable_offset == 0
    assert write(bench, marker(7, 0, 0, is_commit=is_commit), version=version) == {7: [NONE]}
    assert log.last_stable_offset == 2
    assert len(log.segments.last.transactions) == (not is_commit)


@pytest.mark.parametrize(
    ("markers", "codes"),
    [
        ([], {}),
        ([marker(1, 0)], {}),
        ([marker(1, 0), marker(2, 0, 0)], {2: [NONE]}),
        ([marker(1, 0, 0, 5, -1)], {1: [NONE, MISSING, MISSING]}),
        ([marker(1, 0, 0, topic="none")], {1: [MISSING]}),
        ([marker(1, 5, 0), marker(1, 4, 1)], {1: [NONE, NONE]}),
        ([marker(1, 5, 0), marker(1, 4, 0)], {1: [NONE, EPOCH]}),
        ([marker(1, 5, 0, version=2), marker(1, 5, 0, version=2)], {1: [NONE, NONE]}),
        ([marker(1, 5, 0, coordinator_epoch=5), marker(1, 5, 0, coordinator_epoch=4)], {1: [NONE, FENCED]}),
        ([marker(1, 5, 0, coordinator_epoch=5), marker(1, 4, 0, coordinator_epoch=4)], {1: [NONE, EPOCH]}),
        ([marker(1, 0, 0, coordinator_epoch=-1)], {1: [NONE]}),
        ([marker(-1, 0, 0)], {-1: [FAILED]}),
        ([marker(1, -1, 0)], {1: [FAILED]}),
    ],
)
def test_answers(bench, markers, codes):
    bench.create(partitions=2)
    assert write(bench, *markers) == codes


def test_a_hanging_transaction_is_aborted_by_hand(bench):
    """An administrator's request has the producer's epoch, but no transaction version."""
    bench.create()
    log = bench.core.directory.of("t")[0]
    Transactions(log).append(7, b"x", epoch=3)
    assert write(bench, marker(7, 3, 0, is_commit=False, version=2)) == {7: [EPOCH]}
    assert write(bench, marker(7, 3, 0, is_commit=False), version=1) == {7: [NONE]}
    assert log.last_stable_offset == log.high_watermark == 2


def test_the_response_waits_for_the_disk_if_the_topic_asks_for_it():
    work = HeldWork()
    bench = BrokerBench(MemoryDisk(), work)
    config = CreateTopicsRequest.CreatableTopicConfig("flush.messages", "1")
    bench.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1, configs=[config])], 1000))
    work.run()
    operation = bench.ask(WriteTxnMarkersRequest([marker(7, 0, 0)]), 2)
    responses: list[WriteTxnMarkersResponse] = []
    operation.then(responses.append)
    assert not responses
    work.run()
    (result,) = responses[0].markers
    assert result.topics[0].partitions[0].error_code == NONE
