"""Kafka's command-line tools work on the reference broker as they do on Kafka.

Method: run each tool to completion, as a user would, and compare its output.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.servers import Server
from tests.kafka.tools import run

#: Each run of a tool starts a JVM, and some tests need a dozen.
pytestmark = pytest.mark.timeout(400)

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"

#: How long a consumer waits for a further record.
PATIENCE = ("--timeout-ms", "30000")


def create(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Create a topic with Kafka's tool."""
    said = run(broker, TOPICS, "--create", "--topic", topic, "--partitions", str(partitions))
    assert said == f"Created topic {topic}.\n"


@pytest.mark.smoke
def test_topics(broker: Broker) -> None:
    run(broker, TOPICS, "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=-1")
    assert "tools" in run(broker, TOPICS, "--list").splitlines()
    described = run(broker, TOPICS, "--describe", "--topic", "tools")
    assert re.search(r"Topic: tools\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 1\t", described)
    assert "Configs: retention.ms=-1" in described
    assert [line.split("\t")[2:6] for line in described.splitlines()[1:]] == [
        [f"Partition: {number}", "Leader: 1", "Replicas: 1", "Isr: 1"] for number in range(3)
    ]
    assert run(broker, TOPICS, "--delete", "--topic", "tools") == ""
    assert "tools" not in run(broker, TOPICS, "--list").splitlines()


def test_refused_topics(broker: Broker) -> None:
    create(broker, "tools-taken")
    for arguments, reason in [
        (["--create", "--topic", "tools-taken"], "Topic 'tools-taken' already exists."),
        (["--create", "--topic", "tools-two", "--replication-factor", "2"], "only 1 broker(s) are registered"),
        (["--describe", "--topic", "tools-none"], "Topic 'tools-none' does not exist as expected"),
    ]:
        result = run_tool(TOPICS, "--bootstrap-server", broker.bootstrap, *arguments)
        assert result.returncode == 1
        assert reason in result.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console(broker: Broker, codec: str) -> None:
    topic = f"tools-console-{codec}"
    create(broker, topic)
    lines = [f"h:{number}\tkey-{number}\tvalue {number} \u20ac" for number in range(100)]
    properties = ["parse.key=true", "parse.headers=true"]
    run(
        broker,
        PRODUCER,
        *("--topic", topic, "--compression-codec", codec),
        *(argument for each in properties for argument in ("--reader-property", each)),
        stdin="\n".join(lines),
    )
    shown = ["print.key=true", "print.headers=true", "print.offset=true"]
    read = run(
        broker,
        CONSUMER,
        *("--topic", topic, "--from-beginning", "--max-messages", "100"),
        *PATIENCE,
        *(argument for each in shown for argument in ("--formatter-property", each)),
    )
    assert read.splitlines() == [f"Offset:{number}\t{line}" for number, line in enumerate(lines)]


@pytest.mark.smoke
def test_group(broker: Broker) -> None:
    create(broker, "tools-group", 2)
    run(broker, PRODUCER, "--topic", "tools-group", stdin="".join(f"{n}\n" for n in range(40)))
    reader = ("--topic", "tools-group", "--group", "tools", "--from-beginning", *PATIENCE)
    first = run(broker, CONSUMER, *reader, "--max-messages", "25").split()
    assert "tools" in run(broker, GROUPS, "--list").splitlines()
    assert sum(committed(broker)) == 25
    assert run(broker, GROUPS, "--describe", "--group", "tools", "--members").split()[-1] == "#PARTITIONS"
    state = run(broker, GROUPS, "--describe", "--group", "tools", "--state")
    assert re.search(rf"tools +{re.escape(broker.bootstrap)} +\(1\) +\S+ +Empty +0", state)
    rest = run(broker, CONSUMER, *reader, "--max-messages", "15").split()
    assert sorted(map(int, first + rest)) == list(range(40))
    assert sum(committed(broker)) == 40

    reset = ("--reset-offsets", "--group", "tools", "--topic", "tools-group", "--to-earliest", "--execute")
    run(broker, GROUPS, *reset)
    assert sum(committed(broker)) == 0
    again = run(broker, CONSUMER, *reader, "--max-messages", "40").split()
    assert sorted(map(int, again)) == list(range(40))

    said = run(broker, GROUPS, "--delete", "--group", "tools")
    assert said == "Deletion of requested consumer groups ('tools') was successful.\n"
    assert "tools" not in run(broker, GROUPS, "--list").splitlines()


def test_group_of_the_newer_protocol(broker: Broker) -> None:
    create(broker, "tools-newer", 2)
    run(broker, PRODUCER, "--topic", "tools-newer", stdin="".join(f"{n}\n" for n in range(40)))
    reader = ("--topic", "tools-newer", "--group", "newer", "--from-beginning", *PATIENCE)
    newer = ("--command-property", "group.protocol=consumer")
    found = run(broker, CONSUMER, *reader, *newer, "--max-messages", "40").split()
    assert sorted(map(int, found)) == list(range(40))
    described = run(broker, GROUPS, "--describe", "--group", "newer")
    assert sum(int(offset) for offset in re.findall(r"^newer +tools-newer +\d+ +(\d+) ", described, re.MULTILINE)) == 40
    state = run(broker, GROUPS, "--describe", "--group", "newer", "--state")
    assert re.search(rf"newer +{re.escape(broker.bootstrap)} +\(1\) +uniform +Empty +0", state)
    assert re.search(r"^newer +Consumer +consumer *$", run(broker, ALL_GROUPS, "--list"), re.MULTILINE)


