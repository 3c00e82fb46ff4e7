"""A client whose event loop has ended raises an error that says so in every call, and can still be closed.

Method: start a producer, a consumer and an admin with a scripted in-memory broker in one `asyncio.run`, and use them in
the next.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire import Admin, Consumer, Producer, TopicPartition
from kafkawire.errors import Closed
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.transport import loop_watch
from tests.sdk.scripted_broker import BROKER, StoringBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS

Client = Producer[Any, Any] | Consumer[Any, Any] | Admin
T0 = TopicPartition("t", 0)


#: After this many iterations of an event loop, only `asyncio.run` has anything left to end on it.
TURNS = 20


def run_to_the_end(work: Callable[[], Awaitable[object]]) -> None:
    """Run a coroutine on a new event loop, and leave no task behind, not even one that starts late."""

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
        raise AssertionError("the topic is empty")


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


def made(kind: Callable[..., Client], broker: StoringBroker, **given: Any) -> Client:
    """Return a client that is not started; a consumer reads the only topic."""
    return kind(str(BROKER), *(("t",) if kind is Consumer else ()), network=broker.network, **given)


@pytest.mark.parametrize(("kind", "use"), USES)
def test_a_loop_that_has_ended(kind: Callable[..., Client], use: Callable[[Any], Awaitable[object]]) -> None:
    broker = StoringBroker({"t": 1})
    client = made(kind, broker)

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
    """A listener that ignores all calls."""

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


class LoopThread:
    """An event loop on a thread; the loop may end at any time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine on that loop, and return its result."""

        async def run() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_SECONDS)

    def end(self) -> None:
        """Stop the loop, leave no task behind, and close it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # the warning is expected here
        self._loop.close()


async def send_and_forget(client: Client) -> Callable[[], Any]:
    """Return a function that waits only for one of the producer's records."""
    assert isinstance(client, Producer)
    return client.send("t", b"never stored").result


async def send_and_await(client: Client) -> Callable[[], Any]:
    assert isinstance(client, Producer)
    delivery = client.send("t", b"never stored")

    async def awaited() -> None:
        await delivery

    return lambda: asyncio.run(awaited())


def asking(use: Callable[[Any], Awaitable[object]]) -> Callable[[Client], Awaitable[Callable[[], Any]]]:
    async def prepare(client: Client) -> Callable[[], Any]:
        async def asked() -> None:
            await use(client)

        return lambda: asyncio.run(asked())

    return prepare


WAITS: list[tuple[Callable[..., Client], dict[str, Any], Callable[[Client], Awaitable[Callable[[], Any]]]]] = [
    (Producer, {"linger_ms": 60_000}, send_and_forget),
    (Producer, {"linger_ms": 60_000}, send_and_await),
    (Consumer, {}, asking(lambda consumer: consumer.getmany(60_000))),
    (Consumer, {}, asking(lambda consumer: consumer.end_offsets([T0]))),
    (Admin, {}, asking(lambda admin: admin.list_topics())),
]


@pytest.mark.parametrize(("kind", "given", "prepare"), WAITS)
@pytest.mark.parametrize("waits_already", [False, True])
def test_who_waits_elsewhere_hears_that_the_loop_has_ended(
    kind: Callable[..., Client],
    given: Any,
    prepare: Callable[[Client], Awaitable[Callable[[], Any]]],
    waits_already: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = threading.Event()
    look = loop_watch.look

    def noted() -> None:
        looked.set()
        look()

    monkeypatch.setattr(loop_watch, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(loop_watch, "look", noted)
    broker = StoringBroker({"t": 1})
    loop = LoopThread()
    failures: list[BaseException] = []
    client = made(kind, broker, **given)

    async def start() -> Callable[[], Any]:
        await client.start()
        broker.responders[ApiKey.METADATA] = broker.responders[ApiKey.LIST_OFFSETS] = lambda request: None
        return await prepare(client)

    def run(wait: Callable[[], Any]) -> None:
        try:
            wait()
        except Closed as error:
            failures.append(error)

    wait = loop.run(start)
    looked.clear()
    thread = threading.Thread(target=run, args=(wait,), daemon=True)
    if waits_already:
        thread.start()
        assert looked.wait(PATIENCE_SECONDS)
        loop.end()
    else:
        loop.end()
        thread.start()
    thread.join(PATIENCE_SECONDS)
    name = kind.__name__.lower()
    [failure] = failures
    assert str(failure).startswith(f"the event loop on which the {name} was started has ended, and so has the {name}")


def test_records_that_were_not_sent_are_told_of() -> None:
    broker = StoringBroker({"t": 1})
    producer = Producer(str(BROKER), network=broker.network, linger_ms=60_000)

    async def write() -> None:
        await producer.start()
        producer.send("t", b"forgotten")

    run_to_the_end(write)
    with pytest.raises(Closed):
        asyncio.run(producer.close())
