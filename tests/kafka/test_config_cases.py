"""Apache Kafka and the reference broker answer requests for configuration changes, and describe them, in the same way.

Method: send each case in `config_cases.py` in a validate-only request; then make changes on both brokers, and compare
their descriptions. A changed value appears after a moment, since Kafka's broker gets it from its controller.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkawire.sdk.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import call, create
from tests.kafka.servers import BROKER_OPTIONS
from tests.reference_broker.config_cases import APPEND, CASES, DELETE, SET, SUBTRACT, TOPIC, Operation

TIMEOUT_SECONDS = 30

#: Where Kafka has a limit that the reference broker lacks by default, the broker under test is given Kafka's limit.
assert "group_consumer_max_assignment_interval_ms" not in BROKER_OPTIONS


class Asked:
    """A broker under test, and one of its topics."""

    def __init__(self, bootstrap: str) -> None:
        self.topic = create(bootstrap, {})
        host, port = bootstrap.rsplit(":", 1)
        self._socket = FrameSocket(host, int(port), TIMEOUT_SECONDS)

    def __enter__(self) -> Asked:
        self._socket.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def alter(
        self, kind: int, name: str, *operations: Operation, validate_only: bool = False
    ) -> tuple[int, str | None]:
        """Return the answer to IncrementalAlterConfigs."""
        configs = [IncrementalAlterConfigsRequest.AlterableConfig(*each) for each in operations]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, self._named(name), configs)
        response = call(self._socket, IncrementalAlterConfigsRequest([resource], validate_only), 1)
        assert isinstance(response, IncrementalAlterConfigsResponse)
        (result,) = response.responses
        return result.error_code, result.error_message

    def replace(self, kind: int, name: str, *configs: tuple[str, str | None]) -> tuple[int, str | None]:
        """Return the answer to AlterConfigs."""
        given = [AlterConfigsRequest.AlterableConfig(*each) for each in configs]
        resource = AlterConfigsRequest.AlterConfigsResource(kind, self._named(name), given)
        response = call(self._socket, AlterConfigsRequest([resource]), 2)
        assert isinstance(response, AlterConfigsResponse)
        (result,) = response.responses
        return result.error_code, result.error_message

    def changed(self, kind: int, name: str) -> dict[str, tuple[bool, list[tuple[str, str | None, int]]]]:
        """Return the value of each configuration changed at runtime, and whether it is documented."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(kind, self._named(name), None)
        request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
        response = call(self._socket, request, 4)
        assert isinstance(response, DescribeConfigsResponse)
        still = (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
        return {
            entry.name: (
                entry.documentation is not None,
                [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
            )
            for entry in response.results[0].configs
            if entry.config_source not in still and entry.name != "min.insync.replicas"  # Kafka changes these itself
        }

    def resources(self, *kinds: int) -> set[tuple[str, int]]:
        """Return the resources that ListConfigResources lists."""
        response = call(self._socket, ListConfigResourcesRequest(kinds), 1)
        assert isinstance(response, ListConfigResourcesResponse)
        return {(each.resource_name, each.resource_type) for each in response.config_resources}

    def _named(self, name: str) -> str:
        return self.topic if name == TOPIC else name


@pytest.fixture
def theirs(kafka: ApacheKafka) -> Iterator[Asked]:
    with Asked(kafka.bootstrap) as asked:
        yield asked


@pytest.fixture
def ours(broker: Broker) -> Iterator[Asked]:
    with Asked(broker.bootstrap) as asked:
        yield asked


def test_kafka_gives_the_answers_of_the_table(theirs: Asked) -> None:
    for case in CASES:
        answer = theirs.alter(case.kind, case.name, *case.operations, validate_only=True)
        assert answer == (case.kafka or (case.code, case.message)), case


def test_the_reference_broker_gives_the_answers_of_the_table(ours: Asked) -> None:
    for case in CASES:
        answer = ours.alter(case.kind, case.name, *case.operations, validate_only=True)
        assert answer == (case.code, case.message), case


#: Successive changes, each with the type of request that makes it.
STORIES = {
    "topic": (
        ConfigResourceType.TOPIC,
        TOPIC,
        [
            [("retention.ms", SET, "5000")],
            [("cleanup.policy", APPEND, "compact")],
            [("cleanup.policy", APPEND, "compact, delete")],
            [("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)],
            [("cleanup.policy", SUBTRACT, "compact")],
            [("leader.replication.throttled.replicas", APPEND, "0:1,1:1")],
            [("leader.replication.throttled.replicas", SUBTRACT, "0:1"), ("cleanup.policy", DELETE, None)],
        ],
    ),
    "broker": (
        ConfigResourceType.BROKER,
        "1",
        [
            [("log.segment.bytes", SET, "2000000"), ("log.retention.ms", SET, "700000000")],
            [("log.cleanup.policy", APPEND, "compact"), ("log.retention.ms", DELETE, None)],
            [("nobody.knows", SET, "x"), ("listener.name.plaintext.ssl.keystore.type", SET, "PEM")],
            [("log.segment.bytes", DELETE, None), ("log.cleanup.policy", DELETE, None)],
            [("nobody.knows", DELETE, None), ("listener.name.plaintext.ssl.keystore.type", DELETE, None)],
        ],
    ),
    "all brokers": (
        ConfigResourceType.BROKER,
        "",
        [
            [("log.retention.ms", SET, "700000000"), ("nobody.knows", SET, "x")],
            [("log.retention.ms", DELETE, None), ("nobody.knows", DELETE, None)],
        ],
    ),
    "group": (
        ConfigResourceType.GROUP,
        "a group/of%2Fmine",
        [
            [("consumer.session.timeout.ms", SET, "50000"), ("share.auto.offset.reset", SET, "earliest")],
            [("consumer.session.timeout.ms", DELETE, None)],
            [("share.auto.offset.reset", DELETE, None)],
        ],
    ),
    "client metrics": (
        ConfigResourceType.CLIENT_METRICS,
        "metrics of mine",
        [
            [("interval.ms", SET, "1000"), ("metrics", SET, "org.apache.kafka.,x")],
            [("interval.ms", DELETE, None), ("metrics", DELETE, None)],
        ],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_changes_are_shown_alike(theirs: Asked, ours: Asked, story: str) -> None:
    kind, name, changes = STORIES[story]
    for change in changes:
        assert theirs.alter(kind, name, *change) == ours.alter(kind, name, *change) == (0, None)
        _await_equal(theirs, ours, kind, name)
    assert ours.changed(kind, name) == {} or story == "topic"


def test_configurations_are_replaced_alike(theirs: Asked, ours: Asked) -> None:
    for configs in (
        [("retention.ms", "1000"), ("segment.bytes", "2000000")],
        [("segment.bytes", "3000000")],
        [("nobody.knows", "1")],
        [("segment.bytes", "1")],
        [("segment.bytes", None)],
        [("segment.bytes", "2000000"), ("segment.bytes", "3000000")],
        [],
    ):
        assert theirs.replace(ConfigResourceType.TOPIC, TOPIC, *configs) == ours.replace(
            ConfigResourceType.TOPIC, TOPIC, *configs
        )
        _await_equal(theirs, ours, ConfigResourceType.TOPIC, TOPIC)
    for kind, name in ((ConfigResourceType.BROKER_LOGGER, "1"), (99, "x"), (ConfigResourceType.BROKER, "2")):
        assert theirs.replace(kind, name, ("root", "INFO")) == ours.replace(kind, name, ("root", "INFO"))


def test_resources_are_listed_alike(theirs: Asked, ours: Asked) -> None:
    for asked in (theirs, ours):
        asked.alter(ConfigResourceType.CLIENT_METRICS, "listed", ("interval.ms", SET, "1000"))
        asked.alter(ConfigResourceType.GROUP, "listed", ("consumer.session.timeout.ms", SET, "50000"))
        wanted = {("listed", ConfigResourceType.CLIENT_METRICS), ("listed", ConfigResourceType.GROUP)}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not asked.resources(ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS) >= wanted:
            assert time.monotonic() < deadline
        everything = asked.resources()
        assert everything >= wanted | {("1", ConfigResourceType.BROKER), ("1", ConfigResourceType.BROKER_LOGGER)}
        assert (asked.topic, ConfigResourceType.TOPIC) in everything
        asked.alter(ConfigResourceType.CLIENT_METRICS, "listed", ("interval.ms", DELETE, None))
        asked.alter(ConfigResourceType.GROUP, "listed", ("consumer.session.timeout.ms", DELETE, None))


def _await_equal(theirs: Asked, ours: Asked, kind: int, name: str) -> None:
    """Wait until both show the same values."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (shown := theirs.changed(kind, name)) != ours.changed(kind, name):
        assert time.monotonic() < deadline, (shown, ours.changed(kind, name))
