"""A client can be started once, may fail to start, and leaves nothing behind when startup is cancelled at any point.

Method: start all three clients with a scripted in-memory broker, on both kinds of event loop, and cancel startup after
each possible number of loop iterations.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import kafkawire
from kafkawire import sync
from kafkawire.sdk.consumer.core import ConsumerCore
from kafkawire.sdk.errors import Closed, ConnectFailed, LocalProtocolError
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.scripted_broker import BROKER, StoringBroker

#: Each client, with its arguments other than the servers.
CLIENTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "Admin": ((), {}),
    "Producer": ((), {}),
    "Consumer": (("t",), {"group_id": "g", "auto_offset_reset": "earliest"}),
}

#: More loop iterations than any startup takes.
MAX_TURNS = 500


class Listener:
    """A listener that does nothing."""

    async def on_assigned(self, partitions: object) -> None: ...

    async def on_revoked(self, partitions: object) -> None: ...

    async def on_lost(self, partitions: object) -> None: ...


def made(face: Any, kind: str, broker: StoringBroker, **options: Any) -> Any:
    """Return a client that has not been started."""
    topics, given = CLIENTS[kind]
    return getattr(face, kind)(str(BROKER), *topics, network=broker.network, **given, **options)


def io_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kafkawire ")]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_start_that_is_cancelled_anywhere_leaves_nothing(kind: str) -> None:
    async def run() -> None:
        for turns in range(MAX_TURNS):
            broker = StoringBroker({"t": 1})
            client = made(kafkawire, kind, broker, **({"listener": Listener()} if kind == "Consumer" else {}))
            starting = asyncio.ensure_future(client.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            if starting.done():
                await starting
                await client.close()
                assert turns > 5
                return
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            for _ in range(3):
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}, f"after {turns} turns"
            with pytest.raises(Closed):
                client.metrics()
        pytest.fail("the start never ended")

    asyncio.run(run())


def test_a_consumer_that_is_cancelled_while_it_subscribes_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe = ConsumerCore.subscribe
    subscribing = asyncio.Event()

    def subscribed(self: ConsumerCore, *given: Any) -> Promise[None]:
        subscribe(self, *given)
        subscribing.set()
        return Promise()

    monkeypatch.setattr(ConsumerCore, "subscribe", subscribed)

    async def run() -> None:
        consumer = made(kafkawire, "Consumer", StoringBroker({"t": 1}), io="thread", listener=Listener())
        starting = asyncio.ensure_future(consumer.start())
        await subscribing.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert io_threads() == []


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_closed_client_is_not_started_again(kind: str) -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        client = made(kafkawire, kind, broker)
        await client.close()  # nothing has been opened
        broker.stop()
        with pytest.raises(ConnectFailed):
            await client.start()
        broker.start()
        await client.start()
        with pytest.raises(LocalProtocolError, match="was already started"):
            await client.start()
        await client.close()
        with pytest.raises(Closed, match=f"^the {kind.lower()} was closed; create a new one$"):
            await client.start()
        await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_closed_blocking_client_is_not_started_again(kind: str) -> None:
    broker = StoringBroker({"t": 1})
    client = made(sync, kind, broker)
    client.close()
    client.start()
    with pytest.raises(LocalProtocolError, match="was already started"):
        client.start()
    client.close()
    with pytest.raises(Closed, match=f"^the {kind.lower()} was closed; create a new one$"):
        client.start()
    client.close()
    assert io_threads() == []
