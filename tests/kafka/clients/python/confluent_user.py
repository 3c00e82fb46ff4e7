"""A program that uses confluent-kafka, the C client, with its defaults. tests/kafka/programs.py lists the scenarios."""

from __future__ import annotations

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


def administer(bootstrap: str, topic: str, retention_ms: str) -> dict[str, Any]:
    """Change a topic and the broker, wait for the broker to apply both, and describe them, the cluster and a group."""
    client = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
    kinds, kind_of_change = confluent_admin.ConfigResource.Type, confluent_admin.AlterConfigOpType

    def changed(kind: Any, name: str, change: Any, config: str, value: str | None = None) -> Any:
        entry = confluent_admin.ConfigEntry(config, value, incremental_operation=change)
        return confluent_admin.ConfigResource(kind, name, incremental_configs=[entry])

    def result(answer: Any) -> Any:
        (future,) = answer.values() if isinstance(answer, dict) else [answer]
        return future.result(TIMEOUT_SECONDS)

    def ask(call: Any, *arguments: Any, **options: Any) -> Any:
        return told(lambda: result(call(*arguments, **options)))

    wanted = confluent_admin.NewTopic(topic, 2, config={"retention.ms": "3600000"})
    segments = changed(kinds.TOPIC, topic, kind_of_change.SET, "segment.bytes", "2097152")
    appended = changed(kinds.TOPIC, topic, kind_of_change.APPEND, "cleanup.policy", "compact")
    subtracted = changed(kinds.TOPIC, topic, kind_of_change.SUBTRACT, "cleanup.policy", "delete")
    odd = changed(kinds.TOPIC, topic, kind_of_change.SET, "compression.type", "odd")
    deleted = changed(kinds.TOPIC, topic, kind_of_change.DELETE, "retention.ms")
    whole = confluent_admin.ConfigResource(kinds.TOPIC, topic, set_config={"retention.bytes": "1000000"})
    broker = changed(kinds.BROKER, "1", kind_of_change.SET, "log.retention.ms", retention_ms)
    reset = changed(kinds.BROKER, "1", kind_of_change.DELETE, "log.retention.ms")
    types = confluent_admin.ResourceType
    patterns = confluent_admin.ResourcePatternType
    acl = (topic, patterns.LITERAL, "User:a", "*", confluent_admin.AclOperation.READ)
    binding = confluent_admin.AclBinding(types.TOPIC, *acl, confluent_admin.AclPermissionType.ALLOW)
    bindings = confluent_admin.AclBindingFilter(types.TOPIC, *acl, confluent_admin.AclPermissionType.ANY)
    partition = confluent.TopicPartition(topic, 0, 0)
    group = confluent.ConsumerGroupTopicPartitions(topic, [partition])
    topics = confluent.TopicCollection([topic])

    def await_broker() -> Any:
        while True:
            configs = result(client.describe_configs([confluent_admin.ConfigResource(kinds.BROKER, "1")]))
            if configs["log.retention.ms"].value == retention_ms:
                return configs["log.retention.ms"]

    return {
        "create": ask(client.create_topics, [wanted]),
        "create again": ask(client.create_topics, [wanted]),
        "add partitions": ask(client.create_partitions, [confluent_admin.NewPartitions(topic, 4)]),
        "remove partitions": ask(client.create_partitions, [confluent_admin.NewPartitions(topic, 3)]),
        "alter all": ask(client.alter_configs, [whole]),
        "alter": ask(client.incremental_alter_configs, [segments]),
        "append": ask(client.incremental_alter_configs, [appended]),
        "subtract": ask(client.incremental_alter_configs, [subtracted]),
        "alter wrongly": ask(client.incremental_alter_configs, [odd]),
        "delete config": ask(client.incremental_alter_configs, [deleted]),
        "alter broker": ask(client.incremental_alter_configs, [broker]),
        "broker configs": told(await_broker),
        "describe topic": ask(client.describe_topics, topics, include_authorized_operations=True),
        "configs": ask(client.describe_configs, [confluent_admin.ConfigResource(kinds.TOPIC, topic)]),
        "reset broker": ask(client.incremental_alter_configs, [reset]),
        "cluster": ask(client.describe_cluster, include_authorized_operations=True),
        "acls": ask(client.describe_acls, bindings),
        "create acls": ask(client.create_acls, [binding]),
        "delete acls": ask(client.delete_acls, [bindings]),
        "alter offsets": ask(client.alter_consumer_group_offsets, [group]),
        "groups": [each for each in ask(client.list_consumer_groups)["valid"] if topic in str(each)],
        "group": ask(client.describe_consumer_groups, [topic], include_authorized_operations=True),
        "offsets": ask(client.list_consumer_group_offsets, [confluent.ConsumerGroupTopicPartitions(topic)]),
        "delete group": ask(client.delete_consumer_groups, [topic]),
        "ends": ask(client.list_offsets, {partition: confluent_admin.OffsetSpec.latest()}),
        "delete records": ask(client.delete_records, [partition]),
        "delete": ask(client.delete_topics, [topic]),
        "delete again": ask(client.delete_topics, [topic]),
    }


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
        assert message is not None, f"no further record arrived after {len(records)}"
        assert message.error() is None, message.error()
        place = [message.partition(), message.offset()]
        records.append([*place, message.key().decode(), message.value().decode()])
    consumer.commit(asynchronous=False)
    show({"records": records})
    sys.stdin.read()
    consumer.close()


def stream(bootstrap: str, topic: str) -> dict[str, Any]:
    """Store records for each line of standard input."""
    producer = confluent.Producer({"bootstrap.servers": bootstrap})  # acks=all is its default
    failed: list[str] = []
    sent = 0

    def stored(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    for _ in sys.stdin:
        for number in range(sent, sent + RECORDS_OF_A_LINE):
            producer.produce(topic, b"%d" % number, b"key %d" % number, on_delivery=stored)
            producer.poll(0)
        sent += RECORDS_OF_A_LINE
    left = producer.flush(LONG_TIMEOUT_SECONDS)
    return {"sent": sent, "failed": failed + ["not settled"] * left}


def follow(bootstrap: str, topic: str, count: str) -> dict[str, Any]:
    """Read in a group until the given number of distinct values has arrived."""
    consumer = confluent.Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[int] = []
    while len(set(found)) < int(count):
        message = consumer.poll(LONG_TIMEOUT_SECONDS)
        assert message is not None, f"no further record arrived after {len(found)}"
        assert message.error() is None, message.error()
        found.append(int(message.value()))
    consumer.close()
    return {"different": len(set(found)), "read": len(found)}


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
    """Make a mistake that a broker refuses."""
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
    run(admin, administer, produce, group, stream, follow, transactions, mistake)
