"""Dropping a started client raises a warning that names the line that created it, and ends the client as if closed.

Method: drop clients of an in-memory broker, on the caller's event loop and on an I/O thread, as programs do: with a
listener or a deserializer that refers to the client, or with only an iterator left. Run programs in separate processes
that exit, or fork, without closing their clients.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Literal

import pytest

import kafkawire.sync
from kafkawire import Admin, Consumer, ConsumerInterceptor, Producer, TopicPartition
from kafkawire.errors import ConfigurationError
from kafkawire.sdk.client.unclosed_clients import caller, weakly
from kafkawire.sdk.consumer.listener import ListenerCalls
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.testing import Broker
from tests.sdk.scripted_broker import BROKER, StoringBroker
from tests.sdk.transport.driven import PATIENCE_SECONDS

Io = Literal["loop", "thread"]


class Application(ConsumerInterceptor[str, str]):
    """A listener that refers to its consumer, which refers back to the listener.

    Attributes:
        told: the events for which the listener was called.
    """

    def __init__(self, servers: str, **given: Any) -> None:
        self.told: list[str] = []
        self.consumer: Consumer[str, str] = Consumer[str, str](
            servers, "t", group_id="g", listener=self, value_deserializer=self.decode, interceptors=[self], **given
        )

    def decode(self, value: bytes) -> str:
        return value.decode()

    def on_commit(self, offsets: Any) -> None:
        self.told.append("committed")

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("assigned")

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("revoked")

    async def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append("lost")


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0)


async def said_of(held: list[Any]) -> str:
    """Drop the held objects, and return the warning that follows when running code no longer holds them."""
    with warnings.catch_warnings(record=True) as caught:  # the recorded warnings also hold the client
        warnings.simplefilter("always")
        held.clear()
        await until(lambda: gc.collect() is not None and caught)
        (text,) = [str(each.message) for each in caught]
        return text


def open_links(broker: StoringBroker) -> list[object]:
    return [link for link in broker.links if link.wire.is_open]


def io_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("kafkawire ")]


def line_of(word: str) -> str:
    """Return this file's name and the number of the first line that contains a word."""
    with open(__file__, encoding="utf-8") as file:
        return f"{__file__}:{next(number for number, line in enumerate(file, 1) if word in line)}"


async def admin(servers: str, **given: Any) -> Any:
    client = Admin(servers, client_id="a", **given)
    await client.start()
    return client


async def producer(servers: str, **given: Any) -> Any:
    client = Producer(servers, client_id="p", **given)
    await client.start()
    return client


async def consumer(servers: str, **given: Any) -> Any:
    client = Consumer(servers, "t", client_id="c", **given)
    await client.start()
    return client


async def member(servers: str, **given: Any) -> Any:
    application = Application(servers, client_id="m", **given)
    await application.consumer.start()
    await until(lambda: application.told == ["assigned"])
    calls = application.consumer._calls
    await until(lambda: isinstance(calls, ListenerCalls) and not calls._tasks)
    return application


@pytest.mark.parametrize("io", ["loop", "thread"])
@pytest.mark.parametrize(
    ("made", "said", "line"),
    [
        (admin, "admin 'a'", "client = Admin("),
        (producer, "producer 'p'", "client = Producer("),
        (consumer, "consumer 'c'", "client = Consumer("),
        (member, "consumer 'm' of group 'g'", "= Consumer[str, str]("),
    ],
)
def test_a_client_that_is_dropped(made: Any, said: str, line: str, io: Io) -> None:
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"value")

    async def run() -> None:
        held = [await made(str(BROKER), network=broker.network, io=io)]
        if made is producer:
            held[0].send("t", b"buffered")
        gone = weakref.ref(held[0])
        text = await said_of(held)
        await until(lambda: gc.collect() is not None and gone() is None)
        assert text.startswith(f"unclosed {said}, created at {line_of(line)}")
        await until(lambda: not open_links(broker))
        await until(lambda: not io_threads())

    asyncio.run(run())
    assert made is not member or len(broker.asked(ApiKey.LEAVE_GROUP)) == 1
    assert made is not producer or broker.asked(ApiKey.PRODUCE)


