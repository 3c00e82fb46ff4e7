"""Load for a broker, at almost no cost to the client.

The client sends prepared frames, and counts responses without reading them. All responses to a frame have the same
size, so the number of bytes gives the number of responses; the kernel discards the bytes (MSG_TRUNC). Before and after
the load, one request is sent and its response is read as usual, to verify the effect.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CONSUMER_REPLICA_ID, FINAL_FETCH_SESSION_EPOCH, Acks, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.transport.blocking import FrameSocket

__all__ = ["Load", "batch_of", "fetches", "in_turns", "list_offsets", "metadata", "produce"]

#: Versions that Apache Kafka 4.3 and kfake support; they are the last ones that use topic names.
_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA = 9, 12, 7, 12

_TIMEOUT_SECONDS = 60
_DISCARDED_BYTES = 4 * 1024 * 1024

Frame = bytes


def _framed(message: Message, version: int) -> Frame:
    return b"".join(ClientConnection("benchmark").request(message, version).parts)


def batch_of(value_bytes: int, batch_bytes: int) -> tuple[bytes, int]:
    """Return a batch of random values, and the number of values."""
    builder, count = BatchBuilder(batch_bytes), 0
    while builder.append(time.time_ns() // 1_000_000, None, os.urandom(value_bytes)) is not None:
        count += 1
    return bytes(builder.seal()), count


def produce(topic: str, batch: bytes) -> Frame:
    """Return a request that appends a batch to partition 0, to be acknowledged by all replicas."""
    data = ProduceRequest.TopicProduceData(topic, partition_data=[ProduceRequest.PartitionProduceData(0, batch)])
    return _framed(ProduceRequest(None, Acks.ALL, 30_000, [data]), _PRODUCE)


def list_offsets(topic: str) -> Frame:
    """Return a request for the end of partition 0."""
    return _framed(_end(topic), _LIST_OFFSETS)


def _end(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=OffsetTimestamp.LATEST)
    return ListOffsetsRequest(CONSUMER_REPLICA_ID, topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])])


def metadata(topic: str) -> Frame:
    """Return a request for the metadata of a topic."""
    return _framed(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=topic)]), _METADATA)


def _fetch(topic: str, offset: int, max_bytes: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=FINAL_FETCH_SESSION_EPOCH,
        topics=[FetchRequest.FetchTopic(topic, partitions=[partition])],
    )


def fetches(topic: str, records_count: int, batch_bytes: int, batches: int, at_once: int) -> list[Frame]:
    """Return the requests that read a topic with equal batches from its beginning.

    Args:
        topic: the topic name.
        records_count: the number of records per batch.
        batch_bytes: the size of a batch.
        batches: the number of batches.
        at_once: the number of batches to read with one request.
    """
    return [
        _framed(_fetch(topic, start * records_count, at_once * batch_bytes), _FETCH)
        for start in range(0, batches - at_once + 1, at_once)
    ]


class Load:
    """A connection to a broker.

    Args:
        port: the port on the loopback interface.
    """

    def __init__(self, port: int) -> None:
        self._asking = FrameSocket("127.0.0.1", port, _TIMEOUT_SECONDS)
        self._socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._discarded = bytearray(_DISCARDED_BYTES)

    def close(self) -> None:
        """Close the connection."""
        self._asking.close()
        self._socket.close()

    def size_of_response(self, frame: Frame) -> int:
        """Send a request, and return the size of the response, including its length prefix."""
        self._asking.send(frame)
        return 4 + len(self._asking.receive())

    def call(self, message: Message, version: int) -> Message:
        """Send a request and return the response."""
        connection = ClientConnection("benchmark")
        self._asking.send(*connection.request(message, version).parts)
        return connection.receive(self._asking.receive()).message

    def is_led(self, topic: str) -> bool:
        """Return whether the broker leads partition 0 of a topic."""
        response = self.call(_end(topic), _LIST_OFFSETS)
        assert isinstance(response, ListOffsetsResponse)
        return response.topics[0].partitions[0].error_code == ErrorCode.NONE

    def base_offset(self, topic: str, batch: bytes) -> int:
        """Append a batch; return its offset.

        Raises:
            RuntimeError: the batch was refused.
        """
        data = ProduceRequest.TopicProduceData(topic, partition_data=[ProduceRequest.PartitionProduceData(0, batch)])
        response = self.call(ProduceRequest(None, Acks.ALL, 30_000, [data]), _PRODUCE)
        assert isinstance(response, ProduceResponse)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code:
            raise RuntimeError(f"{topic}: the batch was refused with {answer.error_code}")
        return answer.base_offset

    def fetched_bytes(self, topic: str, offset: int, max_bytes: int) -> int:
        """Return the number of bytes that a fetch returns."""
        response = self.call(_fetch(topic, offset, max_bytes), _FETCH)
        assert isinstance(response, FetchResponse)
        return len(response.responses[0].partitions[0].records or b"")

    def run(self, frames: Sequence[Frame], response_bytes: int, depth: int) -> float:
        """Send requests, of which at most `depth` are unanswered at any time; return how many seconds that took.

        Args:
            frames: requests whose responses all have the same size.
            response_bytes: the size of each response, including its length prefix.
            depth: the maximum number of unanswered requests.
        """
        data, size = memoryview(b"".join(frames)), len(frames[0])
        return self._run(lambda first, end: data[first * size : end * size], len(frames), response_bytes, depth)

    def repeat(self, frame: Frame, count: int, response_bytes: int, depth: int) -> float:
        """Send one request `count` times; see `run`."""
        data, size = memoryview(frame * depth), len(frame)
        return self._run(lambda first, end: data[: (end - first) * size], count, response_bytes, depth)

    def _run(self, frames: Callable[[int, int], memoryview], count: int, response_bytes: int, depth: int) -> float:
        start, sent, received = time.perf_counter(), 0, 0
        while received < count * response_bytes:
            until = min(received // response_bytes + depth, count)
            if until > sent:
                self._socket.sendall(frames(sent, until))
                sent = until
            received += self._discard(sent * response_bytes - received)
        return time.perf_counter() - start

    def _discard(self, most: int) -> int:
        count = self._socket.recv_into(self._discarded, min(most, _DISCARDED_BYTES), socket.MSG_TRUNC)
        if not count:
            raise RuntimeError("the broker has closed the connection")
        return count

    def paced(self, frame: Frame, response_bytes: int, rate: float, seconds: float) -> list[float]:
        """Send a request `rate` times per second; for each, return the time from its due time to its response.

        Args:
            frame: the request.
            response_bytes: the size of the response, including its length prefix.
            rate: the number of requests per second.
            seconds: the duration.
        """
        times: list[float] = []
        count, sent, received, pending = int(rate * seconds), 0, 0, memoryview(b"")
        start = time.perf_counter()
        while len(times) < count:
            due = start + sent / rate
            if not pending and sent < count and time.perf_counter() >= due:
                pending = memoryview(frame)
                sent += 1
                due = start + sent / rate
            if pending:
                pending = pending[self._send_some(pending) :]
            # If a client that is late did nothing but send, it would eventually wait for a broker that waits for the
            # client to read.
            limit = max(due - time.perf_counter(), 0) if sent < count and not pending else _TIMEOUT_SECONDS
            readable, _, _ = select.select([self._socket], [self._socket] if pending else [], [], limit)
            if readable:
                received += self._discard(_DISCARDED_BYTES)
                now = time.perf_counter()
                while len(times) < received // response_bytes:
                    times.append(now - start - len(times) / rate)
        return times

    def _send_some(self, data: memoryview) -> int:
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0


def in_turns(port: int, connections: int, frame: Frame, response_bytes: int, seconds: float) -> int:
    """Send a request on several connections, and again after each response; return the number of responses.

    Args:
        port: the port of the broker.
        connections: the number of connections.
        frame: the request.
        response_bytes: the size of the response, including its length prefix.
        seconds: the duration.
    """
    answered = 0
    received: dict[socket.socket, int] = {}
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            client = socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(client, selectors.EVENT_READ)
            received[client] = 0
            client.sendall(frame)
        deadline = time.monotonic() + seconds
        pending = set(received)
        while pending:
            for key, _ in selector.select(_TIMEOUT_SECONDS):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                received[client] += len(client.recv(response_bytes))
                if received[client] < response_bytes:
                    continue
                received[client] = 0
                answered += 1
                if time.monotonic() < deadline:
                    client.sendall(frame)
                else:
                    pending.discard(client)
    for client in received:
        client.close()
    return answered
