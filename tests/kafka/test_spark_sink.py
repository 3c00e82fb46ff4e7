"""Spark's sink works on Apache Kafka: another process finishes its transactions, and drivers may be killed.

Method: kill the drivers with tests/sdk/spark/sink/killing.py, either at each of the moments that it chooses (without
transactions, at one of them) or as often as KAFKAWIRE_SPARK_KILLS says. Test transactions in both versions of the
protocol.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed; install the extra `spark`")

from kafkawire import GroupMetadata, OffsetAndMetadata, TopicPartition
from kafkawire.errors import BrokerError
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_VERSION_FEATURE
from kafkawire.sdk.spark.sink.coordinators import Coordinators
from kafkawire.sdk.sync.prepared import prepare_transaction
from kafkawire.sync import Producer
from tests.kafka.apache import ApacheKafka
from tests.sdk.spark.sink.killing import (
    PREFIX,
    KilledStream,
    check_once,
    check_row_ids,
    source_of_files,
    source_of_topic,
)
from tests.sdk.spark.sink.topics import committed

KILLS = int(os.environ.get("KAFKAWIRE_SPARK_KILLS", "4"))

# Each kill takes as long as the startup of a driver.
pytestmark = pytest.mark.timeout(300 + 60 * KILLS)


@pytest.fixture(scope="module", params=[1, 2])
def node(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """A node with either transaction version; each test uses its own topics and ids."""
    with ApacheKafka(features={TRANSACTION_VERSION_FEATURE: request.param}) as kafka:
        yield kafka


def prepared(node: ApacheKafka, topic: str) -> PreparedTransaction:
    """Prepare a transaction of one record, let its producer disappear, and return the transaction."""
    with Producer(node.bootstrap, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"v")
        producer.flush()
        producer.send_offsets({TopicPartition(topic, 0): OffsetAndMetadata(1, "own")}, GroupMetadata(topic))
        found = prepare_transaction(producer)
    assert found is not None
    return found


@pytest.mark.parametrize("commits", [True, False])
def test_ends_from_outside(node: ApacheKafka, commits: bool) -> None:
    topic = f"prepared-{commits}"
    transaction = prepared(node, topic)
    assert committed(node.bootstrap, topic) == []
    with Coordinators({"bootstrap_servers": node.bootstrap}) as coordinators:
        coordinators.add_offsets(transaction, f"{topic}-more", {TopicPartition(topic, 0): OffsetAndMetadata(2)})
        for _ in range(2):  # a response may be lost
            coordinators.end([transaction], commits=commits)
        offsets = [coordinators.committed(group) for group in (topic, f"{topic}-more")]
        assert [[each.offset for each in found.values()] for found in offsets] == ([[1], [2]] if commits else [[], []])
        with pytest.raises(BrokerError):
            coordinators.end([transaction], commits=not commits)
    prepared(node, topic)  # it begins once the previous one has fully ended
    assert [each.value for each in committed(node.bootstrap, topic)] == ([b"v"] if commits else [])


def test_a_later_producer_fences(node: ApacheKafka) -> None:
    first, second = prepared(node, "fenced"), prepared(node, "fenced")
    with Coordinators({"bootstrap_servers": node.bootstrap}) as coordinators:
        with pytest.raises(BrokerError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
            coordinators.end([first], commits=True)
        coordinators.end([second], commits=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", ["kafkawire", "kafka_segments"])
def test_kills_with_transactions(kafka: ApacheKafka, tmp_path: Path, source: str) -> None:
    """Committed records, read from a topic or its files, are copied to another topic exactly once."""
    folder = kafka.data_dir if source == "kafka_segments" else None
    given = source_of_topic(kafka.bootstrap, f"{source}-in", KILLS, folder)
    assert given.format == source
    stream = KilledStream(given, kafka.bootstrap, f"{source}-once", tmp_path, transactionalIdPrefix=PREFIX + source)
    for number in range(KILLS):
        stream.run_and_kill(number)
    stream.finish()
    check_once(stream)


@pytest.mark.filterwarnings("ignore")
def test_kills_with_row_ids(kafka: ApacheKafka, tmp_path: Path) -> None:
    kills = KILLS if "KAFKAWIRE_SPARK_KILLS" in os.environ else 1
    source = source_of_files(tmp_path / "in", kills)
    stream = KilledStream(source, kafka.bootstrap, "spark-ids", tmp_path, dedupeHeaders="true")
    for number in range(kills):
        stream.run_and_kill(number + 1)
    stream.finish()
    assert check_row_ids(stream) >= stream.repeated
