"""Every address of a name is tried, a slow address does not hold up the next, and no socket is left open.

Method: look up names that a replaced `getaddrinfo` knows, and connect to listening sockets and closed ports on this
machine, and with attempts that never end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.transport import sockets
from kafkawire.sdk.transport.sockets import (
    ADDRESSES_MAX,
    KEEPALIVE_IDLE_SECONDS,
    Endpoint,
    connect_one,
    keep_alive,
    resolve,
)
from kafkawire.sdk.transport.wire import Address


def endpoint(port: int) -> Endpoint:
    return Endpoint(socket.AF_INET, ("127.0.0.1", port))


def listening() -> tuple[socket.socket, int]:
    """Return a socket that accepts connections, and its port."""
    server = socket.create_server(("127.0.0.1", 0))
    return server, server.getsockname()[1]


def closed_port() -> int:
    server, port = listening()
    server.close()
    return port


#: The address to which these tests can never finish connecting.
STUCK = endpoint(1)


def with_stuck(test: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Run a test in which connecting to STUCK never ends, and return the sockets that were created."""
    made: list[socket.socket] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        connect = loop.sock_connect

        async def sock_connect(sock: socket.socket, address: Any) -> None:
            made.append(sock)
            if address == STUCK.address:
                await loop.create_future()
            await connect(sock, address)

        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        await test()

    asyncio.run(run())
    return made


def test_a_name() -> None:
    async def run() -> None:
        found = await resolve(Address("localhost", 9092))
        assert {each.address[0] for each in found} <= {"127.0.0.1", "::1"}
        assert {each.address[1] for each in found} == {9092}

    asyncio.run(run())


def test_an_address_needs_no_thread_to_look_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(sockets, "in_thread", None)
        assert await resolve(Address("127.0.0.1", 1)) == [Endpoint(socket.AF_INET, ("127.0.0.1", 1))]
        assert await resolve(Address("::1", 1)) == [Endpoint(socket.AF_INET6, ("::1", 1, 0, 0))]
        assert [str(each) for each in await resolve(Address("::1", 1))] == ["[::1]:1"]

    asyncio.run(run())


def test_addresses_are_tried_once_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        def getaddrinfo(host: bytes, port: int, *, type: int, flags: int) -> list[Any]:
            assert type == socket.SOCK_STREAM
            if flags == socket.AI_NUMERICHOST:
                raise socket.gaierror
            numbers = [1, 1, 2, *range(ADDRESSES_MAX * 2)]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{number}", port)) for number in numbers]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        found = [str(each) for each in await resolve(Address("many", 5))]
        assert found[:4] == ["10.0.0.1:5", "10.0.0.2:5", "10.0.0.0:5", "10.0.0.3:5"]
        assert len(found) == ADDRESSES_MAX

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("x" * 70, "a part of the name has 70 characters, but at most 63 are allowed"),
        ("a." + "x" * 64 + ".org", "a part of the name has 64 characters"),
        ("a..b", "is not a host name"),
        ("ä..b", "is not a host name"),
        ("\ud800", "is not a host name"),
        ("no-such-host.invalid", "."),
    ],
)
def test_no_name(host: str, text: str) -> None:
    async def run() -> None:
        with pytest.raises(OSError, match=text):
            await resolve(Address(host, 9092))

    asyncio.run(run())


def test_the_first_that_answers() -> None:
    async def run() -> None:
        server, port = listening()
        with server:
            connected, found = await connect_one([endpoint(closed_port()), endpoint(port), STUCK])
            with connected:
                assert found == endpoint(port)
                assert connected.getpeername()[1] == port
                assert connected.proto == socket.IPPROTO_TCP  # otherwise asyncio does not set TCP_NODELAY

    asyncio.run(run())


def test_none_answers() -> None:
    async def run() -> None:
        first, second = closed_port(), closed_port()
        reason = f"127.0.0.1:{first}: Connection refused; 127.0.0.1:{second}: Connection refused"
        with pytest.raises(OSError, match=reason) as caught:
            await connect_one([endpoint(first), endpoint(second)])
        cause = caught.value.__cause__
        assert isinstance(cause, ConnectionRefusedError)
        assert str(first) in str(cause)
        with pytest.raises(OSError, match=r"^Connection refused$"):
            await connect_one([endpoint(first)])

    asyncio.run(run())


def test_no_addresses() -> None:
    async def run() -> None:
        with pytest.raises(OSError, match="there is no address to try"):
            await connect_one([])

    asyncio.run(run())


def test_a_slow_address_does_not_hold_up_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "ATTEMPT_DELAY_MS", 1)
    server, port = listening()

    async def test() -> None:
        connected, found = await connect_one([STUCK, endpoint(port)])
        connected.close()
        assert found == endpoint(port)

    with server:
        made = with_stuck(test, monkeypatch)
    assert {each.fileno() for each in made} == {-1}


def test_cancelling_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "ATTEMPT_DELAY_MS", 1)

    async def test() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connect_one([STUCK, STUCK])

    made = with_stuck(test, monkeypatch)
    assert {each.fileno() for each in made} == {-1}


@pytest.mark.parametrize("keeps_alive", [True, False])
def test_silent_connections_are_probed(keeps_alive: bool) -> None:
    server, port = listening()

    async def run() -> None:
        connected, _ = await connect_one([endpoint(port)], keeps_alive=keeps_alive)
        assert bool(connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) == keeps_alive
        if keeps_alive and hasattr(socket, "TCP_KEEPIDLE"):
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_SECONDS
        connected.close()

    asyncio.run(run())
    server.close()


def test_a_system_without_times_for_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        monkeypatch.delattr(socket, name, raising=False)
    with socket.socket() as made:
        keep_alive(made)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_two_that_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One socket is returned, and the other is closed."""
    made: list[socket.socket] = []

    async def run() -> None:
        gate = asyncio.Event()

        async def connect(target: Endpoint, keeps_alive: bool) -> socket.socket:
            made.append(socket.socket())
            if len(made) == 2:
                gate.set()
            await gate.wait()
            return made[0] if target == STUCK else made[1]

        monkeypatch.setattr(sockets, "_connect", connect)
        monkeypatch.setattr(sockets, "ATTEMPT_DELAY_MS", 1)
        connected, _ = await connect_one([STUCK, endpoint(2)])
        await asyncio.sleep(0)
        assert sorted(each.fileno() == -1 for each in made) == [False, True]
        connected.close()

    asyncio.run(run())
