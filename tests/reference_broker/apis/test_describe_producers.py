"""DescribeProducers describes the active producers of a log, in Apache Kafka's order.

Method: ask a broker without sockets about producers whose transactions are open or ended, or that have none.
"""

import pytest

from kafkawire.sdk.protocol.messages.describe_producers import DescribeProducersRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.produced_batches import NOW_MS
from tests.reference_broker.storage.transacting_logs import Transactions


def describe(bench, *numbers, topic="t"):
    wanted = DescribeProducersRequest.TopicRequest(topic, list(numbers))
    return bench.ask(DescribeProducersRequest([wanted])).topics[0].partitions


def test_producers(bench):
    bench.create()
    log = Transactions(bench.core.directory.of("t")[0])
    log.append(18, b"a", b"b", epoch=2)
    log.end(18, True, 2, coordinator_epoch=9)
    log.append(1, b"c")
    log.append(4, b"d", is_transactional=False)
    (partition,) = describe(bench, 0)
    assert (partition.error_code, partition.error_message) == (ErrorCode.NONE, None)
    found = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        )
        for producer in partition.active_producers
    ]
    # A marker has no sequence numbers of its own.
    assert found == [(1, 0, 0, NOW_MS, -1, 3), (18, 2, 1, NOW_MS, 9, -1), (4, 0, 0, NOW_MS, -1, -1)]


@pytest.mark.parametrize(
    ("topic", "number", "code", "message"),
    [
        ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
    ],
)
def test_errors(bench, topic, number, code, message):
    bench.create()
    (partition,) = describe(bench, number, topic=topic)
    assert (partition.error_code, partition.error_message, list(partition.active_producers)) == (code, message, [])


def test_a_log_that_is_offline(bench):
    bench.create()
    bench.core.directory.of("t")[0].fail(OSError("broken"))
    (partition,) = describe(bench, 0)
    assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
