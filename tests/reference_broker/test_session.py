"""A session answers in order, one request at a time, pauses reading when requests queue up, and closes on errors.

Method: a wire that records what is written, and a queue of deferred calls that the test runs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.log.file import FileSlice
from kafkawire.reference_broker.session import SENDFILE_BYTES_MIN, Session
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.schema import Buffer
from tests.reference_broker.log.produced_batches import produced, values_in

LENGTH_BYTES = 4


class Wire:
    """Notes what is written."""

    def __init__(self) -> None:
        self.parts: list[Buffer | FileSlice] = []
        self.is_open = True

    def write(self, parts) -> None:
        self.parts += parts

    is_congested = has_unsent = False

    async def drain(self) -> None:
        pass

    sent = drain

    def close(self) -> None:
        self.is_open = False

    abort = close


class Client:
    """A client and the session on the other side."""

    def __init__(self, bench, **options) -> None:
        self.bench = bench
        self.wire = Wire()
        self.deferred: list[Callable[[], None]] = []
        self.paused: list[bool] = []
        self.session = Session(bench.core, self.wire, lambda: bench.now_ms, self.deferred.append, **options)
        self.session.on_pause = self.paused.append
        self.protocol = ClientConnection()

    def send(self, message, version) -> None:
        self.session.receive_frame(b"".join(self.protocol.request(message, version).parts)[LENGTH_BYTES:])

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    def answers(self):
        data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in self.wire.parts)
        self.wire.parts = []
        received = []
        while data:
            end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            received.append(self.protocol.receive(data[LENGTH_BYTES:end]).message)
            data = data[end:]
        return received


@pytest.fixture
def client(bench):
    bench.create()
    return Client(bench)


def fetch(wait=500, offset=0):
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    return FetchRequest(max_wait_ms=wait, min_bytes=1, topics=[FetchRequest.FetchTopic("t", partitions=[partition])])


def test_requests_are_answered_in_order(client):
    client.send(MetadataRequest(None), 12)
    client.send(fetch(wait=0), 12)
    assert [type(answer).__name__ for answer in client.answers()] == ["MetadataResponse", "FetchResponse"]
    assert client.session.is_idle


def test_request_behind_a_waiting_one_waits_and_reading_stops(client):
    client.send(fetch(), 12)
    assert not client.paused, "a gone client has to be noticed while it waits"
    client.send(MetadataRequest(None), 12)
    assert client.paused == [True]
    assert not client.answers()
    client.bench.produce(produced(b"x"))
    assert not client.answers(), "not from inside the request of the producer"
    client.run_deferred()
    assert [type(answer).__name__ for answer in client.answers()] == ["FetchResponse", "MetadataResponse"]
    assert client.paused == [True, False]


def test_client_that_does_not_read_is_not_read_from(client):
    client.session.writing_blocked(True)
    client.send(MetadataRequest(None), 12)
    assert client.paused == [True]
    assert not client.answers()
    client.session.writing_blocked(False)
    client.run_deferred()
    assert len(client.answers()) == 1
    assert client.paused == [True, False]


def test_gone_client_is_forgotten(client):
    client.send(fetch(), 12)
    client.session.connection_lost(None)
    client.bench.advance(1000)
    client.run_deferred()
    assert not client.answers()
    assert client.session.is_idle


@pytest.mark.parametrize("frame", [b"", b"\x00" * 5, b"\x7f\x00" * 6, b"\x00\x03\x00\x0c\x00\x00\x00\x00\xff\xff\x00"])
def test_nonsense_closes_the_connection(client, frame):
    client.session.receive_frame(frame)
    assert not client.wire.is_open


def test_failing_handler_closes_the_connection(client, monkeypatch, caplog):
    def fail(*arguments):
        raise RuntimeError("a defect")

    monkeypatch.setattr(client.bench.core, "handle", fail)
    client.send(MetadataRequest(None), 12)
    assert not client.wire.is_open
    assert "a defect" in caplog.text


@pytest.mark.parametrize(
    ("sends_files", "size", "is_slice"),
    [(True, SENDFILE_BYTES_MIN, True), (True, 100, False), (False, SENDFILE_BYTES_MIN, False)],
)
def test_large_regions_of_files_stay_files(bench, sends_files, size, is_slice):
    bench.create()
    bench.produce(produced(b"x" * size))
    client = Client(bench, sends_files=sends_files)
    client.send(fetch(), 12)
    assert any(isinstance(part, FileSlice) for part in client.wire.parts) is is_slice
    (answer,) = client.answers()
    (value,) = values_in(answer.responses[0].partitions[0].records)
    assert len(value) == size
