"""Tests with a real Apache Kafka. They run only under `make test-kafka`, which sets KAFKAWIRE_TEST_KAFKA."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kafkawire.testing import Broker
from tests.certificates import Certificates
from tests.kafka.apache import ApacheKafka
from tests.kafka.cluster import KafkaCluster
from tests.kafka.secure import SecureKafka
from tests.kafka.servers import BROKER_OPTIONS, Server
from tests.kafka.stored_files import filled_node
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka

if not os.environ.get("KAFKAWIRE_TEST_KAFKA"):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[ApacheKafka]:
    """One node for all tests; each test uses its own topics and groups."""
    with ApacheKafka() as node:
        yield node


@pytest.fixture(scope="session")
def filled_kafka() -> Iterator[ApacheKafka]:
    """One node that has written every kind of file; no test writes to it."""
    with filled_node() as node:
        yield node


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Three nodes for the tests of one module; each test leaves all of them running."""
    with KafkaCluster() as nodes:
        yield nodes


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One reference broker for all tests; each test uses its own topics and groups."""
    with Broker(**BROKER_OPTIONS) as node:
        yield node


@pytest.fixture(scope="session")
def zookeeper_servers() -> Iterator[tuple[ZooKeeper, ZooKeeperKafka]]:
    """A ZooKeeper server and a Kafka 3.9 node; each test uses its own topics and groups."""
    with ZooKeeper() as zookeeper, ZooKeeperKafka(0, f"{zookeeper.address}/kafka") as node:
        yield zookeeper, node


@pytest.fixture
def either(request: pytest.FixtureRequest) -> Server:
    """Apache Kafka in one run of the test, the reference broker in the other."""
    found: Server = request.getfixturevalue(request.param)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that use the fixture `either` on both brokers."""
    if "either" in metafunc.fixturenames:
        metafunc.parametrize("either", ["kafka", "broker"], indirect=True)


@pytest.fixture(scope="session")
def secure_kafka(certificates: Certificates) -> Iterator[SecureKafka]:
    """One secured node for all tests; each test uses its own topics and groups."""
    with SecureKafka(certificates) as node:
        yield node
