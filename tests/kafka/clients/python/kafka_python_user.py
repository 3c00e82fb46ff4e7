"""A user of kafka-python, with its defaults. See tests/kafka/programs.py for the scenarios."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from tests.kafka.clients.python.scenarios import RECORDS, TIMEOUT_SECONDS, run, show

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
    """Do what a broker refuses."""
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
    run(admin, produce, group, transactions, mistake)
