"""Apache Kafka and the reference broker report the same one of several faults when topics are created or deleted.

Method: use the tables of `topic_cases.py`. Apache Kafka 3.9.1 with a ZooKeeper and a cluster of one reference broker
give one set of answers; Apache Kafka 4.3 and a reference broker of its own give the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafkawire import Admin, NewTopic
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.reference_broker.apis.topic_cases import CREATIONS, DELETIONS, EXISTING, NAMED_TWICE

CREATE_VERSION, DELETE_VERSION = 7, 6


@pytest.fixture(scope="module", params=["kafka", "ours"])
def in_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The only broker of a cluster with a ZooKeeper; it has id 1."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper())
        if request.param == "kafka":
            bootstrap = stack.enter_context(ZooKeeperKafka(1, zookeeper.address)).bootstrap
        else:
            folder: Path = tmp_path_factory.mktemp("cases")
            options: dict[str, Any] = {"zookeeper_connect": zookeeper.address, "broker_id": 1, "data_dir": folder}
            bootstrap = stack.enter_context(Broker(**options)).bootstrap
        fill(bootstrap)
        yield bootstrap


@pytest.fixture(scope="module", params=["kafka", "ours"])
def alone(request: pytest.FixtureRequest) -> str:
    """A broker without a ZooKeeper."""
    running: ApacheKafka | Broker = request.getfixturevalue("kafka" if request.param == "kafka" else "broker")
    fill(running.bootstrap)
    return running.bootstrap


def fill(bootstrap: str) -> None:
    asyncio.run(topics.create(bootstrap, *(NewTopic(name, 1, 1) for name in EXISTING)))


def ask(bootstrap: str, request: Message, version: int) -> Any:
    host, _, port = bootstrap.rpartition(":")
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        return call(socket, request, version)


def created(bootstrap: str, *wanted: CreateTopicsRequest.CreatableTopic) -> list[tuple[str, ErrorCode, str | None]]:
    """Return the results for topics that are only validated."""
    request = CreateTopicsRequest([*wanted], TIMEOUT_MS, validate_only=True)
    response = ask(bootstrap, request, CREATE_VERSION)
    return [(each.name, each.error_code, each.error_message) for each in response.topics]


def answers(bootstrap: str) -> dict[str, tuple[ErrorCode, str | None]]:
    return {each.name: created(bootstrap, each.topic)[0][1:] for each in CREATIONS}


def named_twice(bootstrap: str) -> list[tuple[str, ErrorCode, str | None]]:
    return sorted(created(bootstrap, *(CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in NAMED_TWICE[0])))


def test_the_fault_that_a_cluster_reports(in_cluster: str) -> None:
    assert answers(in_cluster) == {each.name: each.zookeeper for each in CREATIONS}
    assert named_twice(in_cluster) == sorted(NAMED_TWICE[1])


def test_the_fault_that_a_broker_alone_reports(alone: str) -> None:
    assert answers(alone) == {each.name: each.raft for each in CREATIONS}
    assert named_twice(alone) == sorted(NAMED_TWICE[2])


def test_a_cluster_answers_each_entry_of_a_deletion(in_cluster: str) -> None:
    async def create(name: str) -> bytes:
        async with Admin(in_cluster) as admin:
            await admin.create_topics(NewTopic(name, 1, 1))
            return (await admin.describe_topics(name))[name].topic_id

    for number, case in enumerate(DELETIONS):
        name = f"zzz.deleted.{number}"
        topic_id = asyncio.run(create(name))
        response = ask(in_cluster, case.request(name, topic_id), DELETE_VERSION)
        found = [(each.name, each.topic_id, each.error_code, each.error_message) for each in response.responses]
        assert found == case.expected(name, topic_id), case.name
