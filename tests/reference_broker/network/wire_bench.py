"""A client's connection on a socket pair with small buffers, and a stand-in for the session."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from kafkawire.reference_broker.network.client_wire import ClientWire, Shared
from kafkawire.reference_broker.network.memory_budget import MemoryBudget
from kafkawire.reference_broker.network.request_frames import shared_buffer
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.storage.disk.disk import Disk, File
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["FRAME_BYTES_MAX", "LIMIT_BYTES", "Bench", "file_of", "file_on", "on_a_loop"]

TIMEOUT_SECONDS = 20
FRAME_BYTES_MAX = 4 * 2**20
LIMIT_BYTES = 1_000_000


class Played:
    """A session that records the calls made by its wire."""

    def __init__(self) -> None:
        self.frames: list[Buffer] = []
        self.blocked: list[bool] = []
        self.reasons: list[str] = []
        self.held_bytes = 0
        self.is_waiting = False
        self.is_unanswered = False
        self.is_lost = False
        self.has_dropped = False
        self.close: Callable[[], None] = lambda: None
        self.on_pause: Callable[[bool], None] = lambda pause: None
        self.on_answer: Callable[[], None] = lambda: None

    def frame_bytes_max(self, key: int) -> int:
        return FRAME_BYTES_MAX

    def receive_frames(self, frames: list[Buffer]) -> None:
        self.frames += frames

    def writing_blocked(self, is_blocked: bool) -> None:
        self.blocked.append(is_blocked)

    def break_off(self, reason: str, *, is_own_fault: bool = False) -> None:
        self.reasons.append(reason)
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True


class Bench:
    """A wire, and the client at its other end.

    Args:
        shared: a memory budget shared with other connections; None for a separate one.
        ends: the two sockets; None for a local socket pair.
    """

    def __init__(self, shared: Shared | None = None, ends: tuple[socket.socket, socket.socket] | None = None) -> None:
        self.timers = Timers()
        self.budget = MemoryBudget(LIMIT_BYTES, self.timers, int) if shared is None else shared.budget
        self.shared = shared or Shared(shared_buffer(), self.budget, FRAME_BYTES_MAX)
        self.near, self.far = ends or socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        self.session = Played()
        self.gone: list[ClientWire] = []

    async def connect(self) -> ClientWire:
        self.wire = ClientWire(self.near, lambda wire: cast("Session", self.session), self.shared, self.gone.append)
        self.session.close = self.wire.close
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.wire, self.near)
        return self.wire

    async def read(self, size_bytes: int) -> bytes:
        data = b""
        loop = asyncio.get_running_loop()
        while len(data) < size_bytes and (more := await loop.sock_recv(self.far, size_bytes - len(data))):
            data += more
        return data

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.far, data)

    async def until(self, is_so: Callable[[], object]) -> None:
        while not is_so():
            await asyncio.sleep(0)

    def end(self) -> None:
        self.wire.abort()
        self.far.close()


def on_a_loop(test: Coroutine[Any, Any, None]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test, TIMEOUT_SECONDS)
        await asyncio.sleep(0)  # closing a connection takes one iteration of the loop

    asyncio.run(run())


def file_of(folder: Path, data: bytes) -> File:
    return file_on(MachineDisk(folder), data)


def file_on(disk: Disk, data: bytes) -> File:
    file = disk.open("file", create=True)
    file.append(data)
    return file
