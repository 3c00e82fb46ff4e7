"""A program that uses aiokafka with its defaults. See tests/kafka/programs.py for the scenarios."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

from tests.kafka.clients.python.scenarios import RECORDS, RECORDS_OF_A_LINE, asked, run, show

aiokafka: Any = import_module("aiokafka")
aiokafka_admin: Any = import_module("aiokafka.admin")
aiokafka_errors: Any = import_module("aiokafka.errors")


async def admin(bootstrap: str, topic: str) -> dict[str, Any]:
    """Create, list, describe and delete a topic."""
    client = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    await client.create_topics([aiokafka_admin.NewTopic(topic, 3, 1, topic_configs={"retention.ms": "3600000"})])
    (described,) = await client.describe_topics([topic])
    config_resource: Any = import_module("aiokafka.admin.config_resource")
    resource = config_resource.ConfigResource(config_resource.ConfigResourceType.TOPIC, topic, {"retention.ms": None})
    (response,) = await client.describe_configs([resource])
    await client.delete_topics([topic])
    left = topic in await client.list_topics()
    await client.close()
    config = response.resources[0][4][0][1]
    return {"partitions": len(described["partitions"]), "config": config, "left": left}


async def administer(bootstrap: str, topic: str, retention_ms: str) -> dict[str, Any]:
    """Change a topic and the broker, wait for the broker to apply both, and describe them, the cluster and a group."""
    client = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    wanted = aiokafka_admin.NewTopic(topic, 2, 1, topic_configs={"retention.ms": "3600000"})
    configs: Any = import_module("aiokafka.admin.config_resource")
    kinds = configs.ConfigResourceType
    segments = configs.ConfigResource(kinds.TOPIC, topic, {"segment.bytes": "2097152"})
    odd = configs.ConfigResource(kinds.TOPIC, topic, {"compression.type": "odd"})
    whole = configs.ConfigResource(kinds.TOPIC, topic)
    broker = configs.ConfigResource(kinds.BROKER, "1", {"log.retention.ms": None})
    retention = configs.ConfigResource(kinds.BROKER, "1", {"log.retention.ms": retention_ms})
    partition = aiokafka.TopicPartition(topic, 0)

    async def await_broker() -> Any:
        while True:
            described = await objects(client.describe_configs([broker], include_synonyms=True))
            if described[0]["resources"][0]["config_entries"][0]["config_value"] == retention_ms:
                return described

    async def answer(call: Any) -> Any:
        return await asked(objects(call))

    seen = {
        "create": await answer(client.create_topics([wanted])),
        "create again": await answer(client.create_topics([wanted])),
        "add partitions": await answer(client.create_partitions({topic: aiokafka_admin.NewPartitions(4)})),
        "remove partitions": await answer(client.create_partitions({topic: aiokafka_admin.NewPartitions(3)})),
        "alter": await answer(client.alter_configs([segments])),
        "alter wrongly": await answer(client.alter_configs([odd])),
        "alter broker": await answer(client.alter_configs([retention])),
        "broker configs": await asked(await_broker()),
        "describe topic": await answer(client.describe_topics([topic])),
        "configs": await answer(client.describe_configs([whole], include_synonyms=True)),
        "reset broker": await answer(client.alter_configs([configs.ConfigResource(kinds.BROKER, "1", {})])),
        "cluster": await answer(client.describe_cluster()),
        "coordinator": await answer(client.find_coordinator(topic)),
    }
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        consumer.assign([partition])
        await consumer.commit({partition: 0})
    seen |= {
        "groups": [each for each in await client.list_consumer_groups() if topic in each],
        "group": await answer(client.describe_consumer_groups([topic], include_authorized_operations=True)),
        "offsets": await answer(client.list_consumer_group_offsets(topic)),
        "delete records": await answer(client.delete_records({partition: aiokafka_admin.RecordsToDelete(0)})),
        "delete": await answer(client.delete_topics([topic])),
        "delete again": await answer(client.delete_topics([topic])),
    }
    await client.close()
    return seen


async def objects(call: Any) -> Any:
    """Return the result of a client's call, with answers as dictionaries."""
    answer = await call
    if isinstance(answer, list):
        return [each.to_object() if hasattr(each, "to_object") else each for each in answer]
    return answer.to_object() if hasattr(answer, "to_object") else answer


async def produce(bootstrap: str, topic: str, codec: str, kind: str) -> dict[str, Any]:
    """Store records."""
    compression = None if codec == "none" else codec
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=compression, enable_idempotence=kind == "idempotent"
    ) as producer:
        sent = [
            await producer.send(topic, key=b"key %d" % number, value=b"value %d " % number * 20)
            for number in range(RECORDS)
        ]
        stored = await asyncio.gather(*sent)
    return {"places": [[each.partition, each.offset] for each in stored]}


async def group(bootstrap: str, topic: str, protocol: str, count: str) -> None:
    """Read records in a group, commit them, and stay until standard input ends."""
    async with aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        found = [await consumer.getone() for _ in range(int(count))]
        await consumer.commit()
        records = [[each.partition, each.offset, each.key.decode(), each.value.decode()] for each in found]
        show({"records": records})
        await asyncio.to_thread(sys.stdin.read)


async def stream(bootstrap: str, topic: str) -> dict[str, Any]:
    """Store records for each line of standard input."""
    sent: list[Any] = []
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        while await asyncio.to_thread(sys.stdin.readline):
            for number in range(len(sent), len(sent) + RECORDS_OF_A_LINE):
                sent.append(await producer.send(topic, key=b"key %d" % number, value=b"%d" % number))
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
    return {"sent": len(sent), "failed": [repr(each) for each in outcomes if isinstance(each, Exception)]}


async def follow(bootstrap: str, topic: str, count: str) -> dict[str, Any]:
    """Read in a group until the given number of distinct values has arrived."""
    found: list[int] = []
    async with aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        while len(set(found)) < int(count):
            found.append(int((await consumer.getone()).value))
    return {"different": len(set(found)), "read": len(found)}


async def transactions(bootstrap: str, topic: str) -> dict[str, Any]:
    """Commit a transaction with an offset, abort one, and be fenced."""
    options = {"bootstrap_servers": bootstrap, "transactional_id": topic}
    producer = aiokafka.AIOKafkaProducer(**options)
    await producer.start()

    async def write(word: str) -> None:
        await producer.begin_transaction()
        for number in range(10):
            await producer.send_and_wait(f"{topic}-out", f"{word} {number}".encode())

    await write("kept")
    await producer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): 5}, topic)
    await producer.commit_transaction()
    await write("dropped")
    await producer.abort_transaction()
    async with aiokafka.AIOKafkaProducer(**options):
        try:
            await write("fenced")
            await producer.commit_transaction()
        except aiokafka_errors.KafkaError as error:
            return {"offset": 5, "fenced": type(error).__name__}
    return {}


async def mistake(bootstrap: str, topic: str, kind: str) -> dict[str, Any]:
    """Make a mistake that a broker refuses."""
    try:
        if kind == "bad config":
            client = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await client.start()
            try:
                response = await client.create_topics(
                    [aiokafka_admin.NewTopic(topic, 1, 1, topic_configs={"compression.type": "odd"})]
                )
            finally:
                await client.close()
            ((_, code, text),) = response.topic_errors
            return {"error": code, "text": text}
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=3_000) as producer:
            await producer.send_and_wait(topic, bytes(5000))
    except aiokafka_errors.KafkaError as error:
        return {"error": getattr(error, "errno", None), "text": str(error)}
    return {}


if __name__ == "__main__":
    run(admin, administer, produce, group, stream, follow, transactions, mistake)
