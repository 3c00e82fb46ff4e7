"""Third-party admin clients administer the reference broker as they do Apache Kafka.

Method: run each program on both brokers; it takes the same steps, mistakes included, and prints its client's results.
Mask broker-specific values, and compare.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from kafkawire import NewTopic, TopicPartition
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sync import Admin, Consumer
from kafkawire.testing import Broker
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.programs import BUILD_TIMEOUT_SECONDS, PROGRAMS, Program, name_of, usable
from tests.kafka.servers import Server
from tests.kafka.spring import administer
from tests.needs import JAVAC

#: The first test that uses a client waits until the client is built.
pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_SECONDS + 300)

#: The programs whose clients have an admin API.
ADMINISTRATORS = ("kafka-python", "aiokafka", "confluent-kafka", "franz-go", "sarama", "kafkajs")

#: Broker-specific fields of answers, under the names that each client uses.
FACTS = {
    *("cluster_id", "clusterId", "ClusterID", "Cluster"),
    *("topic_id", "TopicID", "Uuid", "port", "Port"),
    *("log_dir", "Dir", "total_bytes", "usable_bytes", "TotalBytes", "UsableBytes"),
}

#: A configuration that Kafka sets for all brokers when eligible leader replicas are enabled, a feature that the
#: reference broker lacks.
LEFT_OUT = "min.insync.replicas"


def masked(value: Any) -> Any:
    """Return the observations without broker-specific values, and with lists sorted."""
    if isinstance(value, dict):
        return {
            key: "any" if each and _is_fact(key, each) else masked(each)
            for key, each in value.items()
            if key != LEFT_OUT
        }
    if isinstance(value, list):
        kept = [masked(each) for each in value if not (isinstance(each, dict) and LEFT_OUT in each.values())]
        return sorted(kept, key=json.dumps)
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", value) if isinstance(value, str) else value


def _is_fact(name: str, value: Any) -> bool:
    # franz-go reports the error for the topic; sarama reports it for the partition.
    return name in FACTS or (name == "ID" and not isinstance(value, int))


@pytest.fixture(scope="module")
def servers(kafka: ApacheKafka, broker: Broker) -> list[Server]:
    """Both brokers, each with a group, which makes Kafka create the offsets topic."""
    for server in (kafka, broker):
        asyncio.run(topics.create(server.bootstrap, NewTopic("administration", 1, 1)))
        with Consumer(server.bootstrap, group_id="administration") as consumer:
            consumer.assign([TopicPartition("administration", 0)])
            consumer.commit({TopicPartition("administration", 0): 0})
    return [kafka, broker]


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.name in ADMINISTRATORS], ids=name_of)
def test_each_step_is_answered_as_by_kafka(servers: list[Server], program: Program) -> None:
    topic = f"administration-{program.name}"
    # Kafka's broker may still have the value set by the previous program.
    retention_ms = str(7_200_000 + ADMINISTRATORS.index(program.name))
    on_kafka, on_ours = (usable(program).run(server.bootstrap, "administer", topic, retention_ms) for server in servers)
    assert on_kafka.keys() == on_ours.keys()
    for step, seen in on_kafka.items():
        assert masked(on_ours[step]) == masked(seen), step


#: The configurations requested from Spring's admin, in order; Spring adds and overwrites values.
SPRING_CONFIGS = {"retention.ms": "3600000", "segment.bytes": "2097152", "compression.type": "producer"}


@JAVAC.mark
def test_spring_modifies_topics(servers: list[Server]) -> None:
    topic = "administration-spring"
    on_kafka, on_ours = (masked(administer(server.bootstrap, topic)) for server in servers)
    assert on_ours == on_kafka
    for server in servers:
        with Admin(server.bootstrap) as admin:
            found = admin.describe_configs(ConfigResourceType.TOPIC, topic, list(SPRING_CONFIGS))
        assert {name: config.value for name, config in found.items()} == SPRING_CONFIGS
