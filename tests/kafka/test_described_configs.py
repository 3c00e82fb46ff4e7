"""DescribeConfigs describes every configuration as Apache Kafka does, except for the differences listed here.

Method: have both brokers describe a topic, themselves, a group and a client metrics subscription, with synonyms and
documentation, and compare the answers name by name. A listed difference that does not exist also fails the test. The
documentation is the project's own: it must be null exactly where Kafka's is null, and no text may be copied from Kafka.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.configs import load_configs
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import call, create

TIMEOUT_SECONDS = 30
VERSION = 4

RESOURCES = {
    "broker": (ConfigResourceType.BROKER, "1"),
    "group": (ConfigResourceType.GROUP, "described"),
    "client_metrics": (ConfigResourceType.CLIENT_METRICS, "described"),
}

_NODE = "the node of the tests has it in its configuration file"
_ADDRESS = "each of the two has its own"
_GATHERED = "the tests' broker does not gather changes"
_ELR = "Kafka sets a value for all brokers when eligible leader replicas are enabled, which this broker does not have"

#: Why the two differ, keyed by resource and name; `here` in schemas/configs.yaml explains our own defaults.
DIFFERENCES = {
    ("topic", "min.insync.replicas"): _ELR,
    ("broker", "min.insync.replicas"): _ELR,
    ("broker", "advertised.listeners"): _ADDRESS,
    ("broker", "listeners"): _ADDRESS,
    ("broker", "log.dirs"): _ADDRESS,
    ("broker", "controller.listener.names"): _NODE,
    ("broker", "controller.quorum.bootstrap.servers"): _NODE,
    ("broker", "inter.broker.listener.name"): _NODE,
    ("broker", "offsets.topic.num.partitions"): _NODE,
    ("broker", "offsets.topic.replication.factor"): _NODE,
    ("broker", "process.roles"): _NODE,
    ("broker", "share.coordinator.state.topic.min.isr"): _NODE,
    ("broker", "share.coordinator.state.topic.replication.factor"): _NODE,
    ("broker", "transaction.abort.timed.out.transaction.cleanup.interval.ms"): _NODE,
    ("broker", "transaction.state.log.min.isr"): _NODE,
    ("broker", "transaction.state.log.replication.factor"): _NODE,
    **{
        ("broker", spec.name): spec.here.reason
        for spec in load_configs(SCHEMAS / "configs.yaml")["broker"]
        if spec.here is not None and spec.here.default is not None
    },
    ("broker", "group.consumer.assignment.interval.ms"): _GATHERED,
    ("group", "consumer.assignment.interval.ms"): _GATHERED,
}


def described(
    bootstrap: str, kind: ConfigResourceType, name: str, *, include_documentation: bool = True
) -> dict[str, tuple[Any, ...]]:
    """Return a broker's description of each configuration of a resource."""
    host, port = bootstrap.rsplit(":", 1)
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=include_documentation)
    with FrameSocket(host, int(port), TIMEOUT_SECONDS) as socket:
        response = call(socket, request, VERSION)
    assert isinstance(response, DescribeConfigsResponse)
    (result,) = response.results
    assert (result.error_code, result.error_message) == (0, "")
    return {
        entry.name: (
            *(entry.value, entry.config_source, entry.config_type, entry.read_only, entry.is_sensitive),
            [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
            entry.documentation,
        )
        for entry in result.configs
    }


def compare(resource: str, theirs: dict[str, tuple[Any, ...]], ours: dict[str, tuple[Any, ...]]) -> None:
    assert ours.keys() == theirs.keys()
    words = {name: (theirs[name][-1], ours[name][-1]) for name in theirs}
    assert {name: pair for name, pair in words.items() if (pair[0] is None) != (pair[1] is None)} == {}
    assert {name: pair for name, pair in words.items() if pair[0] and pair[0] == pair[1]} == {}
    theirs, ours = ({name: entry[:-1] for name, entry in found.items()} for found in (theirs, ours))
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    known = {name for kind, name in DIFFERENCES if kind == resource}
    assert {name: pair for name, pair in different.items() if name not in known} == {}
    assert known <= different.keys()


@pytest.mark.parametrize("resource", RESOURCES)
def test_resources_are_described_as_by_kafka(kafka: ApacheKafka, broker: Broker, resource: str) -> None:
    compare(resource, *(described(each.bootstrap, *RESOURCES[resource]) for each in (kafka, broker)))


@pytest.mark.parametrize("own", [{}, {"segment.ms": "86400000", "retention.ms": "-1"}])
def test_topics_are_described_as_by_kafka(kafka: ApacheKafka, broker: Broker, own: dict[str, str]) -> None:
    found = (
        described(each.bootstrap, ConfigResourceType.TOPIC, create(each.bootstrap, own)) for each in (kafka, broker)
    )
    compare("topic", *found)


@pytest.mark.parametrize("wanted", [True, False])
def test_documentation_of_loggers_is_empty(kafka: ApacheKafka, broker: Broker, wanted: bool) -> None:
    for each in (kafka, broker):
        loggers = described(each.bootstrap, ConfigResourceType.BROKER_LOGGER, "1", include_documentation=wanted)
        assert {entry[-1] for entry in loggers.values()} == {""}
