"""Create topics for a test; wait until the broker serves them, and until their transactions have ended."""

from __future__ import annotations

from typing import Any

from kafkawire import Admin, BrokerError, Consumer, NewTopic, OffsetTimestamp, TopicPartition
from tests.kafka.cleaning import until_async

__all__ = ["await_markers", "create"]


async def create(bootstrap: str, *topics: NewTopic | str) -> dict[str, bytes]:
    """Create topics, wait until the broker serves them, and return their ids.

    In KRaft, the controller answers before the broker knows the topic, so an immediate request may not find it. The
    broker also names a leader before it has created the log, so records sent immediately without acknowledgement are
    lost.
    """
    async with Admin(bootstrap) as admin:
        ids = {name: topic.topic_id for name, topic in (await admin.create_topics(topics)).items()}

        async def are_served() -> bool:
            try:
                described = await admin.describe_topics(ids)
                parts = [TopicPartition(name, part) for name, topic in described.items() for part in topic.partitions]
                await admin.list_offsets(dict.fromkeys(parts, OffsetTimestamp.LATEST))
            except BrokerError:
                return False
            return True

        await until_async(are_served, f"the broker does not serve {', '.join(ids)}")
        return ids


async def await_markers(bootstrap: str, topic: str) -> None:
    """Wait until no transaction is open in a topic: Apache Kafka writes the markers after responding to EndTxn."""

    async def ends(isolation_level: Any) -> dict[TopicPartition, int]:
        async with Consumer(bootstrap, isolation_level=isolation_level) as reader:
            return await reader.end_offsets(await reader.partitions_for(topic))

    async def are_written() -> bool:
        return await ends("read_committed") == await ends("read_uncommitted")

    await until_async(are_written, f"a transaction is open in {topic}")
