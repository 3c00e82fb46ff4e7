"""Connect a socket to a host name; all of the name's addresses are tried, and a slow one does not delay the next.

Source: RFC 8305 ("happy eyeballs"; this module implements only the racing of connections); KIP-302 (all addresses of a
name).
"""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial
from typing import Any, NamedTuple

from kafkawire.sdk.transport.tasks import new_task
from kafkawire.sdk.transport.threads import in_thread
from kafkawire.sdk.transport.wire import LABEL_CHARACTERS_MAX, Address

__all__ = ["ADDRESSES_MAX", "ATTEMPT_DELAY_MS", "Endpoint", "connect_one", "keep_alive", "look_up", "resolve"]

#: How long an attempt may take before the next address is tried concurrently, as RFC 8305 recommends.
ATTEMPT_DELAY_MS = 250

#: A connection that receives nothing for this long is probed: load balancers and firewalls forget silent connections
#: after a few minutes, and a peer that has lost power cannot close its connections.
KEEPALIVE_IDLE_SECONDS = 60

#: Interval between probes, and the number of probes that may be lost before the connection is given up after a minute
#: and a half in total.
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 3

#: A name with more addresses than this must be a mistake, and each address may cost a connection.
ADDRESSES_MAX = 32


class Endpoint(NamedTuple):
    """One address of a name, as `socket` represents it."""

    family: int
    address: tuple[str, int, *tuple[int, ...]]

    def __str__(self) -> str:
        return str(Address(*self.address[:2]))


async def resolve(address: Address) -> list[Endpoint]:
    """Return the addresses of a name, in the order in which to try them.

    Raises:
        OSError: the name is unknown or invalid.
    """
    labels = address.host.removesuffix(".").split(".")
    if "" in labels:
        raise OSError(f"{address.host!r} is not a host name")
    longest = max(map(len, labels))
    if longest > LABEL_CHARACTERS_MAX:
        raise OSError(f"a part of the name has {longest} characters, but at most {LABEL_CHARACTERS_MAX} are allowed")
    # A name is passed unchanged, as bytes; for a str, Python would import its tables of international names.
    host = address.host.encode() if address.host.isascii() else address.host
    try:
        try:
            # An IP address needs no lookup, and therefore no thread.
            found = look_up(host, address.port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            found = await in_thread(partial(look_up, host, address.port), ("name", host, address.port))
    except UnicodeError as error:
        raise OSError(f"{address.host!r} is not a host name") from error
    except OSError as error:
        raise type(error)(*error.args) from None  # calls that share the lookup raise separate errors
    endpoints = [
        Endpoint(family, (str(target[0]), address.port, *map(int, target[2:]))) for family, *_, target in found
    ]
    return list(dict.fromkeys(endpoints))[:ADDRESSES_MAX]


def look_up(host: bytes | str, port: int, flags: int = 0) -> list[tuple[int, int, int, str, tuple[Any, ...]]]:
    """Return the TCP addresses that `socket.getaddrinfo` finds, blocking.

    Raises:
        OSError: the name is unknown.
        UnicodeError: the name is invalid.
    """
    return [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)]


async def connect_one(endpoints: list[Endpoint], *, keeps_alive: bool = True) -> tuple[socket.socket, Endpoint]:
    """Return a socket connected to the first endpoint that answers.

    Args:
        endpoints: the endpoints, in the order in which to try them.
        keeps_alive: whether the kernel probes a silent connection.

    Raises:
        OSError: no endpoint answers; the message says why for each endpoint.
    """
    loop = asyncio.get_running_loop()
    waiting = list(endpoints)
    attempts: dict[asyncio.Task[socket.socket], Endpoint] = {}
    reasons: list[str] = []
    first_error: BaseException | None = None
    try:
        while waiting or attempts:
            if waiting:
                endpoint = waiting.pop(0)
                attempts[new_task(loop, _connect(endpoint, keeps_alive))] = endpoint
            pause_seconds = ATTEMPT_DELAY_MS / 1000 if waiting else None
            done, _ = await asyncio.wait(attempts, timeout=pause_seconds, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                endpoint, error = attempts.pop(attempt), attempt.exception()
                if error is None:
                    return attempt.result(), endpoint
                first_error = first_error or error
                reasons.append(_reason(error) if len(endpoints) == 1 else f"{endpoint}: {_reason(error)}")
        raise OSError("; ".join(reasons) or "there is no address to try") from first_error
    finally:
        _abandon(attempts)


async def _connect(endpoint: Endpoint, keeps_alive: bool) -> socket.socket:
    # asyncio sends small writes immediately (TCP_NODELAY) only if the protocol is named.
    made = socket.socket(endpoint.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setblocking(False)
        if keeps_alive:
            keep_alive(made)
        await asyncio.get_running_loop().sock_connect(made, endpoint.address)
    except BaseException:
        made.close()
        raise
    return made


def keep_alive(connected: socket.socket) -> None:
    """Make the kernel probe a silent connection, at its default intervals if it supports no others."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    times = {
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_SECONDS,
        "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_SECONDS,
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
    }
    for name, value in times.items():
        if (option := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _reason(error: BaseException) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return str(error) if number is None else os.strerror(number)


def _abandon(attempts: dict[asyncio.Task[socket.socket], Endpoint]) -> None:
    """Close the sockets that the losers of the race have opened or will open."""
    for attempt in attempts:
        attempt.cancel()
    for attempt in attempts:
        attempt.add_done_callback(_close)


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
