"""A share consumer connected to a scripted broker that shares records as Kafka does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.sharing.delivery import ShareDelivery
from kafkawire.sdk.consumer.sharing.share_consumer import ShareConsumer
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.consumer.sharing.share_broker import ShareBroker
from tests.sdk.scripted_broker import BROKER, Later, ScriptedBroker, topic_id_of

__all__ = ["QUICK", "SharingBroker", "consume", "sharing"]

QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "fetch_max_wait_ms": 5, "group_id": "g"}


class SharingBroker(ScriptedBroker):
    """A scripted broker with one share group, whose members all read all partitions.

    Attributes:
        shares: the records and their locks.
        epochs: the epochs of the members, keyed by member id.
    """

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        super().__init__(topics or {"t": 1})
        self.shares = ShareBroker(monotonic_ms)
        self.epochs: dict[str, int] = {}
        self.responders |= {
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.SHARE_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.SHARE_FETCH: self._share_fetch,
            ApiKey.SHARE_ACKNOWLEDGE: lambda request: self.shares.share_acknowledge(request.message),
        }

    def fill(self, *values: bytes, topic: str = "t", partition: int = 0) -> None:
        """Store one batch with these values."""
        self.shares.fill((topic_id_of(topic), partition), *values)

    def acknowledged(self, type: int) -> list[int]:
        """Return the offsets that were acknowledged in one way."""
        return [each.offset for each in self.shares.applied if each.type == type]

    def _find_coordinator(self, request: Request) -> FindCoordinatorResponse:
        coordinators = [
            FindCoordinatorResponse.Coordinator(key, 1, *BROKER) for key in request.message.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=coordinators)

    def _heartbeat(self, request: Request) -> ShareGroupHeartbeatResponse:
        asked, kind = request.message, ShareGroupHeartbeatResponse
        if asked.member_epoch < 0:
            self.epochs.pop(asked.member_id, None)
            return kind(member_id=asked.member_id, member_epoch=-1)
        assignment = None
        if asked.member_epoch == 0 or asked.subscribed_topic_names is not None:
            self.epochs[asked.member_id] = asked.member_epoch + 1
            assigned = [
                kind.TopicPartitions(topic_id_of(name), list(range(self.topics[name])))
                for name in asked.subscribed_topic_names
                if name in self.topics
            ]
            assignment = kind.Assignment(assigned)
        return kind(
            member_id=asked.member_id,
            member_epoch=self.epochs[asked.member_id],
            heartbeat_interval_ms=1_000,
            assignment=assignment,
        )

    def _share_fetch(self, request: Request) -> Message | Later:
        response = self.shares.share_fetch(request.message)
        has_records = any(each.acquired_records for topic in response.responses for each in topic.partitions)
        if response.error_code or has_records or not request.message.max_wait_ms:
            return response
        return Later(response, request.message.max_wait_ms)


def sharing(
    test: Callable[[SharingBroker, ShareConsumer[Any, Any]], Awaitable[None]], *topics: str, **options: Any
) -> SharingBroker:
    """Run a test with a broker whose topic t has ten records in two batches, and with a share consumer of it."""
    broker_made: list[SharingBroker] = []

    async def run() -> None:
        broker = SharingBroker({"t": 1, "u": 1})
        broker_made.append(broker)
        for start in (0, 5):
            broker.fill(*[b"%d" % number for number in range(start, start + 5)])
        given = {**QUICK, **options}
        async with ShareConsumer(str(BROKER), *(topics or ("t",)), network=broker.network, **given) as consumer:
            await test(broker, consumer)

    asyncio.run(run())
    return broker_made[0]


async def consume(consumer: ShareConsumer[Any, Any], count: int) -> list[ShareDelivery[Any, Any]]:
    """Return the next deliveries."""
    found = []
    async for delivery in consumer:
        found.append(delivery)
        if len(found) == count:
            break
    return found
