"""Topics for a test, which the broker knows before the test goes on."""

from __future__ import annotations

from kafkawire import Admin, BrokerError, NewTopic
from tests.kafka.cleaning import until_async

__all__ = ["create"]


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
