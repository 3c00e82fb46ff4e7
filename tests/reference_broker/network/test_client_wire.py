"""A client's connection sends in order, however little the socket accepts, and counts the bytes that it holds.

Method: use a socket pair with small buffers and a stand-in for the session, on the test's own event loop.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

import pytest

from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.frames import frame
from tests.reference_broker.network.wire_bench import FRAME_BYTES_MAX, Bench, file_of, file_on, on_a_loop

#: The TCP state of a connection that the client has closed.
TCP_CLOSE_WAIT = 8


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
        assert wire.progress == (0, len(expected)), "a client that reads is not idle"
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
        assert "could not read records" in bench.session.reasons[0]
        bench.end()

    on_a_loop(test())


def test_socket_that_fails_ends_the_connection():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        bench.far.close()
        wire.write([b"head"])
        assert not wire.is_open
        await bench.until(lambda: bench.gone)
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
    """asyncio fails if a transport is closed in the callback for the event that everything has been sent."""
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
        assert not wire.is_open
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
        assert not bench.session.frames, "incoming data is dropped"

    on_a_loop(test())


def test_client_that_reads_nothing_is_closed_after_a_while(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.network.client_wire.CLOSE_LINGER_SECONDS", 0.01)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([bytes(1_000_000)])
        assert wire.may_be_idle
        bench.session.is_waiting = True
        assert wire.may_be_idle, "it is the client's turn to read"
        wire.close()
        await bench.until(lambda: bench.gone)
        assert not bench.budget.unsent_bytes
        bench.end()

    on_a_loop(test())


def test_memory_and_place_are_given_back_even_if_the_session_fails_to_end(monkeypatch):
    def fail(error):
        raise RuntimeError("a defect")

    errors: list[Any] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
        bench = Bench()
        monkeypatch.setattr(bench.session, "connection_lost", fail)
        wire = await bench.connect()
        bench.session.held_bytes = 100
        await bench.send(frame(b"a"))
        await bench.until(lambda: bench.budget.received_bytes)
        wire.write([bytes(1_000_000)])
        assert bench.budget.unsent_bytes
        wire.abort()
        await bench.until(lambda: bench.gone)
        assert (bench.budget.received_bytes, bench.budget.unsent_bytes) == (0, 0)
        bench.end()

    on_a_loop(test())
    assert [str(error) for error in errors] == ["a defect"]


def test_file_that_is_shorter_than_believed_ends_the_connection(tmp_path):
    file = file_of(tmp_path, b"x" * 1_000)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([b"head", FileSlice(file, 0, 1_500)])
        assert await bench.read(2_000) in (b"head" + b"x" * 1_000, b"")
        assert bench.session.reasons == ["a log file ends at byte 1000, so 500 bytes are missing"]
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
        assert "bytes are missing" in reason
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
            f"the length prefix says {FRAME_BYTES_MAX + 1} bytes, but 0 to {FRAME_BYTES_MAX} are allowed"
        ]
        bench.end()

    on_a_loop(test())


def test_connection_is_read_while_there_is_memory_and_it_is_not_closed():
    """Memory notices take effect immediately; otherwise, a connection could use any amount until the next notice."""

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        transport = wire._transport
        assert transport is not None
        wire.no_room()
        assert not transport.is_reading()
        wire.room_again()
        assert transport.is_reading()
        wire.write([bytes(1_000_000)])
        wire.close()
        assert not transport.is_reading()
        bench.end()

    on_a_loop(test())


def test_others_go_on_once_a_lost_connection_has_given_back_everything(monkeypatch):
    """A lost connection releases received bytes, unsent bytes, and its turn, which lets the next one continue."""

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        given = []
        for name in ("received", "unsent", "done"):
            monkeypatch.setattr(bench.budget, name, lambda *_, name=name: given.append((name, bench.gone.copy())))
        wire.connection_lost(None)
        assert given == [("received", [wire]), ("unsent", [wire]), ("done", [wire])]
        bench.far.close()

    on_a_loop(test())


def test_connection_that_is_given_up_sends_nothing_more():
    """Responses that its session writes at the end would use memory when none is left."""

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        bench.session.close = lambda: wire.write([b"late", bytes(1_000_000)])
        wire.give_up("too slow")
        assert bench.session.reasons == ["too slow"]
        assert not bench.budget.unsent_bytes
        assert await bench.read(4) == b""
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


def test_requests_of_a_client_that_is_gone_have_their_turn_if_it_waits_for_no_response():
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            far = socket.create_connection(server.getsockname())
            bench = Bench(ends=(server.accept()[0], far))
        wire = await bench.connect()
        bench.session.on_pause(True)
        bench.session.is_unanswered = True
        far.close()
        await bench.until(lambda: bench.near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE_WAIT)
        for _ in range(3):
            wire.look_for_end()
            await asyncio.sleep(0)
        assert not bench.gone
        bench.session.is_unanswered = False
        wire.look_for_end()
        await bench.until(lambda: bench.gone)
        bench.end()

    on_a_loop(test())


def test_connection_that_was_read_again_has_another_turn_before_its_end_is_believed():
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            far = socket.create_connection(server.getsockname())
            bench = Bench(ends=(server.accept()[0], far))
        wire = await bench.connect()
        bench.session.on_pause(True)
        far.close()
        await bench.until(lambda: bench.near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE_WAIT)
        transport = wire._transport
        assert transport is not None
        for _ in range(2):
            wire.look_for_end()
            assert not transport.is_closing()
            bench.session.on_pause(False)
            wire.look_for_end()
            bench.session.on_pause(True)
        wire.look_for_end()
        wire.look_for_end()
        assert transport.is_closing()
        await bench.until(lambda: bench.gone)
        bench.end()

    on_a_loop(test())
