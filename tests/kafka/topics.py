"""Topics for a test: waits until the broker knows them, and until their transactions have ended."""

from __future__ import annotations

from typing import Any

from kafkawire import Admin, BrokerError, Consumer, NewTopic, TopicPartition
from tests.kafka.cleaning import until_async

__all__ = ["await_markers", "create"]


async def create(bootstrap: str, *topics: NewTopic | str) -> dict[str, bytes]:
    """Create topics, wait until the broker knows them, and return their ids.

    In KRaft the controller, which answers, has a topic before its broker: who asks at once may hear that it is unknown.
    """
    async with Admin(bootstrap) as admin:
        ids = await admin.create_topics(topics)

        async def are_led() -> bool:
            try:
                described = await admin.describe_topics(ids)
            except BrokerError:
                return False
            return all(part.leader is not None for topic in described.values() for part in topic.partitions.values())

        await until_async(are_led, f"the broker does not know {', '.join(ids)}")
        return ids


async def await_markers(bootstrap: str, topic: str) -> None:
    """Wait until no transaction is open in a topic: Apache Kafka writes the markers after its answer to EndTxn."""

    async def ends(isolation_level: Any) -> dict[TopicPartition, int]:
        async with Consumer(bootstrap, isolation_level=isolation_level) as reader:
            return await reader.end_offsets(await reader.partitions_for(topic))

    async def are_written() -> bool:
        return await ends("read_committed") == await ends("read_uncommitted")

    await until_async(are_written, f"a transaction is open in {topic}")
