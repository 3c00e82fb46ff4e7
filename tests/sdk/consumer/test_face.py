"""What does not wait works at once, and refuses what makes no sense.

Method: the consumer before its start, and against a scripted broker.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.errors import Closed, LocalProtocolError
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("call", ["pause", "resume", "seek_to_beginning", "seek_to_end", "lag"])
def test_before_the_start(call: str) -> None:
    with pytest.raises(Closed, match="not started"):
        getattr(Consumer(str(BROKER)), call)(T0)


def test_a_closed_consumer_takes_no_partitions() -> None:
    async def run() -> None:
        async with Consumer(str(BROKER), network=StoringBroker({"t": 1}).network) as consumer:
            pass
        with pytest.raises(Closed, match="the consumer was closed"):
            consumer.assign([T0])
        with pytest.raises(Closed, match="the consumer was closed"):
            await consumer.subscribe("t")
        assert consumer.assignment == frozenset()

    asyncio.run(run())


def test_what_it_subscribes_to_and_what_is_paused() -> None:
    async def run() -> None:
        consumer = Consumer(str(BROKER), "t", network=StoringBroker({"t": 2, "u": 1}).network)
        assert (consumer.subscription, consumer.paused) == ({"t"}, frozenset())
        async with consumer:
            consumer.pause(T0, T1)
            consumer.resume(T1)
            assert consumer.paused == {T0}
            await consumer.subscribe(["t", "u"])
            assert consumer.subscription == {"t", "u"}
            await consumer.subscribe(pattern="u")
            assert consumer.subscription == frozenset()
            for name, advice in (
                ("topics", "topics are given one by one or in one list: subscribe('a', 'b')"),
                ("listener", "the listener is an argument of Consumer"),
                ("on_assign", "the listener is an argument of Consumer"),
                ("nonsense", "there is no such argument"),
            ):
                with pytest.raises(TypeError, match=f"^subscribe: {name}=…: {re.escape(advice)}$"):
                    await consumer.subscribe(**{name: ["t"]})  # type: ignore[arg-type]  # as in other clients
        by_hand = Consumer(str(BROKER))
        by_hand.assign(T0)
        assert by_hand.subscription == frozenset()

    asyncio.run(run())


def test_an_assignment_with_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """Before the start, after it, and for a partition that is read already; nothing is looked up."""

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        for partition in (0, 1):
            broker.fill("t", b"a", b"b", b"c", partition=partition)
        consumer = Consumer(str(BROKER), network=broker.network, auto_offset_reset="none")
        consumer.assign({T0: 1})
        assert consumer.assignment == {T0}
        async with consumer:
            assert (await anext(aiter(consumer))).offset == 1
            consumer.assign({T0: 0, T1: 2})
            found = [await anext(aiter(consumer)) for _ in range(4)]
            assert sorted((each.partition, each.offset) for each in found) == [(0, 0), (0, 1), (0, 2), (1, 2)]
            with pytest.raises(LocalProtocolError, match="offset of t-0"):
                consumer.assign({T0: -1})
            assert consumer.assignment == {T0, T1}

    asyncio.run(run())
    assert caplog.messages == []


def test_an_assignment_before_the_start() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        broker.fill("t", b"a", b"b", b"c")
        consumer = Consumer(str(BROKER), network=broker.network, auto_offset_reset="earliest")
        consumer.assign([T0])
        assert consumer.assignment == {T0}
        async with consumer:
            assert (await anext(aiter(consumer))).offset == 0
            assert consumer.lag(T0) == 2
            consumer.seek_to_time(1_000, T0)
            assert consumer.lag(T0) is None
            assert (await anext(aiter(consumer))).offset == 0
            for place in 1, datetime(1970, 1, 1, tzinfo=UTC):
                await anext(aiter(consumer))
                consumer.seek(T0, place)
                assert (await anext(aiter(consumer))).offset == (1 if place == 1 else 0)
            for wrong in (-1, datetime(1969, 1, 1, tzinfo=UTC)):
                with pytest.raises(LocalProtocolError, match="expected"):
                    consumer.seek(T0, wrong)
            with pytest.raises(LocalProtocolError, match="expected 1970 or later"):
                consumer.seek_to_time(-2)
            with pytest.raises(LocalProtocolError, match="x-0 is not assigned"):
                consumer.pause(TopicPartition("x", 0))

    asyncio.run(run())
