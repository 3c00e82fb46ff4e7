"""Print Kafka's internal topics as JSON: `python examples/internal_topics.py BOOTSTRAP_SERVERS [METADATA_FOLDER]`.

Groups, transactions and share groups are read from the brokers. Cluster metadata is not served to ordinary clients, so
it is read from the folder `__cluster_metadata-0` of a node, including its snapshots.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from kafkawire import Admin, Consumer, TopicPartition
from kafkawire.errors import DecodeError, PartialBatch
from kafkawire.records import RecordBatch, decode_record, walk

TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def show(topic: str, offset: int, key: bytes | None, value: bytes | None) -> None:
    try:
        found = decode_record(topic, key, value).to_json()
    except DecodeError as error:  # including UnknownRecord, for a record written by a newer broker
        found = {"error": str(error)}
    print(json.dumps({"topic": topic, "offset": offset, **found}))


async def show_topics(servers: str) -> None:
    async with Admin(servers) as admin:
        known = await admin.list_topics(include_internal=True)
    there = [known[topic] for topic in TOPICS if topic in known]  # brokers create each topic on first use
    partitions = [TopicPartition(topic.name, number) for topic in there for number in topic.partitions]
    if not partitions:
        return
    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        async for record in consumer.records(stop_at_end=True):
            show(record.topic, record.offset, record.key, record.value)


def show_metadata(files: Iterable[Path]) -> None:
    for path in files:
        try:
            for batch in walk(path.read_bytes()):
                if isinstance(batch, RecordBatch) and not batch.is_control:
                    for record in batch.records():
                        show("__cluster_metadata", record.offset, record.key, record.value)
        except PartialBatch:
            pass  # the node is still writing it


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        print("usage: internal_topics.py BOOTSTRAP_SERVERS [METADATA_FOLDER]", file=sys.stderr)
        sys.exit(2)
    asyncio.run(show_topics(sys.argv[1]))
    if len(sys.argv) > 2:
        folder = Path(sys.argv[2])
        show_metadata([*sorted(folder.glob("*.checkpoint")), *sorted(folder.glob("*.log"))])
