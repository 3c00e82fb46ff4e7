"""Kafka's tools for topics, configurations, directories and the cluster print the same output for both brokers.

Method: run the same commands in the same order on Apache Kafka and on the reference broker, and compare their output
line by line, with broker-specific values masked.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.servers import Server

#: The limit is high, because each command starts two JVMs.
pytestmark = pytest.mark.timeout(600)

CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
ACLS = "org.apache.kafka.tools.AclCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
OFFSETS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"

Command = tuple[str, str]

#: Masked values: times, addresses, ids, folders, sizes, the frames of a Java exception, the value that Kafka sets for
#: all brokers when eligible leader replicas are enabled, and the text about cordoned directories. The reference broker
#: supports neither eligible leader replicas nor cordoned directories.
MASKS = (
    (r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "TIME"),
    (r"(127\.0\.0\.1[: ]+)\d+", r"\1PORT"),
    (r"(TopicId: |Cluster ID: )\S+", r"\1ID"),
    (r'("logDir":)"[^"]+"', r"\1FOLDER"),
    (r'("size":)[1-9]\d*', r"\1SIZE"),
    (r"^  min\.insync\.replicas=1 .*", ""),
    (r"min\.insync\.replicas=1,?", ""),
    (r" or some brokers have all their log directories cordoned", ""),
    (r"^\tat .*", ""),
)

TOPIC = "admin-tools"
ON_TOPIC = f"--entity-type topics --entity-name {TOPIC}"
AS_USER = f"--entity-type users --entity-name {TOPIC}"

#: Each list is one test; a command is a tool's arguments after the address.
SEQUENCES: dict[str, list[Command]] = {
    "topics": [
        (TOPICS, f"--create --topic {TOPIC} --partitions 2 --config retention.ms=1000 --config cleanup.policy=compact"),
        (TOPICS, f"--create --topic {TOPIC}"),
        (TOPICS, f"--create --topic {TOPIC}-other --replica-assignment 1,1"),
        (TOPICS, f"--create --topic {TOPIC}/other"),
        (TOPICS, f"--create --topic {TOPIC}-two --replication-factor 2"),
        (TOPICS, f"--alter --topic {TOPIC} --partitions 4"),
        (TOPICS, f"--alter --topic {TOPIC} --partitions 3"),
        (TOPICS, f"--alter --topic {TOPIC}-none --partitions 3"),
        (TOPICS, f"--alter --topic {TOPIC}-other --partitions 3 --replica-assignment 1,1,1"),
        (TOPICS, f"--describe --topic {TOPIC}"),
        (TOPICS, f"--describe --topic {TOPIC}-other"),
        (TOPICS, f"--describe --topic {TOPIC} --at-min-isr-partitions"),
        (TOPICS, f"--describe --topic {TOPIC}-none"),
        (TOPICS, f"--delete --topic {TOPIC}-other"),
        (TOPICS, f"--delete --topic {TOPIC}-other"),
    ],
    "configurations of a topic": [
        (TOPICS, f"--create --if-not-exists --topic {TOPIC}"),
        (CONFIGS, f"--alter {ON_TOPIC} --add-config segment.bytes=2097152,retention.bytes=1000000"),
        (CONFIGS, f"--describe {ON_TOPIC}"),
        (CONFIGS, f"--describe {ON_TOPIC} --all"),
        (CONFIGS, f"--alter {ON_TOPIC} --delete-config segment.bytes"),
        (CONFIGS, f"--alter {ON_TOPIC} --add-config retention.bytes=2000000 --delete-config flush.ms"),
        (CONFIGS, f"--describe {ON_TOPIC}"),
        (CONFIGS, f"--alter {ON_TOPIC} --add-config compression.type=odd"),
        (CONFIGS, f"--alter {ON_TOPIC} --add-config no.such=1"),
        (CONFIGS, f"--alter --entity-type topics --entity-name {TOPIC}-none --add-config retention.ms=1"),
        (CONFIGS, f"--describe --entity-type topics --entity-name {TOPIC}-none"),
    ],
    "configurations of brokers": [
        (CONFIGS, "--alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=3600000"),
        (CONFIGS, "--alter --entity-type brokers --entity-default --add-config log.segment.bytes=30000000"),
        (CONFIGS, "--describe --entity-type brokers --entity-name 1"),
        (CONFIGS, "--describe --entity-type brokers --entity-default"),
        (CONFIGS, "--alter --entity-type brokers --entity-name 1 --add-config num.partitions=9"),
        (CONFIGS, "--alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=odd"),
        (CONFIGS, "--alter --entity-type brokers --entity-name 1 --delete-config log.retention.ms"),
        (CONFIGS, "--alter --entity-type brokers --entity-default --delete-config log.segment.bytes"),
        (CONFIGS, "--describe --entity-type brokers --entity-name 1"),
        (CONFIGS, "--describe --entity-type brokers --entity-name 7"),
    ],
    "configurations of groups and client metrics": [
        (CONFIGS, f"--alter --entity-type groups --entity-name {TOPIC} --add-config consumer.session.timeout.ms=50000"),
        (CONFIGS, f"--describe --entity-type groups --entity-name {TOPIC}"),
        (CONFIGS, f"--alter --entity-type groups --entity-name {TOPIC} --add-config consumer.session.timeout.ms=1"),
        (CONFIGS, f"--alter --entity-type groups --entity-name {TOPIC} --delete-config consumer.session.timeout.ms"),
        (
            CONFIGS,
            f"--alter --entity-type client-metrics --entity-name {TOPIC}"
            " --add-config interval.ms=1000,metrics=[a,b],match=[client_id=x]",
        ),
        (CONFIGS, f"--describe --entity-type client-metrics --entity-name {TOPIC}"),
        (CONFIGS, f"--alter --entity-type client-metrics --entity-name {TOPIC} --add-config interval.ms=1"),
        (
            CONFIGS,
            f"--alter --entity-type client-metrics --entity-name {TOPIC} --delete-config interval.ms,metrics,match",
        ),
    ],
    "quotas and credentials": [
        (CONFIGS, f"--alter {AS_USER} --add-config producer_byte_rate=1000000,request_percentage=12.5"),
        (
            CONFIGS,
            f"--alter {AS_USER} --entity-type clients --entity-name {TOPIC} --add-config consumer_byte_rate=2000000",
        ),
        (CONFIGS, f"--alter {AS_USER} --add-config SCRAM-SHA-256=[iterations=8192,password=secret]"),
        (CONFIGS, f"--describe {AS_USER}"),
        (CONFIGS, f"--describe {AS_USER} --entity-type clients"),
        (CONFIGS, f"--alter --entity-type clients --entity-name {TOPIC} --add-config controller_mutation_rate=1000"),
        (CONFIGS, "--describe --entity-type clients"),
        (CONFIGS, "--alter --entity-type ips --entity-default --add-config connection_creation_rate=5000"),
        (CONFIGS, "--describe --entity-type ips"),
        (CONFIGS, f"--alter {AS_USER} --add-config producer_byte_rate=odd"),
        (CONFIGS, f"--alter {AS_USER} --add-config no_such_rate=5"),
        (CONFIGS, f"--alter {AS_USER} --add-config SCRAM-SHA-256=[iterations=5,password=secret]"),
        (CONFIGS, f"--alter {AS_USER} --delete-config producer_byte_rate,request_percentage"),
        (CONFIGS, f"--alter {AS_USER} --add-config SCRAM-SHA-512=[password=secret]"),
        (CONFIGS, f"--alter {AS_USER} --delete-config SCRAM-SHA-256"),
        (CONFIGS, f"--alter {AS_USER} --delete-config SCRAM-SHA-256"),
        (CONFIGS, f"--describe {AS_USER}"),
        (CONFIGS, f"--alter {AS_USER} --delete-config SCRAM-SHA-512"),
        (CONFIGS, f"--alter {AS_USER} --entity-type clients --entity-name {TOPIC} --delete-config consumer_byte_rate"),
        (CONFIGS, f"--alter --entity-type clients --entity-name {TOPIC} --delete-config controller_mutation_rate"),
        (CONFIGS, "--alter --entity-type ips --entity-default --delete-config connection_creation_rate"),
        (CONFIGS, f"--describe {AS_USER}"),
    ],
    "cluster": [
        (TOPICS, f"--create --topic {TOPIC}-dirs"),
        (LOG_DIRS, f"--describe --topic-list {TOPIC}-dirs"),
        (PRODUCER, f"--topic {TOPIC}-dirs"),
        (LOG_DIRS, f"--describe --topic-list {TOPIC}-dirs --broker-list 1"),
        (LOG_DIRS, f"--describe --topic-list {TOPIC}-none"),
        (LOG_DIRS, "--describe --broker-list 9"),
        (CLUSTER, "cluster-id"),
        (CLUSTER, "list-endpoints"),
        (ACLS, "--list"),
        (ACLS, "--add --allow-principal User:a --operation Read --topic any"),
        (ACLS, "--remove --force --topic any"),
        (OFFSETS, f"--reset-offsets --group {TOPIC} --topic {TOPIC}-dirs --to-earliest --execute"),
        (GROUPS, f"--list --group-type classic --protocol {TOPIC}"),
        (OFFSETS, f"--describe --group {TOPIC} --state"),
        (OFFSETS, f"--delete-offsets --group {TOPIC} --topic {TOPIC}-dirs:0"),
        (OFFSETS, f"--describe --group {TOPIC} --offsets"),
        (OFFSETS, f"--delete --group {TOPIC}"),
        (TOPICS, f"--delete --topic {TOPIC}-dirs"),
    ],
}


def said(server: Server, command: Command) -> tuple[int, list[str]]:
    """Return a tool's exit status and output, with broker-specific values masked."""
    tool, arguments = command
    words = arguments.split()
    before = words[:1] if tool == CLUSTER else []
    given = [*before, "--bootstrap-server", server.bootstrap, *words[len(before) :]]
    result = run_tool(tool, *given, stdin="a record\n" if tool == PRODUCER else "")
    text = result.stdout + result.stderr
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return result.returncode, [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("commands", SEQUENCES.values(), ids=[name.replace(" ", "-") for name in SEQUENCES])
def test_tools_say_the_same(kafka: ApacheKafka, broker: Broker, commands: list[Command]) -> None:
    with ThreadPoolExecutor(2) as both:
        for command in commands:
            on_kafka, on_ours = both.map(said, (kafka, broker), (command, command))
            assert on_ours == on_kafka, command
