"""A client of a session: it sends requests over a wire that records the responses, and runs deferred calls."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from tests.reference_broker.requests.recording_wire import Wire

__all__ = ["Client", "fetch"]


class Client:
    """A client, and the session on the broker's side."""

    def __init__(self, bench, **options) -> None:
        self.bench = bench
        self.wire = Wire()
        self.deferred: list[Callable[[], None]] = []
        self.paused: list[bool] = []
        defer = options.pop("defer", self.deferred.append)
        self.session = Session(bench.core.requests, self.wire, bench.peer, lambda: bench.now_ms, defer, **options)
        self.session.on_pause = self.paused.append
        self.protocol = ClientConnection()

    def send(self, message, version) -> None:
        self.session.receive_frame(b"".join(self.protocol.request(message, version).parts)[LENGTH_BYTES:])

    def send_only(self, message, version) -> None:
        """Send a request that expects no response."""
        parts = self.protocol.request(message, version, expect_response=False).parts
        self.session.receive_frame(bytearray(b"".join(parts)[LENGTH_BYTES:]))

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    def written(self) -> bytes:
        """Return and remove what the session has written."""
        data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in self.wire.parts)
        self.wire.parts = []
        return data

    def answers(self):
        data = self.written()
        received = []
        while data:
            end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            received.append(self.protocol.receive(data[LENGTH_BYTES:end]).message)
            data = data[end:]
        return received


def fetch(wait=500, offset=0):
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    return FetchRequest(max_wait_ms=wait, min_bytes=1, topics=[FetchRequest.FetchTopic("t", partitions=[partition])])
