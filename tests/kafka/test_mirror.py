"""MirrorMaker 2 mirrors topics between the reference broker and Apache Kafka, with the same results in both directions.

Method: let one MirrorMaker work in both directions at once, on a topic and a group of each broker. Its results on the
other broker are compared: records, partitions, configurations and translated offsets, before and after a change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire import NewTopic, TopicPartition
from kafkawire.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sync import Admin, Consumer, Producer
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.mirror import mirror_maker
from tests.kafka.servers import BROKER_OPTIONS, Server
from tests.kafka.tools import run

#: The jars may have to be fetched first; then both brokers and MirrorMaker take half a minute to start.
pytestmark = pytest.mark.timeout(600)

TIMEOUT_SECONDS = 120

TOPIC, GROUP = "mirrored", "mirrored-group"
CONFIGS = {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "segment.bytes": "2097152"}
COUNT = 300


def test_topics_are_mirrored_in_both_directions(tmp_path: Path) -> None:
    with ApacheKafka() as kafka, Broker(**BROKER_OPTIONS) as broker:
        servers: dict[str, Server] = {"ours": broker, "kafka": kafka}
        for name, server in servers.items():
            fill(server.bootstrap, f"{TOPIC}-{name}", f"{GROUP}-{name}")
        addresses = {name: server.bootstrap for name, server in servers.items()}
        with mirror_maker(addresses, tmp_path, topics=f"{TOPIC}-.*", groups=f"{GROUP}-.*") as process:

            def until(see: Callable[[str, str], Any], wanted: Any) -> None:
                """Wait until the same is observed for the mirrors of both topics."""
                deadline = time.monotonic() + TIMEOUT_SECONDS
                for source, target in (("kafka", "ours"), ("ours", "kafka")):
                    while (seen := see(source, addresses[target])) != wanted:
                        assert process.poll() is None, (tmp_path / "mirror.log").read_text()
                        assert time.monotonic() < deadline, (source, seen, (tmp_path / "mirror.log").read_text())

            until(partitions, 2)
            until(records, sorted((number % 2, f"{number}") for number in range(COUNT)))
            until(configs, CONFIGS)
            until(has_offset, True)
            for name, server in servers.items():
                topic = f"{TOPIC}-{name}"
                changed = "retention.ms=3600000,cleanup.policy=delete"
                entity = ("--entity-type", "topics", "--entity-name", topic)
                run(server, "kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", changed)
                run(server, "org.apache.kafka.tools.TopicCommand", "--alter", "--topic", topic, "--partitions", "3")
            until(partitions, 3)
            until(configs, CONFIGS | {"retention.ms": "3600000", "cleanup.policy": "delete"})


def fill(bootstrap: str, topic: str, group: str) -> None:
    """Create a topic with records, and a group that has read some of the records."""
    with Admin(bootstrap) as admin:
        admin.create_topics(NewTopic(topic, 2, 1, CONFIGS))
    with Producer(bootstrap) as producer:
        for number in range(COUNT):
            producer.send(topic, str(number), key=str(number), partition=number % 2)
    with Consumer(bootstrap, group_id=group) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.commit({partition: COUNT // 2})


def partitions(source: str, target: str) -> int:
    """Return the mirror's number of partitions."""
    with Admin(target) as admin:
        listed = admin.list_topics()
        topic = mirror(source)
        return len(admin.describe_topics([topic])[topic].partitions) if topic in listed else 0


def records(source: str, target: str) -> list[tuple[int, str]]:
    """Return the mirror's records, keyed by partition."""
    with Consumer(target, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(mirror(source), number) for number in range(2)])
        found = [(each.partition, (each.value or b"").decode()) for each in consumer.records(stop_at_end=True)]
    return sorted(found)


def configs(source: str, target: str) -> dict[str, str | None]:
    """Return the mirror's configurations that the topic also has."""
    with Admin(target) as admin:
        found = admin.describe_configs(ConfigResourceType.TOPIC, mirror(source), list(CONFIGS))
    return {name: config.value for name, config in found.items()}


def has_offset(source: str, target: str) -> bool:
    """Return whether the group has an offset for the mirror."""
    with Admin(target) as admin:
        try:
            found = admin.list_group_offsets(f"{GROUP}-{source}")
        except BrokerError:  # Kafka's coordinator is not available immediately
            return False
    partition = TopicPartition(mirror(source), 0)
    return partition in found and 0 < found[partition].offset <= COUNT // 2


def mirror(source: str) -> str:
    """Return the name that MirrorMaker gives a broker's topic on the other broker."""
    return f"{source}.{TOPIC}-{source}"
