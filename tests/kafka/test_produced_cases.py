"""Apache Kafka and the reference broker answer unusual batches as specified in one table.

Method: produce every case in `produced_cases.py` to both, with the current time, and read back the stored batches.
"""

from __future__ import annotations

import time

import pytest

from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import LATEST, TIMEOUT_MS, ask, create, produce, stored_batch
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.produced_cases import cases


def test_kafka_gives_the_answers_of_the_table(kafka: ApacheKafka) -> None:
    asked = [case for case in cases(time.time_ns() // 1_000_000) if case.code is not None]
    for case, answer in ask(kafka.bootstrap, asked):
        assert (answer.code, answer.bad, answer.stored) == (case.code, case.bad, case.stored), case.name


def test_the_reference_broker_gives_the_answers_of_the_table(broker: Broker) -> None:
    for case, answer in ask(broker.bootstrap, cases(time.time_ns() // 1_000_000)):
        assert (answer.code, answer.bad, answer.stored) == (case.expected, case.bad, case.stored), case.name


@pytest.mark.parametrize("kind", ["uncompressed", "gzip", "lz4", "snappy", "zstd"])
def test_a_topic_may_have_a_compression_of_its_own(kafka: ApacheKafka, broker: Broker, kind: str) -> None:
    stored = []
    for bootstrap in (kafka.bootstrap, broker.bootstrap):
        topic = create(bootstrap, {"compression.type": kind})
        host, port = bootstrap.rsplit(":", 1)
        with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
            for codec in Compression:
                records = bytes(produced(b"a", b"b" * 1000, None, compression=codec))
                answer = produce(socket, topic, records, LATEST)
                assert answer.code == ErrorCode.NONE
                batch = stored_batch(socket, topic, answer.base_offset)
                header = (batch.max_timestamp, batch.timestamp_type, batch.base_timestamp, batch.last_offset)
                stored.append((batch.compression, header, batch.records()))
    assert stored[: len(Compression)] == stored[len(Compression) :]
