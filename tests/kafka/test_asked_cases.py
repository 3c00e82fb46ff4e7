"""Apache Kafka and the reference broker answer requests about the cluster as specified in one table.

Method: send every case in `asked_cases.py` to both brokers in every version, each on its own connection.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire import NewTopic
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket
from kafkawire.testing import Broker
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import LATEST, TIMEOUT_MS, call, produce
from tests.reference_broker.apis.asked_cases import RECORDS, TOPICS, Case, cases, comparable, name_of, versions

ALL = pytest.mark.parametrize("case", cases(), ids=name_of)


def socket_to(bootstrap: str) -> FrameSocket:
    host, _, port = bootstrap.rpartition(":")
    return FrameSocket(host, int(port), TIMEOUT_MS / 1000)


def fill(bootstrap: str) -> str:
    """Create the topics that the cases use."""
    made = (NewTopic(name, count, 1, {"retention.ms": "-1"}) for name, count in TOPICS.items())
    asyncio.run(topics.create(bootstrap, *made))
    with socket_to(bootstrap) as socket:
        assert produce(socket, next(iter(TOPICS)), bytes(RECORDS), LATEST).code == ErrorCode.NONE
    return bootstrap


@pytest.fixture(scope="module")
def kafkas_address(kafka: ApacheKafka) -> str:
    return fill(kafka.bootstrap)


@pytest.fixture(scope="module")
def our_address(broker: Broker) -> str:
    return fill(broker.bootstrap)


def ask(bootstrap: str, request: Message, version: int) -> Message | None:
    """Return the response, or None if the connection is closed instead."""
    with socket_to(bootstrap) as socket:
        try:
            return call(socket, request, version)
        except ConnectionEnded:
            return None


@ALL
def test_kafka_gives_the_answers_of_the_table(kafkas_address: str, case: Case) -> None:
    for version in versions(case):
        answer = ask(kafkas_address, case.request, version)
        assert comparable(answer, version) == comparable(case.response, version), version


@ALL
def test_the_reference_broker_gives_the_answers_of_the_table(our_address: str, case: Case) -> None:
    for version in versions(case):
        answer = ask(our_address, case.request, version)
        assert comparable(answer, version) == comparable(case.expected, version), version
