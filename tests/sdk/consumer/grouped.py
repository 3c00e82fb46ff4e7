"""A complete consumer in a group, and a scripted broker whose topic t has three records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

__all__ = ["QUICK", "T0", "consuming", "heartbeat"]

T0 = TopicPartition("t", 0)
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 5,
    "group_id": "g",
}


def consuming(
    test: Callable[[StoringBroker, Consumer], Awaitable[None]], *topics: str, listener: Any = None, **options: Any
) -> StoringBroker:
    """Run a test with a consumer in a group, and with a broker whose topic t has three records."""
    made: list[StoringBroker] = []

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        made.append(broker)
        broker.fill("t", b"a", b"b", b"c")
        broker.responders[ApiKey.CONSUMER_GROUP_HEARTBEAT] = heartbeat
        given = {**QUICK, **options}
        async with Consumer(str(BROKER), *topics, network=broker.network, listener=listener, **given) as consumer:
            async with asyncio.timeout(20):
                await test(broker, consumer)

    asyncio.run(run())
    return made[0]


def heartbeat(request: Any) -> ConsumerGroupHeartbeatResponse:
    """Answer a KIP-848 member's heartbeats; the first answer assigns all partitions to the member."""
    message = request.message
    if message.member_epoch != 0:
        return ConsumerGroupHeartbeatResponse(
            member_id=message.member_id, member_epoch=message.member_epoch, heartbeat_interval_ms=5
        )
    kind = ConsumerGroupHeartbeatResponse
    target = kind.Assignment([kind.TopicPartitions(topic_id_of("t"), [0])])
    return kind(member_id=message.member_id, member_epoch=1, heartbeat_interval_ms=5, assignment=target)
