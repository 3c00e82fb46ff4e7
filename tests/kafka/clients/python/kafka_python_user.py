"""A program that uses kafka-python with its defaults. See tests/kafka/programs.py for the scenarios."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from typing import Any

from tests.kafka.clients.python.scenarios import (
    LONG_TIMEOUT_SECONDS,
    RECORDS,
    RECORDS_OF_A_LINE,
    TIMEOUT_SECONDS,
    run,
    show,
    told,
)

kafka: Any = import_module("kafka")
kafka_admin: Any = import_module("kafka.admin")


def admin(bootstrap: str, topic: str) -> dict[str, Any]:
    """Create, list, describe and delete a topic."""
    client = kafka_admin.KafkaAdminClient(bootstrap_servers=bootstrap)
    client.create_topics([kafka_admin.NewTopic(topic, 3, 1, topic_configs={"retention.ms": "3600000"})])
    (described,) = client.describe_topics([topic])
    resource = kafka_admin.ConfigResource(kafka_admin.ConfigResourceType.TOPIC, topic, ["retention.ms"])
    config = client.describe_configs([resource])["topic"][topic]["retention.ms"]["value"]
    client.delete_topics([topic])
    left = topic in client.list_topics()
    client.close()
    return {"partitions": len(described["partitions"]), "config": config, "left": left}


def administer(bootstrap: str, topic: str, retention_ms: str) -> dict[str, Any]:
    """Change a topic and the broker, wait for the broker to apply both, and describe them, the cluster and a group."""
    client = kafka_admin.KafkaAdminClient(bootstrap_servers=bootstrap)
    wanted = kafka_admin.NewTopic(topic, 2, 1, topic_configs={"retention.ms": "3600000"})
    kinds = kafka_admin.ConfigResourceType
    segments = kafka_admin.ConfigResource(kinds.TOPIC, topic, {"segment.bytes": "2097152"})
    odd = kafka_admin.ConfigResource(kinds.TOPIC, topic, {"compression.type": "odd"})
    retention = kafka_admin.ConfigResource(kinds.TOPIC, topic, ["retention.ms"])
    whole = kafka_admin.ConfigResource(kinds.TOPIC, topic)
    broker = kafka_admin.ConfigResource(kinds.BROKER, "1", {"log.retention.ms": retention_ms})
    broker_retention = kafka_admin.ConfigResource(kinds.BROKER, "1", ["log.retention.ms"])
    acls = kafka_admin.ACLFilter(
        "User:a",
        "*",
        kafka_admin.ACLOperation.ANY,
        kafka_admin.ACLPermissionType.ANY,
        kafka_admin.ResourcePatternFilter(
            kafka_admin.ResourceType.TOPIC, topic, kafka_admin.ACLResourcePatternType.ANY
        ),
    )
    acl = kafka_admin.ACL(
        "User:a",
        "*",
        kafka_admin.ACLOperation.READ,
        kafka_admin.ACLPermissionType.ALLOW,
        kafka_admin.ResourcePattern(kafka_admin.ResourceType.TOPIC, topic),
    )
    partition = kafka.TopicPartition(topic, 0)
    structs: Any = import_module("kafka.structs")

    def await_broker() -> dict[str, Any]:
        while True:
            described = client.describe_configs([broker_retention], include_synonyms=True)
            config: dict[str, Any] = described["broker"]["1"].get("log.retention.ms", {})
            if config.get("value") == retention_ms:
                return config

    seen = {
        "create": told(client.create_topics, [wanted]),
        "create again": told(client.create_topics, [wanted]),
        "add partitions": told(client.create_partitions, {topic: 4}),
        "remove partitions": told(client.create_partitions, {topic: 3}),
        "alter all": told(client.alter_configs, [segments], incremental=False),
        "alter": told(client.alter_configs, [segments]),
        "alter wrongly": told(client.alter_configs, [odd]),
        "reset": told(client.reset_configs, [retention]),
        "alter broker": told(client.alter_configs, [broker]),
        "broker configs": told(await_broker),
        "describe topic": told(client.describe_topics, [topic]),
        "describe partitions": told(client.describe_topic_partitions, [topic]),
        "configs": told(client.describe_configs, [whole], config_filter="all"),
        "reset broker": told(client.reset_configs, [broker_retention]),
        "resources": told(client.list_config_resources, ["broker_logger", "broker"]),
        "cluster": told(client.describe_cluster),
        "directories": told(client.describe_log_dirs, {topic: [0, 1, 2, 3]}),
        "acls": told(client.describe_acls, acls),
        "create acls": told(client.create_acls, [acl]),
        "delete acls": told(client.delete_acls, [acls]),
        "alter offsets": told(client.alter_group_offsets, topic, {partition: structs.OffsetAndMetadata(0, "", -1)}),
        "groups": [each for each in told(client.list_groups) if topic in str(each)],
        "group": told(client.describe_groups, [topic]),
        "offsets": told(client.list_group_offsets, {topic: None}),
        "delete offsets": told(client.delete_group_offsets, topic, [partition]),
        "delete group": told(client.delete_groups, [topic]),
        "delete records": told(client.delete_records, {partition: 0}),
        "delete": told(client.delete_topics, [topic]),
        "delete again": told(client.delete_topics, [topic]),
    }
    client.close()
    return seen


def produce(bootstrap: str, topic: str, codec: str, kind: str) -> dict[str, Any]:
    """Store records."""
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec)
    sent = [producer.send(topic, key=b"key %d" % number, value=b"value %d " % number * 20) for number in range(RECORDS)]
    stored = [future.get(TIMEOUT_SECONDS) for future in sent]
    producer.close()
    return {"places": [[each.partition, each.offset] for each in stored]}


def group(bootstrap: str, topic: str, protocol: str, count: str) -> None:
    """Read records in a group, commit them, and stay until standard input ends."""
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=TIMEOUT_SECONDS * 1000,
    )
    records = [
        [each.partition, each.offset, each.key.decode(), each.value.decode()]
        for _, each in zip(range(int(count)), consumer, strict=False)
    ]
    consumer.commit()
    show({"records": records})
    sys.stdin.read()
    consumer.close()


def stream(bootstrap: str, topic: str) -> dict[str, Any]:
    """Store records for each line of standard input."""
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)  # acks=all is its default
    sent: list[Any] = []
    for _ in sys.stdin:
        for number in range(len(sent), len(sent) + RECORDS_OF_A_LINE):
            sent.append(producer.send(topic, key=b"key %d" % number, value=b"%d" % number))
    producer.flush(LONG_TIMEOUT_SECONDS)
    producer.close()
    return {"sent": len(sent), "failed": [repr(each.exception) for each in sent if each.failed()]}


def follow(bootstrap: str, topic: str, count: str) -> dict[str, Any]:
    """Read in a group until the given number of distinct values has arrived."""
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=LONG_TIMEOUT_SECONDS * 1000,
    )
    found: list[int] = []
    while len(set(found)) < int(count):
        # kafka-python raises this if the coordinator that it asks has just ended; the next call asks another broker.
        with contextlib.suppress(kafka.errors.KafkaConnectionError):
            found.append(int(next(consumer).value))
    consumer.close()
    return {"different": len(set(found)), "read": len(found)}


def transactions(bootstrap: str, topic: str) -> dict[str, Any]:
    """Commit a transaction with an offset, abort one, and be fenced."""
    options = {"bootstrap_servers": bootstrap, "transactional_id": topic}
    producer, other = kafka.KafkaProducer(**options), kafka.KafkaProducer(**options)
    producer.init_transactions()

    def write(word: str) -> None:
        producer.begin_transaction()
        for number in range(10):
            producer.send(f"{topic}-out", b"%s %d" % (word.encode(), number))

    write("kept")
    structs: Any = import_module("kafka.structs")
    offsets = {kafka.TopicPartition(topic, 0): structs.OffsetAndMetadata(5, "", -1)}
    producer.send_offsets_to_transaction(offsets, topic)
    producer.commit_transaction()
    write("dropped")
    producer.flush()
    producer.abort_transaction()
    other.init_transactions()
    try:
        write("fenced")
        producer.commit_transaction()
    except kafka.errors.KafkaError as error:
        return {"offset": 5, "fenced": type(error).__name__}
    return {}


def mistake(bootstrap: str, topic: str, kind: str) -> dict[str, Any]:
    """Make a mistake that a broker refuses."""
    try:
        if kind == "bad config":
            client = kafka_admin.KafkaAdminClient(bootstrap_servers=bootstrap)
            client.create_topics([kafka_admin.NewTopic(topic, 1, 1, topic_configs={"compression.type": "odd"})])
        else:
            block_ms = 1_000 if kind == "unknown topic" else TIMEOUT_SECONDS * 1000
            producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=block_ms)
            producer.send(topic, bytes(5000)).get(TIMEOUT_SECONDS)
    except kafka.errors.KafkaError as error:
        return {"error": getattr(error, "errno", None), "text": str(error)}
    return {}


if __name__ == "__main__":
    run(admin, administer, produce, group, stream, follow, transactions, mistake)
