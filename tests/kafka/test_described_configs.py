"""DescribeConfigs describes every configuration as Apache Kafka does, except for the differences listed here.

Method: have both brokers describe a topic, themselves, a group and a client metrics subscription, with synonyms and
documentation, and compare the answers name by name. A listed difference that does not exist also fails the test. The
documentation is the project's own: it must be null exactly where Kafka's is null, and no text may be copied from Kafka.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.configs import load_configs
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, ZOOKEEPER_BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import call, create
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka

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


#: What the brokers of a cluster with ZooKeeper are started with.
GIVEN = {
    "auto.leader.rebalance.enable": "true",
    "broker.rack": "here",
    "controlled.shutdown.max.retries": "4",
    "default.replication.factor": "1",
    "delete.topic.enable": "false",
    "inter.broker.protocol.version": "3.8",
    "leader.imbalance.check.interval.seconds": "299",
    "num.replica.fetchers": "2",
    "offsets.topic.replication.factor": "1",
    "replica.lag.time.max.ms": "29999",
    "request.timeout.ms": "30001",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "unclean.leader.election.enable": "false",
    "zookeeper.connection.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "6000",
}


def test_options_of_a_cluster_are_described_as_by_kafka(tmp_path: Path) -> None:
    """The node of Apache Kafka is of 3.9.1, and so are the facts of these configurations in the table."""
    names = ZOOKEEPER_BROKER_CONFIGS.keys() | ClusterOptions.KAFKA_NAMES.keys() & BROKER_CONFIGS.keys() - {"broker.id"}
    with ZooKeeper() as zookeeper, ZooKeeperKafka(1, zookeeper.address, GIVEN) as node:
        own: dict[str, Any] = {**GIVEN, "zookeeper.connect": zookeeper.address, "broker.id": 2, "data_dir": tmp_path}
        with Broker(**own) as ours:
            kind = ConfigResourceType.BROKER
            found = [described(node.bootstrap, kind, "1"), described(ours.bootstrap, kind, "2")]
    pairs = {name: (found[0][name], found[1][name]) for name in names}
    assert {name: each for name, each in pairs.items() if each[0][:-1] != each[1][:-1]} == {}
    assert all(each[1][-1] and each[0][-1] != each[1][-1] for each in pairs.values())
    for number, each in enumerate(found, 1):
        assert each["node.id"][:2] == each["broker.id"][:2] == (str(number), ConfigSource.STATIC_BROKER_CONFIG)


@pytest.mark.parametrize("wanted", [True, False])
def test_documentation_of_loggers_is_empty(kafka: ApacheKafka, broker: Broker, wanted: bool) -> None:
    for each in (kafka, broker):
        loggers = described(each.bootstrap, ConfigResourceType.BROKER_LOGGER, "1", include_documentation=wanted)
        assert {entry[-1] for entry in loggers.values()} == {""}
