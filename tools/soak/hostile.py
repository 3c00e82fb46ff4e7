"""Hostile clients: `python -m tools.soak hostile [--seconds N] [--seed S]`.

They send mutated requests of every API and version, frames that never end, length prefixes that demand 100 MiB on each
of a hundred connections, requests whose responses are not read, and SASL, TLS and HTTP to the wrong port; and they
attack logins (`hostile_logins.py`). Meanwhile, other clients produce and fetch. The broker must keep running in bounded
memory, and serve the other clients as fast as before; no request may trigger a defect, and nobody may be let in.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import logging
import shutil
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.header_start import HEADER_START
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from tests.certificates import Certificates
from tools.fuzz_cases import VECTORS
from tools.mutation import mutate
from tools.soak.broker_process import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    BrokerProcess,
    RawClient,
    fetch_request,
    produce_request,
)
from tools.soak.hostile_logins import SILENT, TALKERS, HostileLogins, login_options, secrets_in

__all__ = ["main"]

#: Limits for the broker.
RESIDENT_BYTES_MAX = 150_000_000
P99_MS_MAX = 50.0

ANNOUNCERS = 100
ANNOUNCED_BYTES = 100 * 2**20
MUTATORS = 6
HALVES = 20
SLOW_READERS = 10
STRANGERS = 4
OTHERS = 4

#: Limits for the other clients, which send twenty requests per second.
PAUSE_SECONDS = 0.05

#: APIs that are not used: a request that creates thousands of topics is not hostile but just large, and other soaks
#: cover it.
_NOT_SENT = (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS)

_LENGTH = struct.Struct(">i")
_SAMPLE_SECONDS = 0.05

#: The first bytes sent by clients of other protocols.
_WRONG_PORT = (
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    bytes.fromhex("16030100a5010000a10303"),
    b"\x00\x00\x00\x00SSH-2.0-OpenSSH_9.6\r\n",
    b"\r\n\r\n\x00\r\nQUIT\n",
)


class Strangers:
    """All clients of the broker.

    Args:
        bootstrap: the broker.
        end: when to stop, on the event loop's clock.
        random: the source of all choices.
        announcers: the number of connections whose length prefixes announce large requests.
        logins: the clients that attack logins; None for none.
    """

    def __init__(
        self,
        bootstrap: str,
        end: float,
        random: Random,
        announcers: int = ANNOUNCERS,
        logins: HostileLogins | None = None,
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._end = end
        self._random = random
        self._announcers = announcers
        self._logins = logins
        self._requests = _requests()
        self.counts: Counter[str] = Counter()
        self.waits_ms: list[float] = []
        self.let_in: list[str] = []

    async def run(self) -> None:
        """Run the clients until the end."""
        kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (MUTATORS, self._mutated),
            (HALVES, self._half),
            (self._announcers, self._announced),
            (SLOW_READERS, self._slow_reader),
            (STRANGERS, self._wrong_port),
        ]
        if self._logins is not None:
            kinds += [(TALKERS, self._logins.talk), (SILENT, self._logins.silence)]
        tasks = [self._again_and_again(talk) for count, talk in kinds for _ in range(count)]
        await asyncio.gather(*tasks, *(self._other() for _ in range(OTHERS)))

    def _is_over(self) -> bool:
        return time.monotonic() >= self._end

    async def _again_and_again(self, talk: Callable[[], Awaitable[None]]) -> None:
        while not self._is_over():
            try:
                await asyncio.wait_for(talk(), max(self._end - time.monotonic(), 0.1))
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                self.counts["ended by the broker or by time"] += 1

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._address)

    async def _mutated(self) -> None:
        """Send damaged requests for all APIs, one at a time."""
        reader, writer = await self._connect()
        try:
            for _ in range(self._random.randint(1, 50)):
                writer.write(self._frame())
                self.counts["damaged requests"] += 1
            await writer.drain()
            await asyncio.wait_for(reader.read(65_536), self._random.uniform(0.01, 0.3))
        finally:
            writer.transport.abort()

    def _frame(self) -> bytes:
        random = self._random
        key, version, header_version, body = random.choice(self._requests)
        if random.random() < 0.1:
            key, version = random.choice(((key, random.randint(-1, 30)), (random.randint(-5, 120), version)))
        header = HEADER_START.pack(key, version, random.randint(-5, 2**31 - 1)) + b"\0\4soak"
        request = header + (b"\0" if header_version >= 2 else b"") + body
        if random.random() < 0.8:
            request = mutate(random, request, body)
        length = len(request) if random.random() < 0.97 else random.choice((-1, 0, 7, len(request) + 5, 2**31 - 1))
        return _LENGTH.pack(length) + request

    async def _half(self) -> None:
        """Begin a frame, and leave it incomplete."""
        _, writer = await self._connect()
        try:
            frame = self._frame()
            for end in range(self._random.randint(1, 8)):
                writer.write(frame[end : end + 1])
                await asyncio.sleep(self._random.uniform(0, 0.5))
            self.counts["half frames"] += 1
        finally:
            writer.transport.abort()

    async def _announced(self) -> None:
        """Send the length prefix of a large request, but only part of the request."""
        _, writer = await self._connect()
        try:
            header = HEADER_START.pack(ApiKey.PRODUCE, PRODUCE_VERSION, 1) + b"\0\4soak\0"
            writer.write(_LENGTH.pack(ANNOUNCED_BYTES) + header)
            self.counts["announced"] += 1
            for _ in range(self._random.randint(1, 200)):
                writer.write(bytes(self._random.choice((1, 1_000, 100_000))))
                await asyncio.wait_for(writer.drain(), 1)
                await asyncio.sleep(self._random.uniform(0, 0.2))
        finally:
            writer.transport.abort()

    async def _slow_reader(self) -> None:
        """Request much, and read little."""
        reader, writer = await self._connect()
        writer.transport.set_write_buffer_limits(0)
        protocol = ClientConnection("slow")
        try:
            for _ in range(200):
                writer.writelines(protocol.request(fetch_request("others", 0, 0), FETCH_VERSION).parts)
                await asyncio.wait_for(writer.drain(), 2)
                self.counts["fetches that are hardly read"] += 1
                await reader.read(100)
                await asyncio.sleep(0.05)
        finally:
            writer.transport.abort()

    async def _wrong_port(self) -> None:
        """Use another protocol, or try to log in."""
        reader, writer = await self._connect()
        try:
            if self._random.random() < 0.5:
                writer.write(self._random.choice(_WRONG_PORT) + self._random.randbytes(self._random.randint(0, 500)))
            else:
                for key, version in ((ApiKey.SASL_HANDSHAKE, 1), (ApiKey.SASL_AUTHENTICATE, 2)):
                    token = self._random.randbytes(self._random.randint(0, 2_000))
                    request = HEADER_START.pack(key, version, 1) + b"\0\4soak" + _LENGTH.pack(len(token)) + token
                    writer.write(_LENGTH.pack(len(request)) + request)
                writer.write(_LENGTH.pack(300) + self._random.randbytes(300))
            self.counts["wrong ports and logins"] += 1
            await asyncio.wait_for(reader.read(65_536), 0.2)
        finally:
            writer.transport.abort()

    async def _other(self) -> None:
        """Produce a record and fetch it, and record how long each takes."""
        reader, writer = await self._connect()
        protocol = ClientConnection("other")
        while not self._is_over():
            for request, version, kind in (
                (produce_request("others", 1, [bytes(100)], now_ms()), PRODUCE_VERSION, ProduceResponse),
                (fetch_request("others", 1, 0, 1_000), FETCH_VERSION, FetchResponse),
            ):
                begun = time.perf_counter()
                writer.writelines(protocol.request(request, version).parts)
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                response = protocol.receive(await reader.readexactly(length)).message
                self.waits_ms.append((time.perf_counter() - begun) * 1000)
                assert isinstance(response, kind)
                await asyncio.sleep(PAUSE_SECONDS)
        writer.close()


def _requests() -> list[tuple[int, int, int, bytes]]:
    """Return the key, version, header version and body of every golden request."""
    found = []
    with gzip.open(VECTORS / "requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        for vector in map(json.loads, lines):
            key = vector.get("api_key")
            if vector.get("type") == "request" and key in APIS and key not in _NOT_SENT and "hex" in vector:
                found.append((key, vector["version"], vector["header_version"], bytes.fromhex(vector["hex"])))
    return found


async def _watch(broker: BrokerProcess, sizes: list[int]) -> None:
    while broker.is_running:
        sizes.append(broker.resident_bytes)
        await asyncio.sleep(_SAMPLE_SECONDS)


async def _run(broker: BrokerProcess, seconds: float, random: Random) -> tuple[Strangers, list[int]]:
    logins = HostileLogins(broker.addresses, random) if len(broker.addresses) > 1 else None
    strangers = Strangers(broker.bootstrap, time.monotonic() + seconds, random, logins=logins)
    sizes: list[int] = []
    watching = asyncio.create_task(_watch(broker, sizes))
    try:
        await strangers.run()
    finally:
        watching.cancel()
    if logins is not None:
        strangers.counts.update(logins.counts)
        strangers.let_in = logins.let_in
    return strangers, sizes


def main(arguments: list[str]) -> int:
    """Send the requests, print the results, and return the exit status, which is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak hostile")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="not supported, since this soak starts its own broker")
    given = parser.parse_args(arguments)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="kafkawire-hostile-"))
    try:
        (folder / "certificates").mkdir()
        options = login_options(Certificates(folder / "certificates"))
        with BrokerProcess(folder / "data", log=folder / "log", **options) as broker:
            return _judged(broker, given, folder / "log")
    finally:
        shutil.rmtree(folder)


