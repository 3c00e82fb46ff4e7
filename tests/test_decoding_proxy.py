"""The decoding proxy of examples/ passes every byte unchanged, names the frames it cannot decode, and stops on request.

Method: run the proxy in a separate process, first between kafka-python and the reference broker, then between sockets
of the test, which send frames in pieces, close one side first, reset, and send bytes of other protocols.
"""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafkawire.protocol import ClientConnection, ServerConnection, frame
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.apis import APIS
from kafkawire.testing import Broker
from tests.conversation import assert_decoded, pairs
from tests.kafka.programs import PROGRAMS
from tests.ports import free_port
from tests.proxy import DecodingProxy
from tools.processes import status_kb

LINES_MAX = 63

TIMEOUT_SECONDS = 30


class Peers:
    """A socket at each end of a connection through the proxy."""

    def __init__(self, listener: socket.socket, proxy: DecodingProxy) -> None:
        self.client = socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT_SECONDS)
        self.broker, _ = listener.accept()
        self.broker.settimeout(TIMEOUT_SECONDS)

    def pass_on(self, data: bytes, *, back: bool = False) -> None:
        """Send bytes from one end, and check that they arrive at the other unchanged."""
        sender, receiver = (self.broker, self.client) if back else (self.client, self.broker)
        sender.sendall(data)
        assert receive(receiver, len(data)) == data

    def close(self) -> None:
        self.client.close()
        self.broker.close()


def receive(source: socket.socket, size_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < size_bytes and (part := source.recv(65536)):
        parts += part
    return bytes(parts)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_SECONDS)
        yield server


@pytest.fixture
def proxy(listener: socket.socket) -> Iterator[DecodingProxy]:
    with DecodingProxy(f"127.0.0.1:{listener.getsockname()[1]}") as running:
        yield running


@pytest.fixture
def peers(listener: socket.socket, proxy: DecodingProxy) -> Iterator[Peers]:
    pair = Peers(listener, proxy)
    yield pair
    pair.close()


def test_it_is_short() -> None:
    program = Path(__file__).parents[1] / "examples" / "decoding_proxy.py"
    assert len(program.read_text("utf-8").splitlines()) <= LINES_MAX


