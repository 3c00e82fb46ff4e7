"""Whatever is cancelled, stopped or forked when a producer ends, each delivery is settled and nothing hangs.

Method: run the whole producer on an event loop against a scripted in-memory broker.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.scripted_broker import BROKER, StoringBroker

#: The time by which `close` may exceed its limit.
GRACE_SECONDS = 0.5


def producing(test: Callable[[StoringBroker, Producer], Awaitable[None]], **options: Any) -> None:
    """Run a test with a broker that has topic t, and with a started producer, which the test closes."""

    options.setdefault("linger_ms", 0)

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        producer = Producer(str(BROKER), network=broker.network, **options)
        await producer.start()
        await test(broker, producer)
        await producer.close(flush=False)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


async def turns() -> None:
    """Let everything happen that does not depend on time."""
    for _ in range(50):
        await asyncio.sleep(0)


def silent(request: Request) -> None:
    """Give no answer, like a stopped broker."""


async def stuck(broker: StoringBroker, producer: Producer) -> list[Delivery]:
    """Return deliveries at every stage: in flight, waiting, lingering and without a known topic."""
    await producer.send("t", b"first")
    broker.responders[ApiKey.PRODUCE] = silent
    in_flight = producer.send("t", b"in flight")
    await turns()
    return [in_flight, producer.send("t", b"waiting"), producer.send("unknown", b"v")]


@pytest.mark.parametrize("kind", ["without flush", "timeout", "cancelled", "of the exception"])
def test_each_kind_of_close_settles_everything_in_time(kind: str) -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        called: list[Delivery] = []
        deliveries = await stuck(broker, producer)
        for delivery in deliveries:
            delivery.add_done_callback(called.append)
        waiters = [asyncio.ensure_future(_awaited(delivery)) for delivery in deliveries]
        await asyncio.sleep(0)
        async with asyncio.timeout(0.1 + GRACE_SECONDS):
            if kind == "without flush":
                await producer.close(flush=False)
            elif kind == "timeout":
                await producer.close(timeout_ms=100)
            elif kind == "of the exception":
                await producer.__aexit__(ValueError, ValueError(), None)
            else:
                task = asyncio.ensure_future(producer.close())
                await turns()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        assert all(delivery.done for delivery in deliveries)
        assert sorted(map(id, called)) == sorted(map(id, deliveries))
        for error in await asyncio.gather(*waiters, return_exceptions=True):
            assert isinstance(error, Closed)
        with pytest.raises(Closed, match="the producer is closed"):
            producer.send("t", b"v")
        await producer.close()

    producing(test)


def test_a_close_without_time_for_some_records_says_so() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await stuck(broker, producer)
        with pytest.raises(Closed, match="closed before the record was acknowledged"):
            await producer.close(timeout_ms=10)

    producing(test)


def test_a_cancelled_flush_or_drain_leaves_the_producer_as_it_was() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        store = broker.responders[ApiKey.PRODUCE]
        broker.responders[ApiKey.PRODUCE] = silent
        delivery = producer.send("t", b"x" * 3000)
        for call in (producer.flush, producer.drain):
            task = asyncio.ensure_future(call())
            await turns()
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        broker.responders[ApiKey.PRODUCE] = store
        for link in list(broker.links):
            link.wire.close()
        assert (await delivery).offset == 0

    producing(test, buffer_memory=4096, batch_size=1024)


def test_a_defect_ends_the_producer_and_settles_everything() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        deliveries = await stuck(broker, producer)
        assert producer._core is not None
        producer._core._sender.poll = _defect  # type: ignore[method-assign]  # the defect
        producer._core.client.driver.wake()
        for delivery in deliveries:
            with pytest.raises(KafkaWireError, match="because of a defect: ZeroDivisionError"):
                await delivery
        with pytest.raises(KafkaWireError, match="defect"):
            producer.send("t", b"v")
        with pytest.raises(KafkaWireError, match="defect"):
            await producer.flush()

    producing(test)


def test_records_from_other_threads() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        places: list[int] = []

        def work(number: int) -> None:
            deliveries = [producer.send("t", b"%d:%04d" % (number, each)) for each in range(500)]

            async def wait() -> list[int]:
                return [(await delivery).offset for delivery in deliveries]

            places.extend(asyncio.run(wait()))

        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, work, number) for number in range(3)))
        assert sorted(places) == list(range(1_500))
        for number in range(3):
            mine = [value for value in broker.values("t") if (value or b"").startswith(b"%d:" % number)]
            assert mine == [b"%d:%04d" % (number, each) for each in range(500)]

    producing(test, batch_size=1024)


def test_an_io_thread_delivers_while_the_event_loop_is_blocked() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        settled, before = threading.Event(), set(threading.enumerate())
        async with Producer(str(BROKER), network=broker.network, io="thread", linger_ms=0) as producer:
            delivery = producer.send("t", b"v", on_delivery=lambda delivery: settled.set())
            assert settled.wait(10), "this thread, the event loop's, waits here"
            assert (await delivery).offset == 0
            assert await producer.send_many("t", [b"w"] * 10) == 10
            await producer.flush()
        assert len(broker.values("t")) == 11
        assert set(threading.enumerate()) <= before

    asyncio.run(run())


def test_callbacks_run_on_the_event_loop() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        threads: list[Any] = []
        done = asyncio.Event()

        def note(delivery: Delivery) -> None:
            threads.append(threading.get_ident())
            done.set()

        producer.send("t", b"v", on_delivery=note)
        async with asyncio.timeout(5):
            await done.wait()
        assert threads == [threading.get_ident()]

    producing(test)


def test_a_second_close_waits_for_the_first() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        delivery = producer.send("t", b"v")
        first = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        assert not first.done()
        await producer.close()
        assert delivery.done
        assert first.done()

    producing(test)


def test_a_forked_process_is_told_to_make_its_own() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        await producer.send("t", b"v")
        delivery = producer.send("t", b"unsettled")
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            for call in (lambda: producer.send("t", b"v"), delivery.result):
                try:
                    call()
                except Closed as error:
                    os.write(writing, str(error).encode())
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read().count(b"created before os.fork()") == 2
        await delivery
        await producer.send("t", b"w")

    producing(test)


def test_a_cluster_without_producer_ids() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        del broker.supported[ApiKey.INIT_PRODUCER_ID]
        async with Producer(str(BROKER), network=broker.network) as producer:
            assert (await producer.send("t", b"v")).offset == 0
        insistent = Producer(str(BROKER), network=broker.network, enable_idempotence=True)
        with pytest.raises(UnsupportedVersion, match="enable_idempotence=True: the cluster issues no producer id"):
            await insistent.start()

    asyncio.run(run())


def test_a_producer_that_insists_starts_where_there_are_producer_ids() -> None:
    async def test(broker: StoringBroker, producer: Producer) -> None:
        assert (await producer.send("t", b"v")).offset == 0

    producing(test, enable_idempotence=True)


async def _awaited(delivery: Delivery) -> object:
    return await delivery


def _defect(now_ms: int) -> None:
    raise ZeroDivisionError


def test_drain_gives_way_if_there_is_something_to_do_or_a_millisecond_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ms = monotonic_ms()

    async def test(broker: StoringBroker, producer: Producer) -> None:
        others = 0

        async def drains(count: int) -> int:
            """Return the number of times that another task got a turn."""
            nonlocal others
            others = 0
            for _ in range(count):
                await producer.drain()
            return others

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        producer.send("t", b"first")
        await producer.flush()
        await turns()
        task = asyncio.ensure_future(other())
        monkeypatch.setattr("kafkawire.sdk.producer.core.monotonic_ms", lambda: now_ms)
        await drains(1)
        assert await drains(5) == 0
        monkeypatch.setattr("kafkawire.sdk.producer.core.monotonic_ms", lambda: now_ms + 1)
        assert await drains(5) == 1
        producer.send("t", b"opens a batch")
        assert await drains(5) == 1
        producer.send("t", b"joins it")
        assert await drains(5) == 0
        task.cancel()

    producing(test, linger_ms=60_000)