def _judged(broker: BrokerProcess, given: argparse.Namespace, log: Path) -> int:
    with RawClient(broker.bootstrap) as client:
        client.create({"others": 2})
        for _ in range(20):
            client.ask(produce_request("others", 0, [bytes(900_000)], now_ms()), PRODUCE_VERSION, ProduceResponse)
    idle = broker.resident_bytes
    strangers, sizes = asyncio.run(_run(broker, given.seconds, Random(given.seed)))
    waits = sorted(strangers.waits_ms)
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    defects = log.read_text().count("Traceback")
    for what, count in sorted(strangers.counts.items()):
        print(f"hostile: {count:,} {what}")
    print(f"hostile: {len(waits):,} requests of others: median {p50:.1f} ms, p99 {p99:.1f}, longest {waits[-1]:.0f}")
    after = broker.resident_bytes
    print(f"hostile: resident {idle / 1e6:.0f} MB idle, {max(sizes) / 1e6:.0f} at most, {after / 1e6:.0f} after")
    print(f"hostile: {defects} tracebacks in {len(log.read_bytes()):,} bytes of log")
    shown = secrets_in(log)
    print(f"hostile: {len(strangers.let_in)} let in {strangers.let_in[:5]}, {len(shown)} passwords in the log")
    if defects:
        print(log.read_text()[-3_000:])
    is_good = broker.is_running and max(sizes) <= RESIDENT_BYTES_MAX and p99 <= P99_MS_MAX and not defects
    is_good = is_good and not strangers.let_in and not shown
    return 0 if is_good and broker.stop() == 0 else 1
