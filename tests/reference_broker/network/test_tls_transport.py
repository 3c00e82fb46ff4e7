"""Encrypted responses leave in order however little the socket accepts, and what is not read is counted.

Method: use a wire with TLS on a socket pair, and files on the machine's disk and in memory.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from kafkawire.reference_broker.network.tls_transport import TURN_BYTES
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from tests.certificates import Certificates
from tests.reference_broker.network.tls_bench import TlsBench
from tests.reference_broker.network.wire_bench import LIMIT_BYTES, file_of, file_on, on_a_loop


@pytest.fixture
def contexts(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certificates.context(certificates.broker), tls_context(PemFiles(str(certificates.authority)))


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_buffers_and_files_leave_in_order(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], tmp_path: Path, is_in_memory: bool
) -> None:
    data = bytes(range(256)) * 4_000
    file = file_on(MemoryDisk(), data) if is_in_memory else file_of(tmp_path, data)

    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        expected = b""
        for number in range(3):
            wire.write([b"head %d" % number, b"", data[:70_000], FileSlice(file, 1_000, 300_000), b"tail"])
            expected += b"head %d" % number + data[:70_000] + data[1_000:301_000] + b"tail"
        assert wire.is_congested
        assert bench.budget.unsent_bytes
        assert await bench.client.read(len(expected)) == expected
        await bench.until(lambda: not wire.has_unsent)
        assert wire.progress == (0, len(expected))
        assert bench.session.blocked[0] is True
        assert bench.session.blocked[-1] is False
        assert not bench.budget.unsent_bytes
        bench.end()

    on_a_loop(test())


def test_small_responses_are_encrypted_together(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        wire.write([b"%03d" % number for number in range(1_000)])
        assert await bench.client.read(3_000) == b"".join(b"%03d" % number for number in range(1_000))
        bench.end()

    on_a_loop(test())


def test_others_have_a_turn_during_a_long_response(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads as fast as the broker encrypts does not monopolize the event loop."""

    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        sent: list[bytes] = []
        transport = bench.connection._transport
        assert transport is not None

        class Endless:
            """A socket that accepts everything."""

            def send(self, data: bytes) -> int:
                sent.append(data)
                return len(data)

        monkeypatch.setattr(transport, "_socket", Endless())
        wire.write([bytes(5 * TURN_BYTES)])
        assert wire.is_congested
        first = sum(map(len, sent))
        assert TURN_BYTES <= first < 2 * TURN_BYTES
        await bench.until(lambda: not wire.has_unsent)
        assert sum(map(len, sent)) > 5 * TURN_BYTES
        assert bench.session.blocked.count(True) == 5, "each turn is as long as the first"
        bench.end()

    on_a_loop(test())


def test_disk_that_fails_ends_the_connection(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    file = file_on(disk := MemoryDisk(), bytes(3_000_000))

    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        disk.plan = fail_at(disk.calls + 2)
        wire.write([FileSlice(file, 0, 3_000_000)])
        with suppress(OSError):
            assert len(await bench.client.read(3_000_000)) < 3_000_000
        await bench.until(lambda: bench.gone)
        assert "could not read records" in bench.session.reasons[0]
        bench.end()

    on_a_loop(test())


def test_file_that_is_too_short_ends_the_connection(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    file = file_on(MemoryDisk(), bytes(100_000))

    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        wire.write([b"head", FileSlice(file, 50_000, 70_000)])
        await bench.until(lambda: bench.gone)
        assert bench.session.reasons == ["a log file ends at byte 100000, so 20000 bytes are missing"]
        bench.end()

    on_a_loop(test())


def test_what_is_written_is_sent_before_the_end(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        wire.write([b"a", bytes(400_000)])
        wire.close()
        assert not wire.is_open
        assert len(await bench.client.read(400_001)) == 400_001
        assert await bench.client.read(1) == b"", "the broker says that this is the end"
        await bench.until(lambda: bench.gone)
        bench.end()

    on_a_loop(test())


def test_client_that_is_sending_reads_the_rest(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        bench.session.has_dropped = True
        wire.write([b"last"])
        wire.finish()
        assert await bench.client.read(5) == b"last"
        await bench.client.send(frame(b"too late"))
        bench.far.close()
        await bench.until(lambda: bench.gone)
        assert not bench.session.frames
        bench.end()

    on_a_loop(test())


def test_client_that_resets(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def test() -> None:
        bench = TlsBench(*contexts)
        wire = await bench.open()
        bench.far.close()
        for _ in range(50):
            wire.write([bytes(100_000)])
            await asyncio.sleep(0)
        await bench.until(lambda: bench.gone)
        assert not wire.is_open
        bench.end()

    on_a_loop(test())


def test_what_is_not_read_stays_encrypted_and_is_counted(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        bench = TlsBench(*contexts)
        await bench.open()
        transport = bench.connection._transport
        assert transport is not None
        taken = bench.session.frames
        receive = bench.session.receive_frames

        def pause(frames: list[Buffer]) -> None:
            receive(frames)
            bench.session.on_pause(True)

        monkeypatch.setattr(bench.session, "receive_frames", pause)
        for _ in range(3):
            bench.client.tls.write(frame(bytes(70_000)))
        sending = asyncio.ensure_future(bench.client._flush())
        await bench.until(lambda: len(taken) == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(taken) == 1
        assert transport.held_bytes > 0
        assert bench.budget.received_bytes >= transport.held_bytes
        bench.session.on_pause(False)
        await bench.until(lambda: len(taken) == 2)
        bench.session.on_pause(False)
        await bench.until(lambda: len(taken) == 3)
        await sending
        assert transport.held_bytes == 0
        bench.session.on_pause(False)
        assert bench.budget.received_bytes < LIMIT_BYTES
        bench.end()

    on_a_loop(test())
