"""A client of an event loop that has ended says so wherever it is used, and can be closed.

Method: producer, consumer and admin against a scripted broker in memory, started in one `asyncio.run` and used in the
next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire import Admin, Consumer, Producer, TopicPartition
from kafkawire.errors import Closed
from tests.sdk.scripted_broker import BROKER, StoringBroker

Client = Producer[Any, Any] | Consumer[Any, Any] | Admin
T0 = TopicPartition("t", 0)


#: Turns of an event loop until nothing of a client is left on it that `asyncio.run` would not see.
TURNS = 20


def run_to_the_end(work: Callable[[], Awaitable[object]]) -> None:
    """Run a coroutine on an event loop of its own, which leaves no task behind: none that begins late, either."""

    async def run() -> None:
        await work()
        for _ in range(TURNS):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

    asyncio.run(run())


async def send(producer: Producer[Any, Any]) -> None:
    await producer.send("t", b"late")


async def iterate(consumer: Consumer[Any, Any]) -> None:
    async for _ in consumer:
        raise AssertionError("nothing is there")


USES: list[tuple[Callable[..., Client], Callable[[Any], Awaitable[object]]]] = [
    (Producer, send),
    (Consumer, lambda consumer: consumer.getmany(10)),
    (Consumer, lambda consumer: consumer.getbatches(10)),
    (Consumer, iterate),
    (Consumer, lambda consumer: anext(consumer.batches())),
    (Consumer, lambda consumer: consumer.end_offsets([T0])),
    (Consumer, lambda consumer: consumer.subscribe("u")),
    (Consumer, lambda consumer: consumer.partitions_for("t")),
    (Admin, lambda admin: admin.list_topics()),
    (Admin, lambda admin: admin.list_offsets({T0: 5})),
]


@pytest.mark.parametrize(("kind", "use"), USES)
def test_a_loop_that_has_ended(kind: Callable[..., Client], use: Callable[[Any], Awaitable[object]]) -> None:
    broker = StoringBroker({"t": 1})
    client = kind(str(BROKER), network=broker.network)

    async def again() -> None:
        name = type(client).__name__.lower()
        for _ in range(2):
            with pytest.raises(Closed, match=f"on which the {name} was started has ended, and so has the {name}"):
                await use(client)
        await client.close()
        await client.close()

    run_to_the_end(client.start)
    asyncio.run(again())


class Listener:
    """Hears nothing that matters."""

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None: ...

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None: ...


CLIENTS: list[tuple[Callable[..., Client], tuple[str, ...], dict[str, Any]]] = [
    (Producer, (), {}),
    (Producer, (), {"transactional_id": "x"}),
    (Consumer, ("t",), {}),
    (Consumer, ("t",), {"group_id": "g"}),
    (Consumer, ("t",), {"group_id": "g", "listener": Listener()}),
    (Admin, (), {}),
]


@pytest.mark.parametrize(("kind", "topics", "given"), CLIENTS)
def test_closing_is_all_that_is_done(kind: Callable[..., Client], topics: tuple[str, ...], given: Any) -> None:
    broker = StoringBroker({"t": 1})
    client = kind(str(BROKER), *topics, network=broker.network, **given)
    run_to_the_end(client.start)
    asyncio.run(client.close())


def test_records_that_were_not_sent_are_told_of() -> None:
    broker = StoringBroker({"t": 1})
    producer = Producer(str(BROKER), network=broker.network, linger_ms=60_000)

    async def write() -> None:
        await producer.start()
        producer.send("t", b"forgotten")

    run_to_the_end(write)
    with pytest.raises(Closed):
        asyncio.run(producer.close())
