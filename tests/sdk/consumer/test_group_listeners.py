"""A rebalance listener may seek, commit, subscribe or close with its consumer, and may fail or hang.

Method: run the whole consumer against a scripted broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.consumer.grouped import T0, consuming
from tests.sdk.scripted_broker import StoringBroker


def test_a_listener_may_commit_and_seek() -> None:
    consumers: list[Consumer] = []
    committed: list[object] = []

    class Listener:
        async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            assert await consumers[0].committed(T0) == {}
            consumers[0].seek(T0, 1)

        async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await consumers[0].commit({T0: OffsetAndMetadata(2, "mine")})
            committed.append(await consumers[0].committed(T0))

        def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
            raise AssertionError(partitions)

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        consumers.append(consumer)
        assert (await anext(aiter(consumer))).value == b"b"

    broker = consuming(test, "t", listener=Listener(), enable_auto_commit=False)
    assert committed == [{T0: OffsetAndMetadata(2)}]
    assert broker.commits == {("g", "t", 0): 2}
    assert len(broker.asked(ApiKey.LEAVE_GROUP)) == 1


def test_what_a_listener_has_failed_at_is_not_handed_out() -> None:
    class Listener:
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            raise RuntimeError("the listener failed")

        def on_revoked(self, partitions: frozenset[TopicPartition]) -> None: ...

        on_lost = on_revoked

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="the listener failed"):
                await consumer.getmany(10_000)

    broker = consuming(test, "t", listener=Listener())
    assert broker.commits.get(("g", "t", 0), 0) == 0, "must not be after the offset at which reading was to begin"


def test_a_listener_that_hangs_does_not_hold_up_close() -> None:
    class Listener:
        def on_assigned(self, partitions: frozenset[TopicPartition]) -> None: ...

        async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await asyncio.Event().wait()

        on_lost = on_revoked

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await anext(aiter(consumer))
        began_ms = monotonic_ms()
        await consumer.close(timeout_ms=200)
        assert monotonic_ms() - began_ms < 1_000
        assert len(asyncio.all_tasks()) == 1

    consuming(test, "t", listener=Listener())  # test_departure shows, without real time, that the member leaves


class Acting:
    """A listener that uses its consumer when partitions are assigned or revoked.

    Attributes:
        consumer: the consumer, which is set before anything is assigned.
        told: the events that it received.
    """

    def __init__(self, when: str, action: Callable[[Consumer], Awaitable[None] | None]) -> None:
        self.consumer: Consumer | None = None
        self._when = when
        self._action = action
        self.told: list[str] = []

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await self._act("assigned")

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._act("revoked")

    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        await self._act("lost")

    async def _act(self, event: str) -> None:
        self.told.append(event)
        if event == self._when and self.told.count(event) == 1:
            assert self.consumer is not None
            result = self._action(self.consumer)
            if result is not None:
                await result


def test_a_second_close_waits_for_the_first() -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await anext(aiter(consumer))
        first = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0)
        assert not first.done()
        await consumer.close()
        assert first.done()

    consuming(test, "t")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("when", ["assigned", "revoked"])
def test_a_listener_may_close_its_consumer(protocol: str, when: str) -> None:
    """The consumer closes immediately, although the group and the listener wait for each other."""
    listener = Acting(when, lambda consumer: consumer.close())

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        listener.consumer = consumer
        began_ms = monotonic_ms()
        found = [record.value async for record in consumer] if when == "assigned" else [await anext(aiter(consumer))]
        await consumer.close()
        assert len(found) == (0 if when == "assigned" else 1)
        assert monotonic_ms() - began_ms < 2_000
        assert listener.told == ["assigned", "revoked"]

    broker = consuming(test, "t", listener=listener, group_protocol=protocol)
    key = ApiKey.LEAVE_GROUP if protocol == "classic" else ApiKey.CONSUMER_GROUP_HEARTBEAT
    last = broker.asked(key)[-1]
    assert protocol == "classic" or (isinstance(last, ConsumerGroupHeartbeatRequest) and last.member_epoch == -1)


@pytest.mark.parametrize(
    ("action", "values"),
    [
        (lambda consumer: consumer.seek(T0, 2), [b"c"]),
        (lambda consumer: consumer.pause(T0), []),
        (lambda consumer: consumer.subscribe("u"), [b"other"]),
        (lambda consumer: consumer.seek_to_end(), []),
    ],
)
def test_what_a_listener_does_when_partitions_are_assigned_takes_effect(
    action: Callable[[Consumer], Awaitable[None] | None], values: list[bytes]
) -> None:
    listener = Acting("assigned", action)

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        broker.topics["u"] = 1
        broker.fill("u", b"other")
        listener.consumer = consumer
        found: list[bytes | None] = []
        while len(found) < len(values):
            for records in (await consumer.getmany(10_000)).values():
                found += [record.value for record in records]
        while not listener.told:
            await asyncio.sleep(0)
        assert await consumer.getmany(50) == {}
        assert found == values

    consuming(test, "t", listener=listener)