def committed(broker: Broker) -> list[int]:
    """Return the committed offsets of the group, as Kafka's tool shows them."""
    text = run(broker, GROUPS, "--describe", "--group", "tools")
    return [int(offset) for offset in re.findall(r"^tools +tools-group +\d+ +(\d+) ", text, re.MULTILINE)]


def test_configs(broker: Broker) -> None:
    run(broker, TOPICS, "--create", "--topic", "tools-configs", "--config", "segment.bytes=1048576")
    topic = run(broker, CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "tools-configs")
    assert "segment.bytes=1048576 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576" in topic
    node = run(broker, CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "log.segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:" in node


def test_performance_and_offsets(broker: Broker) -> None:
    create(broker, "tools-load", 2)
    said = run(
        broker,
        PRODUCER_PERFORMANCE,
        *("--topic", "tools-load", "--num-records", "5000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "compression.type=lz4"),
    )
    assert said.startswith("5000 records sent, ")
    offsets = run(broker, OFFSETS, "--topic", "tools-load").split()
    found = [offset.rsplit(":", 1) for offset in offsets]
    assert [partition for partition, _ in found] == ["tools-load:0", "tools-load:1"]
    assert sum(int(count) for _, count in found) == 5000
    assert run(broker, OFFSETS, "--topic", "tools-load", "--time", "earliest").split() == [
        "tools-load:0:0",
        "tools-load:1:0",
    ]
    assert run(broker, OFFSETS, "--topic", "tools-load", "--time", "1").split() == ["tools-load:0:0", "tools-load:1:0"]
    latest = run(broker, OFFSETS, "--topic", "tools-load", "--time", "max-timestamp").split()
    assert [int(each.rsplit(":", 1)[1]) < int(end) for each, (_, end) in zip(latest, found, strict=True)] == [True] * 2
    read = run(broker, CONSUMER_PERFORMANCE, "--topic", "tools-load", "--num-records", "5000", "--timeout", "30000")
    assert read.splitlines()[-1].split(", ")[4] == "5000"


def test_delete_records(either: Server, tmp_path: Path) -> None:
    run(either, TOPICS, "--create", "--topic", "tools-delete", "--partitions", "2")
    run(either, PRODUCER, "--topic", "tools-delete", stdin="".join(f"{n}\n" for n in range(10)))
    ends = [int(line.rsplit(":", 1)[1]) for line in run(either, OFFSETS, "--topic", "tools-delete").split()]
    wanted = [{"topic": "tools-delete", "partition": number, "offset": -1} for number in range(2)]
    wanted[0]["offset"] = 0
    file = tmp_path / "records.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    said = run(either, DELETE_RECORDS, "--offset-json-file", str(file))
    assert sorted(said.splitlines()[-2:]) == [
        "partition: tools-delete-0\tlow_watermark: 0",
        f"partition: tools-delete-1\tlow_watermark: {ends[1]}",
    ]
    assert run(either, OFFSETS, "--topic", "tools-delete", "--time", "earliest").split() == [
        "tools-delete:0:0",
        f"tools-delete:1:{ends[1]}",
    ]
    wanted[0]["offset"] = ends[0] + 1
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    refused = run(either, DELETE_RECORDS, "--offset-json-file", str(file))
    assert "partition: tools-delete-0\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException" in refused


def test_versions(broker: Broker) -> None:
    said = run(broker, VERSIONS)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", said)
    assert "UNKNOWN" not in said


def test_features(broker: Broker, kafka: ApacheKafka) -> None:
    ours, theirs = features(broker), features(kafka)
    assert {"group.version", "metadata.version"} <= ours.keys()
    assert ours.items() <= theirs.items()


def features(server: Server) -> dict[str, str]:
    """Return the level of each feature, as the tool shows it."""
    said = run(server, FEATURES, "describe")
    return dict(re.findall(r"^Feature: (\S+)\s+.*FinalizedVersionLevel: (\S+)", said, re.MULTILINE))


@pytest.mark.parametrize(
    ("entity", "config", "changed"),
    [
        (("--topic", "tools-configured"), "cleanup.policy=[compact,delete]", "cleanup.policy=compact,delete"),
        (("--broker", "1"), "log.segment.bytes=2000000", "log.segment.bytes=2000000"),
        (("--entity-type", "brokers", "--entity-default"), "log.segment.bytes=3000000", "log.segment.bytes=3000000"),
        (("--group", "tools-configured"), "consumer.session.timeout.ms=50000", "consumer.session.timeout.ms=50000"),
        (("--client-metrics", "tools-configured"), "interval.ms=1000", "interval.ms=1000"),
        (("--broker-logger", "1"), "kafkawire.broker=ERROR", "kafkawire.broker=ERROR"),
    ],
)
def test_configurations_are_changed(broker: Broker, entity: tuple[str, ...], config: str, changed: str) -> None:
    if entity[0] == "--topic":
        create(broker, entity[1])
    said = run(broker, CONFIGS, *entity, "--alter", "--add-config", config)
    assert said.startswith("Completed updating")
    assert changed in run(broker, CONFIGS, *entity, "--describe")
    said = run(broker, CONFIGS, *entity, "--alter", "--delete-config", config.partition("=")[0])
    assert said.startswith("Completed updating")
    assert changed not in run(broker, CONFIGS, *entity, "--describe")
