"""A reference broker in a separate process, for soaks that kill it or watch its memory, and a client for the broker.

The processes are forked from one that has already imported the broker, so starting one takes milliseconds.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from kafkawire.reference_broker.process import serve
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sdk.transport.wire import Address

__all__ = ["FETCH_VERSION", "PRODUCE_VERSION", "BrokerProcess", "RawClient", "fetch_request", "produce_request"]

#: Versions in which topics have names, so ids need not be looked up.
CREATE_TOPICS_VERSION = 7
FETCH_VERSION = 12
PRODUCE_VERSION = 9

_TIMEOUT_SECONDS = 60.0

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])

M = TypeVar("M", bound=Message)


def _serve(
    data: str | None,
    port: int,
    options: Mapping[str, object],
    log: str | None,
    files_max: int | None,
    ready: Connection,
) -> None:
    if files_max is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    if log is None:
        logging.getLogger("kafkawire").setLevel(logging.CRITICAL)
    else:
        logging.basicConfig(filename=log, level=logging.INFO)
    serve(Address("127.0.0.1", port), data, options, lambda broker: ready.send(broker.addresses))


class BrokerProcess:
    """A broker on 127.0.0.1.

    Args:
        data: the folder for its files; None for a broker that keeps everything in memory.
        port: the port to listen on; 0 for any free one.
        log: the file for its log lines; None to discard them.
        files_max: the maximum number of descriptors; None for the limit of this process.
        options: see `BrokerOptions`.

    Attributes:
        addresses: the addresses to which clients connect, keyed by listener name.
        bootstrap: the first of them.
        pid: the process id.
    """

    def __init__(
        self,
        data: Path | None,
        *,
        port: int = 0,
        log: Path | None = None,
        files_max: int | None = None,
        **options: object,
    ) -> None:
        ready, told = _processes.Pipe(duplex=False)
        folder, lines = (None if path is None else str(path) for path in (data, log))
        arguments = folder, port, options, lines, files_max, told
        self._process = _processes.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        told.close()
        self.addresses: dict[str, Address] = ready.recv()
        self.bootstrap = str(next(iter(self.addresses.values())))
        self.pid = self._process.pid or 0

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self._process.kill()
        self._process.join(_TIMEOUT_SECONDS)

    def stop(self) -> int:
        """Stop the broker with SIGTERM, and return its exit status."""
        os.kill(self.pid, signal.SIGTERM)
        self._process.join(_TIMEOUT_SECONDS)
        status = self._process.exitcode
        assert status is not None, "the broker did not stop"
        return status

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self._process.is_alive()

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def descriptors(self) -> int:
        """The number of the process's open files and sockets."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class RawClient:
    """A connection on which a soak sends arbitrary requests."""

    def __init__(self, bootstrap: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = FrameSocket(host, int(port), timeout_seconds)
        self.protocol = ClientConnection("soak")

    def send(self, message: Message, version: int) -> None:
        """Send a request."""
        self.socket.send(*self.protocol.request(message, version).parts)

    def receive(self, kind: type[M]) -> M:
        """Return the next response."""
        message = self.protocol.receive(self.socket.receive()).message
        assert isinstance(message, kind)
        return message

    def ask(self, message: Message, version: int, kind: type[M]) -> M:
        """Return the response to a request."""
        self.send(message, version)
        return self.receive(kind)

    def create(self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None) -> None:
        """Create topics, each with the given number of partitions."""
        Topic, Config = CreateTopicsRequest.CreatableTopic, CreateTopicsRequest.CreatableTopicConfig
        given = [Config(*entry) for entry in (configs or {}).items()]
        request = CreateTopicsRequest([Topic(name, count, 1, configs=given) for name, count in topics.items()])
        response = self.ask(request, CREATE_TOPICS_VERSION, CreateTopicsResponse)
        assert not any(topic.error_code for topic in response.topics), response

    def fetch(self, topic: str, partition: int, offset: int) -> memoryview:
        """Return the records of a partition, starting at an offset, up to a few megabytes."""
        response = self.ask(fetch_request(topic, partition, offset), FETCH_VERSION, FetchResponse)
        found = response.responses[0].partitions[0]
        assert not found.error_code, found
        return memoryview(found.records or b"")

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def produce_request(
    topic: str,
    partition: int,
    values: Iterable[bytes],
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return a request with one batch."""
    builder = BatchBuilder(
        2**31 - 1,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=transactional_id is not None,
    )
    for value in values:
        builder.append(timestamp_ms, None, value)
    data = ProduceRequest.PartitionProduceData(partition, bytearray(builder.seal()))
    topics = [ProduceRequest.TopicProduceData(topic, partition_data=[data])]
    return ProduceRequest(transactional_id, -1, 30_000, topics)


def fetch_request(topic: str, partition: int, offset: int, max_bytes: int = 8 << 20) -> FetchRequest:
    """Return a request for one partition that does not wait."""
    asked = FetchRequest.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(max_wait_ms=0, topics=[FetchRequest.FetchTopic(topic, partitions=[asked])])