@pytest.mark.parametrize("arguments", [[], ["localhost:1"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    program = Path(__file__).parents[1] / "examples" / "decoding_proxy.py"
    found = subprocess.run([sys.executable, str(program), *arguments], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "usage: decoding_proxy.py LISTEN BROKER\n"


def test_between_kafka_python_and_the_reference_broker() -> None:
    """The address in Metadata is the proxy's, so every connection goes through it."""
    (program,) = (each for each in PROGRAMS if each.name == "kafka-python")
    port = free_port()
    with DecodingProxy(f"127.0.0.1:{port}") as proxy:
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        advertised = {"advertised_listeners": f"PLAINTEXT://{proxy.address}"}
        with Broker(ephemeral=True, **listeners, **advertised):  # type: ignore[arg-type]  # keywords of one dict
            stored = program.run(proxy.address, "produce", "passing", "none", "default")
            reader = program.start(proxy.address, "group", "passing", "classic", "200")
            read = program.seen(reader)
    places = sorted(tuple(place) for place in stored["places"])
    assert sorted((record[0], record[1]) for record in read["records"]) == places
    assert_decoded(proxy.lines[1:])
    assert {"ApiVersions", "Metadata", "Produce", "Fetch", "OffsetCommit"} <= pairs(proxy.lines)
    assert any(re.search(r" > <JoinGroup request, .*group_id='passing'", line) for line in proxy.lines)


def test_pieces_of_frames(peers: Peers, proxy: DecodingProxy) -> None:
    client, server = ClientConnection("c"), ServerConnection({key: api.versions for key, api in APIS.items()})
    sent = b"".join(client.request(ApiVersionsRequest("me", "1"), 4).parts)
    for byte in sent:
        peers.pass_on(bytes([byte]))
    peers.pass_on(b"".join(client.request(ProduceRequest(acks=0), 9, expect_response=False).parts))
    heartbeat = b"".join(client.request(HeartbeatRequest("g"), 4).parts)
    first, second = server.receive(sent[4:]), server.receive(heartbeat[4:])
    peers.pass_on(heartbeat)
    answers = server.respond(first, ApiVersionsResponse()) + server.respond(second, HeartbeatResponse(7))
    stream = b"".join(answers)
    for start in range(0, len(stream), 3):
        peers.pass_on(stream[start : start + 3], back=True)
    proxy.wait_for(lambda line: "HeartbeatResponse(throttle_time_ms=7)" in line)
    assert [line.split(",")[0] for line in proxy.lines[1:]] == [
        "1 > <ApiVersions request",
        "1 > <Produce request",
        "1 > <Heartbeat request",
        "1 < <ApiVersions response",
        "1 < <Heartbeat response",
    ]


def test_what_cannot_be_decoded_passes(peers: Peers, proxy: DecodingProxy) -> None:
    peers.pass_on(frame(b"\x7f\0\0\1\0\0\0\5body"))
    peers.pass_on(frame(b"\0\0\0\5answer"), back=True)
    proxy.wait_for(lambda line: "< <API key 32512 response" in line)
    assert "no API has the key 32512" in proxy.lines[1]
    peers.pass_on(b"\x16\3\1\2\0hello")  # TLS begins like this
    proxy.wait_for(lambda line: "not decoded from here on" in line)
    peers.pass_on(bytes(range(256)) * 1000)
    peers.pass_on(bytes(range(256)) * 1000, back=True)


def test_a_frame_before_what_cannot_be_decoded(peers: Peers, proxy: DecodingProxy) -> None:
    request = b"".join(ClientConnection("c").request(HeartbeatRequest("g"), 4).parts)
    peers.pass_on(request + b"\x7f\xff\xff\xff")
    proxy.wait_for(lambda line: "not decoded from here on: the length prefix says 2147483647 bytes" in line)
    peers.pass_on(request)
    peers.pass_on(b"answer", back=True)
    proxy.wait_for(lambda line: line.startswith("1 <"))
    assert [line.split(",")[0].split(":")[0] for line in proxy.lines[1:]] == [
        "1 > <Heartbeat request",
        "1 > <not decoded from here on",
        "1 < <not decoded from here on",
    ]


def test_one_side_ends_first(peers: Peers) -> None:
    """The client sends its last requests, shuts down its side of the connection, and waits for the responses."""
    peers.client.sendall(b"last")
    peers.client.shutdown(socket.SHUT_WR)
    assert receive(peers.broker, 5) == b"last"
    peers.pass_on(b"answer", back=True)
    peers.broker.close()
    assert peers.client.recv(1) == b""


def test_a_client_that_resets(listener: socket.socket, proxy: DecodingProxy) -> None:
    peers = Peers(listener, proxy)
    peers.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peers.client.close()
    assert peers.broker.recv(1) == b""
    peers.broker.close()
    again = Peers(listener, proxy)
    again.pass_on(b"still here")
    again.close()


def test_a_broker_that_is_not_there() -> None:
    with (
        DecodingProxy(f"127.0.0.1:{free_port()}") as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT_SECONDS) as client,
    ):
        assert client.recv(1) == b""
        assert "Connect" in proxy.wait_for(lambda line: line.startswith("1 <"))


def test_many_connections(listener: socket.socket, proxy: DecodingProxy) -> None:
    many = [Peers(listener, proxy) for _ in range(100)]
    for number, peers in enumerate(many):
        peers.pass_on(b"%d" % number)
    for number, peers in enumerate(many):
        peers.pass_on(b"%d" % number, back=True)
        peers.close()


def test_memory_is_bounded(peers: Peers, proxy: DecodingProxy) -> None:
    """256 MB go through one connection; the proxy never holds more than one frame per direction and some buffers."""
    large = b"".join(ClientConnection().request(ProduceRequest("t" * 30_000), 9).parts) * 8_000
    peers.pass_on(b"")
    counted = threading.Thread(target=peers.client.sendall, args=(large,))
    before = status_kb(proxy.process.pid, "VmHWM")
    counted.start()
    left = len(large)
    while left:
        left -= len(peers.broker.recv(min(left, 1 << 20)))
    counted.join()
    assert status_kb(proxy.process.pid, "VmHWM") - before < 32 * 1024


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_with_connections_open(listener: socket.socket, number: signal.Signals) -> None:
    with DecodingProxy(f"127.0.0.1:{listener.getsockname()[1]}") as proxy:
        peers = Peers(listener, proxy)
        peers.pass_on(b"open")
        assert (proxy.stop(number), proxy.errors) == (0, "")
        assert (peers.client.recv(1), peers.broker.recv(1)) == (b"", b"")
        peers.close()


def test_it_stops_with_bytes_that_nobody_reads(peers: Peers, proxy: DecodingProxy) -> None:
    peers.client.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            peers.client.send(frame(bytes(100_000)))
    proxy.wait_for(lambda line: line.startswith("1 >"))
    assert (proxy.stop(), proxy.errors) == (0, "")