def test_an_iterator_keeps_its_consumer() -> None:
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"one", b"two")

    async def run() -> None:
        client = await consumer(str(BROKER), network=broker.network, auto_offset_reset="earliest")
        held = [aiter(client)]
        del client
        gc.collect()
        for value in (b"one", b"two"):
            record = await anext(held[0])
            assert record.value == value
        assert (await said_of(held)).startswith("unclosed consumer 'c'")
        await until(lambda: not open_links(broker))

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin"])
def test_a_blocking_client(kind: str) -> None:
    broker = StoringBroker({"t": 1})
    held = [getattr(kafkawire.sync, kind)(str(BROKER), network=broker.network)]
    held[0].start()
    place = line_of("getattr(kafkawire.sync")
    assert asyncio.run(said_of(held)).startswith(f"unclosed {kind.lower()} 'kafkawire', created at {place}")
    for thread in threading.enumerate():
        if thread.name.startswith("kafkawire "):
            thread.join(PATIENCE_SECONDS)
    assert not io_threads()
    assert not open_links(broker)


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_nothing_is_said(kind: Any) -> None:
    """A client that was never started, was closed, failed to construct or lost its event loop causes no warning."""
    broker = StoringBroker({"t": 1})

    async def closed() -> None:
        async with kind(str(BROKER), network=broker.network):
            pass

    async def left() -> Any:
        client = kind(str(BROKER), network=broker.network)
        await client.start()
        return client

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(str(BROKER))
        asyncio.run(closed())
        with pytest.raises(ConfigurationError):
            kind("no port:x")
        outlived = asyncio.run(left())
        del outlived
        gc.collect()


#: A program that starts clients and never closes them.
PROGRAM = """
import asyncio, gc, os, sys
import kafkawire.sync
from kafkawire import Admin, Consumer, Producer

servers = sys.argv[1]
sync = kafkawire.sync
blocking = [sync.Producer(servers), sync.Consumer(servers, "t", group_id="g"), sync.Admin(servers)]
for each in blocking:
    each.start()
    if each is blocking[0]:
        each.send("t", b"x").result()
"""

ENDS = {
    "exit": "",
    "fork": "if os.fork() == 0:\n    blocking.clear(); gc.collect(); sys.exit()\nassert os.wait()[1] == 0",
    "loop": """
async def main():
    global kept
    kept = [Consumer(servers, "t", group_id="h"), Producer(servers), Admin(servers)]
    for each in kept:
        await each.start()

asyncio.run(main())
""",
}


@pytest.fixture(scope="module")
def servers() -> Any:
    with Broker(ephemeral=True) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_quietly(end: str, servers: str) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM + ENDS[end], servers]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


def test_the_place() -> None:
    assert str(caller()) == line_of("str(caller()) ==")


def test_what_is_called_weakly() -> None:
    class Listener:
        def hear(self, *words: str, end: str) -> None:
            heard.append((*words, end))

    heard: list[tuple[str, ...]] = []
    listener = Listener()
    call = weakly(listener.hear, None)
    call("a", "b", end="!")
    del listener
    gc.collect()
    call("c", end="!")
    assert heard == [("a", "b", "!")]


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_client_in_use_is_not_copied(make: Callable[[object], object]) -> None:
    """Dropping a copy would end the client. A client that was not started is nothing but options."""

    async def run() -> None:
        with Broker(ephemeral=True) as broker:
            for client in (Producer(broker.bootstrap), Consumer(broker.bootstrap, "t"), Admin(broker.bootstrap)):
                make(client)
                async with client:
                    with pytest.raises(TypeError, match=r"^a [a-z]+ in use cannot be copied or pickled"):
                        make(client)

    asyncio.run(run())


@pytest.mark.parametrize("make", [copy.deepcopy, pickle.dumps])
def test_a_blocking_client_in_use_is_not_copied(make: Callable[[object], object]) -> None:
    with Broker(ephemeral=True) as broker, kafkawire.sync.Producer(broker.bootstrap) as producer:
        with pytest.raises(TypeError, match=r"^a producer in use cannot be copied or pickled"):
            make(producer)
        assert producer.send("t", b"still there").result().offset == 0
