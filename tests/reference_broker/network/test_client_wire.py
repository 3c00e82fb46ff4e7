"""A client's connection sends in order whatever the socket takes, and counts what it holds.

Method: a pair of sockets with small buffers and a session that the test plays, on an event loop of the test.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from kafkawire.reference_broker.disk.disk import Disk, File, FileSlice
from kafkawire.reference_broker.disk.machine import MachineDisk
from kafkawire.reference_broker.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.network.client_wire import ClientWire, Shared
from kafkawire.reference_broker.network.memory_budget import MemoryBudget
from kafkawire.reference_broker.network.request_frames import RECEIVE_BUFFER_BYTES, shared_buffer
from kafkawire.reference_broker.session import Session
from kafkawire.reference_broker.timers import Timers
from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.protocol.schema import Buffer

TIMEOUT_SECONDS = 20
FRAME_BYTES_MAX = 4 * 2**20
LIMIT_BYTES = 1_000_000


class Played:
    """What a wire tells its session."""

    def __init__(self) -> None:
        self.frames: list[Buffer] = []
        self.blocked: list[bool] = []
        self.reasons: list[str] = []
        self.held_bytes = 0
        self.is_waiting = False
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

    def break_off(self, reason: str) -> None:
        self.reasons.append(reason)
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True


class Bench:
    """A wire and the client at its other end."""

    def __init__(self, shared: Shared | None = None) -> None:
        self.timers = Timers()
        self.budget = MemoryBudget(LIMIT_BYTES, self.timers, int) if shared is None else shared.budget
        self.shared = shared or Shared(shared_buffer(), self.budget, FRAME_BYTES_MAX)
        self.near, self.far = socket.socketpair()
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
        await asyncio.sleep(0)  # closed connections need a turn of the loop to be gone

    asyncio.run(run())


def file_of(folder: Path, data: bytes) -> File:
    return file_on(MachineDisk(folder), data)


def file_on(disk: Disk, data: bytes) -> File:
    file = disk.open("file", create=True)
    file.append(data)
    return file


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_buffers_and_files_leave_in_order(tmp_path, is_in_memory):
    data = bytes(range(256)) * 4_000
    file = file_on(MemoryDisk(), data) if is_in_memory else file_of(tmp_path, data)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        expected = b""
        for number in range(5):
            wire.write([b"head %d" % number, b"", data[:70_000], FileSlice(file, 1_000, 300_000), b"tail"])
            expected += b"head %d" % number + data[:70_000] + data[1_000:301_000] + b"tail"
        assert wire.is_congested
        assert bench.budget.unsent_bytes
        before = wire.progress
        assert await bench.read(len(expected)) == expected
        assert wire.progress != before
        await bench.until(lambda: not wire.has_unsent)
        assert bench.session.blocked[0] is True
        assert bench.session.blocked[-1] is False
        assert not bench.budget.unsent_bytes
        bench.end()

    on_a_loop(test())


def test_disk_that_fails_when_the_socket_is_full_ends_the_connection():
    file = file_on(disk := MemoryDisk(), bytes(3_000_000))

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([FileSlice(file, 0, 3_000_000)])
        disk.plan = fail_at(disk.calls + 1)
        with suppress(ConnectionError):
            assert len(await bench.read(3_000_000)) < 3_000_000
        await bench.until(lambda: bench.gone)
        assert "records cannot be read" in bench.session.reasons[0]
        bench.end()

    on_a_loop(test())


def test_what_is_written_is_sent_before_the_end(tmp_path):
    data = bytes(300_000)
    file = file_of(tmp_path, data)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([b"a", FileSlice(file, 0, len(data))])
        wire.close()
        assert not wire.is_open
        assert await bench.read(len(data) + 2) == b"a" + data
        await bench.until(lambda: bench.gone)
        assert bench.session.is_lost
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("has_dropped", [False, True])
def test_a_connection_ends_once(has_dropped):
    """asyncio fails if a transport is closed while it says that it has sent everything."""
    data = bytes(1_000_000)
    errors: list[Any] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        bench = Bench()
        wire = await bench.connect()
        bench.session.has_dropped = has_dropped
        wire.write([data])
        wire.finish()
        assert await bench.read(len(data) + 1) == data
        bench.far.close()
        await bench.until(lambda: bench.gone)
        bench.end()
        await asyncio.sleep(0)

    on_a_loop(test())
    assert not errors


def test_a_connection_with_nothing_unread_ends_at_once():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.finish()
        await bench.until(lambda: bench.gone)
        bench.far.close()

    on_a_loop(test())


def test_a_connection_with_something_unread_is_ended_by_the_client():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([b"last"])
        await bench.send(bytes(10))
        wire.finish()
        assert await bench.read(5) == b"last"
        assert not bench.gone
        await bench.send(bytes(100_000))
        bench.far.close()
        await bench.until(lambda: bench.gone)
        assert not bench.session.frames, "what comes is dropped"

    on_a_loop(test())


def test_client_that_reads_nothing_is_closed_after_a_while(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.network.client_wire.CLOSE_LINGER_SECONDS", 0.01)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([bytes(1_000_000)])
        assert wire.may_be_idle
        bench.session.is_waiting = True
        assert wire.may_be_idle, "to read is up to the client"
        wire.close()
        await bench.until(lambda: bench.gone)
        assert not bench.budget.unsent_bytes
        bench.end()

    on_a_loop(test())


def test_what_the_client_has_read_of_a_response_counts_as_progress():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([bytes(600_000), bytes(600_000)])
        before = wire.unsent_bytes
        assert before == bench.budget.unsent_bytes > 1_000_000
        await bench.read(500_000)
        await bench.until(lambda: wire.unsent_bytes <= before - 200_000)
        assert wire.is_congested
        bench.end()

    on_a_loop(test())


def test_file_that_is_shorter_than_believed_ends_the_connection(tmp_path):
    file = file_of(tmp_path, b"x" * 1_000)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([b"head", FileSlice(file, 0, 1_500)])
        assert await bench.read(2_000) in (b"head" + b"x" * 1_000, b"")
        assert bench.session.reasons == ["a file of records ends at 1000, 500 bytes of it are missing"]
        bench.end()

    on_a_loop(test())


def test_file_that_gets_shorter_while_it_is_sent_ends_the_connection(tmp_path):
    file = file_of(tmp_path, bytes(3_000_000))

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([FileSlice(file, 0, 3_000_000)])
        assert wire.is_congested
        file.truncate(100)
        assert len(await bench.read(3_000_000)) < 3_000_000
        (reason,) = bench.session.reasons
        assert "bytes of it are missing" in reason
        bench.end()

    on_a_loop(test())


def test_requests_that_came_together_are_given_together():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        await bench.send(frame(b"a") + frame(b"b") + frame(b"c")[:2])
        await bench.until(lambda: bench.session.frames)
        assert bench.session.frames == [b"a", b"b"]
        assert bench.budget.received_bytes == 2
        assert wire.progress == (12, 0)
        await bench.send(frame(b"c")[2:])
        await bench.until(lambda: len(bench.session.frames) == 3)
        assert bench.budget.received_bytes == 0
        bench.end()

    on_a_loop(test())


def test_requests_before_one_that_is_too_long_are_handled():
    async def test() -> None:
        bench = Bench()
        await bench.connect()
        await bench.send(frame(b"a") + (FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
        assert await bench.read(1) == b""
        assert bench.session.frames == [b"a"]
        assert bench.session.reasons == [
            f"frame of {FRAME_BYTES_MAX + 1} bytes announced, 0 to {FRAME_BYTES_MAX} allowed"
        ]
        bench.end()

    on_a_loop(test())


def test_large_requests_wait_for_memory_and_small_ones_do_not():
    size_bytes = LIMIT_BYTES - RECEIVE_BUFFER_BYTES

    async def test() -> None:
        first = Bench()
        await first.connect()
        second, third = Bench(first.shared), Bench(first.shared)
        await second.connect()
        await third.connect()
        request = frame(bytes(2 * size_bytes))
        await first.send(request[:size_bytes])
        await second.send(request[: 2 * RECEIVE_BUFFER_BYTES])
        await second.until(lambda: first.budget.is_full)
        sending = asyncio.create_task(second.send(request[2 * RECEIVE_BUFFER_BYTES :]))
        await third.send(frame(b"small"))
        await third.until(lambda: third.session.frames)
        await first.send(request[size_bytes:])
        await first.until(lambda: first.session.frames)
        assert not sending.done()
        assert not second.session.frames
        assert first.budget.received_bytes < LIMIT_BYTES, "what is handled is given back"
        await sending
        await second.until(lambda: second.session.frames)
        assert first.budget.received_bytes == 0
        for bench in (first, second, third):
            bench.end()

    on_a_loop(test())


def test_what_the_session_holds_counts_until_it_is_answered():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        bench.session.held_bytes, bench.session.is_waiting = 700, True
        await bench.send(frame(b"a"))
        await bench.until(lambda: bench.session.frames)
        assert bench.budget.received_bytes == 700
        assert not wire.may_be_idle, "the client waits for the broker"
        bench.session.held_bytes, bench.session.is_waiting = 0, False
        bench.session.on_answer()
        assert bench.budget.received_bytes == 0
        assert wire.may_be_idle
        bench.end()

    on_a_loop(test())


def test_paused_connection_is_not_read():
    async def test() -> None:
        bench = Bench()
        await bench.connect()
        bench.session.on_pause(True)
        await bench.send(frame(b"a"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not bench.session.frames
        bench.session.on_pause(False)
        await bench.until(lambda: bench.session.frames)
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("end", ["client", "budget"])
def test_gone_connection_holds_nothing(end, monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.network.client_wire.CLOSE_LINGER_SECONDS", 3_600)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        await bench.send(frame(bytes(200_000))[:150_000])
        await bench.until(lambda: bench.budget.received_bytes > 100_000)
        wire.write([bytes(100_000)])
        assert bench.budget.unsent_bytes
        if end == "client":
            bench.far.close()
        else:
            wire.give_up("too slow")
            assert bench.session.reasons == ["too slow"]
        await bench.until(lambda: bench.gone)
        assert (bench.budget.received_bytes, bench.budget.unsent_bytes) == (0, 0)
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("has_unsent", [False, True])
def test_idle_connection_ends_and_what_its_client_does_not_read_is_discarded(has_unsent):
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        if has_unsent:
            wire.write([bytes(10_000_000)])
        wire.expire()
        lingers, _ = struct.unpack("ii", wire._socket.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        assert bool(lingers) is has_unsent
        await bench.until(lambda: bench.gone)
        bench.end()

    on_a_loop(test())
