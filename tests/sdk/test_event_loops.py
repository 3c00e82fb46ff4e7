"""The clients work on every kind of event loop, with and without TLS, and leave nothing behind on the loop.

Method: send and read small and large records, cancel a read, and leave a record unacknowledged, on the caller's event
loop and on an I/O thread. Any error that the loop reports, and any destructor warning, fails the test. A relay in front
of the broker provides TLS. `make test-loops` runs the clients' test suites on these loops.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from kafkawire import Admin, Consumer, NewTopic, Producer
from kafkawire.testing import Broker
from tests.certificates import Certificates
from tests.event_loops import LOOP_KINDS, loops_of_kind
from tests.needs import PYTHON_3_12
from tests.ports import free_port
from tests.thorough import sampled

#: Sizes around the size of the buffer for small frames, sizes far above it, and zero.
SIZES = [10, 70_000, 3_000_000, 0, 65_536, 1_000_000]

PATIENCE_SECONDS = 60


LIMITS: dict[str, Any] = {"ephemeral": True, "message_max_bytes": 4_000_000}


@pytest.fixture(scope="module")
def plain() -> Iterator[dict[str, Any]]:
    """Return the options for reaching a broker without TLS."""
    with Broker(**LIMITS) as broker:
        yield {"bootstrap_servers": broker.bootstrap}


@pytest.fixture(scope="module")
def by_tls(certificates: Certificates) -> Iterator[dict[str, Any]]:
    """Return the options for reaching a broker over TLS."""
    port, relay_port = free_port(), free_port()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.wait(
            [asyncio.ensure_future(pump(reader, downstream)), asyncio.ensure_future(pump(upstream, writer))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        for each in (writer, downstream):
            each.transport.abort()

    async def run() -> None:
        context = certificates.context(certificates.broker)
        async with await asyncio.start_server(relay, "127.0.0.1", relay_port, ssl=context):
            listens.set()
            await asyncio.to_thread(ended.wait)

    listens, ended = threading.Event(), threading.Event()
    with Broker(port=port, advertised_listeners=f"PLAINTEXT://localhost:{relay_port}", **LIMITS):
        thread = threading.Thread(target=asyncio.run, args=[run()])
        thread.start()
        assert listens.wait(PATIENCE_SECONDS)
        yield {
            "bootstrap_servers": f"localhost:{relay_port}",
            "security_protocol": "SSL",
            "ssl_truststore_location": str(certificates.authority),
        }
        ended.set()
        thread.join()


async def use(topic: str, given: dict[str, Any]) -> list[int]:
    """Write and read two records of each size in `SIZES`, and return the sizes that were read."""
    sizes = []
    async with Admin(**given) as admin:
        await admin.create_topics(NewTopic(topic, 1, 1))
    async with Producer(acks=0, **given) as unacknowledged, Producer(max_request_size=4_000_000, **given) as producer:
        await asyncio.gather(*(producer.send(topic, bytes(size)) for size in SIZES * 2))
        async with Consumer(None, topic, auto_offset_reset="earliest", **given) as consumer:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(aiter(consumer)), 0)
            async for record in consumer:
                sizes.append(len(record.value or b""))
                if len(sizes) == 2 * len(SIZES):
                    unacknowledged.send(topic, bytes(1_000_000))
                    await unacknowledged.flush()
                if len(sizes) > 2 * len(SIZES):
                    return sizes
    raise AssertionError("the iteration has ended")


@pytest.mark.parametrize(
    ("io", "security"), sampled([("loop", "by_tls"), ("loop", "plain"), ("thread", "plain"), ("thread", "by_tls")], 2)
)
@pytest.mark.parametrize("kind", LOOP_KINDS)
def test_clients_on_each_kind_of_loop(
    kind: str, io: Literal["loop", "thread"], security: str, request: pytest.FixtureRequest
) -> None:
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    if kind == "eager":
        PYTHON_3_12.require()
    given, told = request.getfixturevalue(security), []

    async def run() -> list[int]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        return await asyncio.wait_for(use(f"{kind}-{io}-{security}", {"io": io, **given}), PATIENCE_SECONDS)

    with loops_of_kind(kind):
        assert asyncio.run(run()) == [*SIZES, *SIZES, 1_000_000]
    gc.collect()
    assert told == []
