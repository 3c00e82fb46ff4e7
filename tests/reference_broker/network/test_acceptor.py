"""A listener accepts clients up to the limits, and recovers from a failed accept.

Method: run a listener on a free port, on the test's own event loop, and lower this process's limit on open files.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from typing import cast

import pytest

from kafkawire.reference_broker.config.endpoints import SYSTEM_BUFFER, Listener, SocketBuffers
from kafkawire.reference_broker.network.acceptor import Acceptor
from kafkawire.reference_broker.network.client_wire import ClientWire
from kafkawire.reference_broker.network.connection_limits import ConnectionLimits
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.security.quotas.connection_rates import ConnectionRates
from kafkawire.reference_broker.security.quotas.rates import Window
from kafkawire.sdk.transport.wire import Address

LISTENER = Listener("PLAINTEXT", Address("127.0.0.1", 0), Address("kafka", 0))
BUFFERS = SocketBuffers(40_000, SYSTEM_BUFFER)
TIMEOUT_SECONDS = 20


class Wire(asyncio.Protocol):
    """A connection that registers itself with the test, and records when it is closed."""

    def __init__(self, client: socket.socket, peer: Peer, gone: Callable[[], None]) -> None:
        self.is_immediate = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        self.send_bytes = client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        self.peer = peer
        self.gone = gone

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone()


class Bench:
    """A listener and its connections."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.wires: list[Wire] = []
        self.limits = limits
        self.now_ms = 0
        self.acceptor = Acceptor(LISTENER, limits, self._connect, lambda: self.now_ms, BUFFERS)

    def _connect(self, client: socket.socket, peer: Peer, gone: Callable[[], None]) -> ClientWire:
        self.wires.append(Wire(client, peer, gone))
        return cast("ClientWire", self.wires[-1])

    def client(self) -> socket.socket:
        return socket.create_connection(self.acceptor.listener.bind, TIMEOUT_SECONDS)


def test_connections_are_taken_in_up_to_the_limit_and_again_when_others_have_gone(caplog):
    async def run() -> None:
        bench = Bench(ConnectionLimits(2, 9))
        listener = bench.acceptor.listener
        assert listener.bind.port == listener.advertised.port != 0
        assert listener.advertised.host == "kafka"
        bench.acceptor.start()
        with bench.client() as first, bench.client(), bench.client(), bench.client():
            while bench.acceptor._waiting is None:
                await asyncio.sleep(0)
            assert len(bench.wires) == 2
            assert all(wire.is_immediate for wire in bench.wires)
            # Linux doubles the value to leave room for its own bookkeeping.
            assert all(wire.send_bytes in (BUFFERS.send_bytes, 2 * BUFFERS.send_bytes) for wire in bench.wires)
            assert str(bench.wires[0].peer) == "User:ANONYMOUS at /127.0.0.1 on PLAINTEXT"
            first.close()
            while len(bench.wires) == 2 or bench.acceptor._waiting is None:
                await asyncio.sleep(0)
            assert len(bench.wires) == 3, "the fourth client has to wait now"
            await bench.acceptor.stop()
        while bench.limits._count:
            await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            bench.client()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))
    assert caplog.messages == [
        "connections to listener PLAINTEXT have to wait: 2 connections are open, and max.connections is 2"
    ]


#: The number of descriptors that are always in use: with this limit, no descriptor can become free in the meantime,
#: whatever earlier tests have left to the garbage collector.
STANDARD_STREAMS = 3


def test_too_many_open_files_are_said_once_and_clients_wait(caplog, monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.network.acceptor.PAUSE_SECONDS", 0.001)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    failures: list[OSError] = []

    async def run() -> None:
        bench = Bench(ConnectionLimits(9, 9))
        wait = bench.acceptor._cannot_accept
        monkeypatch.setattr(bench.acceptor, "_cannot_accept", lambda error: (failures.append(error), wait(error)))
        with bench.client():
            bench.acceptor.start()
            resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD_STREAMS, hard))
            try:
                while len(failures) < 5:
                    await asyncio.sleep(0)
                assert not bench.wires
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            while not bench.wires:
                await asyncio.sleep(0)
            await bench.acceptor.stop()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))
    (message,) = caplog.messages
    assert message.startswith("cannot accept connections on listener PLAINTEXT for now: all ")
    assert message.endswith(" file descriptors of this process are in use (ulimit -n)")


def test_listener_that_is_not_started_leaves_nothing():
    acceptor = Bench(ConnectionLimits(1, 1)).acceptor
    acceptor.abandon()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(acceptor.listener.bind, TIMEOUT_SECONDS)


class Rates(ConnectionRates):
    """Limits that give planned times in ms, one for each connection.

    Attributes:
        asked: the calls, with their arguments other than the time.
    """

    def __init__(self, delays_ms: list[int], refusals_ms: list[int]) -> None:
        super().__init__(Window(1, 1))
        self._delays_ms = delays_ms
        self._refusals_ms = refusals_ms
        self.asked: list[tuple[object, ...]] = []

    def delay_ms(self, listener: str, now_ms: int, *, is_protected: bool = False) -> int:
        self.asked.append(("delay", listener, is_protected))
        return self._delays_ms.pop(0)

    def refusal_ms(self, listener: str, host: str, now_ms: int, *, is_protected: bool = False) -> int:
        self.asked.append(("refusal", listener, host, is_protected))
        return self._refusals_ms.pop(0)


LONG_MS = 10_000_000


def test_a_connection_too_many_waits_and_holds_up_the_next_one() -> None:
    async def run() -> None:
        bench = Bench(ConnectionLimits(9, 9))
        rates = bench.acceptor.rates = Rates([0, 1, 0], [0, 0, 0])
        bench.acceptor.is_protected = True
        bench.acceptor.start()
        with bench.client(), bench.client(), bench.client():
            while len(bench.wires) < 3:
                await asyncio.sleep(0)
            await bench.acceptor.stop()
        delay, refusal = ("delay", "PLAINTEXT", True), ("refusal", "PLAINTEXT", "127.0.0.1", True)
        assert rates.asked == [delay, refusal] * 3
        while bench.limits._count:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))


@pytest.mark.parametrize("most", [9, 0], ids=["later", "at once"])
def test_a_connection_from_a_busy_address_is_closed(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("kafkawire.reference_broker.network.acceptor._DELAYED_MAX", most)

    async def run() -> None:
        bench = Bench(ConnectionLimits(9, 9))
        bench.acceptor.rates = Rates([0, 0], [1 if most else LONG_MS, 0])
        bench.acceptor.start()
        with bench.client() as refused, bench.client():
            refused.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(refused, 1) == b""
            while not bench.wires:
                await asyncio.sleep(0)
            assert not bench.acceptor._delayed
            await bench.acceptor.stop()
        while bench.limits._count:
            await asyncio.sleep(0)
        assert len(bench.wires) == 1

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))


def test_connections_that_wait_are_closed_when_the_listener_stops() -> None:
    async def run() -> None:
        bench = Bench(ConnectionLimits(9, 9))
        bench.acceptor.rates = Rates([0, LONG_MS], [LONG_MS])
        bench.acceptor.start()
        with bench.client() as refused, bench.client() as waiting:
            while bench.acceptor._waiting is None:
                await asyncio.sleep(0)
            assert len(bench.acceptor._delayed) == 1
            await bench.acceptor.stop()
            for client in (refused, waiting):
                client.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        assert not bench.wires

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))
