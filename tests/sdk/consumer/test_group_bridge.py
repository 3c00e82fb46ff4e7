"""A consumer with a group and partitions assigned by hand commits as itself, regularly and at its end.

Method: the whole consumer against a scripted broker; members of groups are in `test_consumer.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(("auto_commit", "committed"), [(True, 2), (False, None)])
def test_assigned_by_hand(auto_commit: bool, committed: int | None) -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b", b"c")
        given = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": auto_commit}
        async with Consumer(str(BROKER), network=broker.network, **given) as consumer:
            consumer.assign([T0])
            await consumer.getmany(1_000, 2)
        assert broker.commits.get(("g", "t", 0)) == committed
        assert broker.asked(ApiKey.JOIN_GROUP) == []

    asyncio.run(run())


def test_it_continues_from_the_commit() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b", b"c")
        broker.commits["g", "t", 0] = 1
        async with Consumer(str(BROKER), network=broker.network, group_id="g") as consumer:
            consumer.assign([T0])
            assert (await anext(aiter(consumer))).offset == 1
            await consumer.commit()
            assert await consumer.committed(T0) == {T0: OffsetAndMetadata(2)}

    asyncio.run(run())
