"""Buffers and files leave through a socket without TLS; what the socket does not accept goes through the transport.

Method: use a socket pair with small buffers, and a transport that records; `test_client_wire.py` adds the connection.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from kafkawire.reference_broker.network.outlets import PIECE_BYTES, PlainOutlet
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.schema import Buffer
from tests.reference_broker.network.wire_bench import file_of, file_on


class Transport:
    """Records what it is given."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: Buffer) -> None:
        self.data += data

    def writelines(self, parts: list[Buffer]) -> None:
        self.data += b"".join(parts)

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0


class Ends:
    """An outlet, and the other end of its socket."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        self.transport = Transport()
        self.outlet = PlainOutlet(self.near, self.transport)  # type: ignore[arg-type]  # the played part is enough

    def received(self, size_bytes: int) -> bytes:
        """Return what has been sent, and what the transport would send."""
        data = b""
        while len(data) < size_bytes - len(self.transport.data):
            data += self.far.recv(1 << 20)
        return data + self.transport.data


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.near.close()
    found.far.close()


@pytest.mark.parametrize("sizes", [(5,), (3, 4, 5), (70_000, 5, 70_000), (1,) * 500])
def test_buffers(ends: Ends, sizes: tuple[int, ...]) -> None:
    parts = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    assert ends.outlet.send(cast("list[Buffer]", parts)) == ()
    assert ends.received(sum(sizes)) == b"".join(parts)
    assert ends.outlet.held_bytes == 0


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_files(ends: Ends, tmp_path: Path, is_in_memory: bool) -> None:
    data = bytes(range(256)) * 4_000
    file = file_on(MemoryDisk(), data) if is_in_memory else file_of(tmp_path, data)
    end = ends.outlet.send_file(FileSlice(file, 1_000, 900_000))
    assert 1_000 < end < 901_000
    assert len(ends.transport.data) == PIECE_BYTES
    assert ends.received(end - 1_000) == data[1_000:end]


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_short_files(ends: Ends, tmp_path: Path, is_in_memory: bool) -> None:
    file = file_on(MemoryDisk(), bytes(1_000)) if is_in_memory else file_of(tmp_path, bytes(1_000))
    assert ends.outlet.send_file(FileSlice(file, 900, 500)) == 1_000
    assert ends.outlet.send_file(FileSlice(file, 1_000, 400)) == 1_000, "nothing is sent"


def test_end(ends: Ends) -> None:
    ends.outlet.end()
    assert ends.far.recv(1) == b""


def test_lost_connection(ends: Ends) -> None:
    ends.far.close()
    with pytest.raises(ConnectionError):
        ends.outlet.send([b"x"])
