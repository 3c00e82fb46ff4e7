"""A user of confluent-kafka, the C client, with its defaults. See tests/kafka/programs.py for the scenarios."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from tests.kafka.clients.python.scenarios import RECORDS, TIMEOUT_SECONDS, run, show

confluent: Any = import_module("confluent_kafka")
confluent_admin: Any = import_module("confluent_kafka.admin")


def admin(bootstrap: str, topic: str) -> dict[str, Any]:
    """Create, list, describe and delete a topic."""
    client = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
    wanted = confluent_admin.NewTopic(topic, 3, config={"retention.ms": "3600000"})
    client.create_topics([wanted])[topic].result(TIMEOUT_SECONDS)
    partitions = len(client.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions)
    resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic)
    config = client.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)["retention.ms"].value
    client.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
    left = topic in client.list_topics(timeout=TIMEOUT_SECONDS).topics
    return {"partitions": partitions, "config": config, "left": left}


def produce(bootstrap: str, topic: str, codec: str, kind: str) -> dict[str, Any]:
    """Store records."""
    options: dict[str, Any] = {"bootstrap.servers": bootstrap, "compression.type": codec}
    if kind == "idempotent":
        options["enable.idempotence"] = True
    producer = confluent.Producer(options)
    places: dict[bytes, list[int]] = {}

    def stored(error: Any, message: Any) -> None:
        assert error is None, error
        places[message.key()] = [message.partition(), message.offset()]

    keys = [b"key %d" % number for number in range(RECORDS)]
    for number, key in enumerate(keys):
        producer.produce(topic, b"value %d " % number * 20, key, on_delivery=stored)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return {"places": [places[key] for key in keys]}


def group(bootstrap: str, topic: str, protocol: str, count: str) -> None:
    """Read records in a group, commit them, and stay until standard input ends."""
    options = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    options |= {"enable.auto.commit": False} | ({"group.protocol": protocol} if protocol == "consumer" else {})
    consumer = confluent.Consumer(options)
    consumer.subscribe([topic])
    records: list[list[Any]] = []
    while len(records) < int(count):
        message = consumer.poll(TIMEOUT_SECONDS)
        assert message is not None, f"nothing came after {len(records)} records"
        assert message.error() is None, message.error()
        place = [message.partition(), message.offset()]
        records.append([*place, message.key().decode(), message.value().decode()])
    consumer.commit(asynchronous=False)
    show({"records": records})
    sys.stdin.read()
    consumer.close()


def transactions(bootstrap: str, topic: str) -> dict[str, Any]:
    """Commit a transaction with an offset, abort one, and be fenced."""
    options = {"bootstrap.servers": bootstrap, "transactional.id": topic}
    producer, other = confluent.Producer(options), confluent.Producer(options)
    producer.init_transactions(TIMEOUT_SECONDS)

    def write(word: str) -> None:
        producer.begin_transaction()
        for number in range(10):
            producer.produce(f"{topic}-out", b"%s %d" % (word.encode(), number))

    write("kept")
    group = confluent.Consumer({"bootstrap.servers": bootstrap, "group.id": topic}).consumer_group_metadata()
    producer.send_offsets_to_transaction([confluent.TopicPartition(topic, 0, 5)], group, TIMEOUT_SECONDS)
    producer.commit_transaction(TIMEOUT_SECONDS)
    write("dropped")
    producer.flush(TIMEOUT_SECONDS)
    producer.abort_transaction(TIMEOUT_SECONDS)
    other.init_transactions(TIMEOUT_SECONDS)
    try:
        write("fenced")
        producer.commit_transaction(TIMEOUT_SECONDS)
    except confluent.KafkaException as error:
        return {"offset": 5, "fenced": error.args[0].name()}
    return {}


def mistake(bootstrap: str, topic: str, kind: str) -> dict[str, Any]:
    """Do what a broker refuses."""
    refused: list[Any] = []
    if kind == "bad config":
        client = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
        wanted = confluent_admin.NewTopic(topic, 1, config={"compression.type": "odd"})
        error = client.create_topics([wanted])[topic].exception(TIMEOUT_SECONDS)
        refused.append(error.args[0])
    else:
        producer = confluent.Producer(
            {"bootstrap.servers": bootstrap, "topic.metadata.propagation.max.ms": 500, "message.timeout.ms": 5000}
        )
        producer.produce(topic, bytes(5000), on_delivery=lambda error, _: refused.append(error))
        producer.flush(TIMEOUT_SECONDS)
    return {"error": refused[0].code(), "text": refused[0].str()}


if __name__ == "__main__":
    run(admin, produce, group, transactions, mistake)
