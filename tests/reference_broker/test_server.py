"""Clients reach the broker over TCP: requests, long polls, large fetches, limits, stop, crash and restart.

Method: a broker on a free port of this machine; everything that is waited for has a time limit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from typing import TypeVar

import pytest

from kafkawire.reference_broker.server import BackgroundBroker, Broker, serve
from kafkawire.sdk.errors import Closed, ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.log.produced_batches import produced, values_in

TIMEOUT_SECONDS = 20

Response = TypeVar("Response", bound=Message)


class Client:
    """One connection, asking one thing at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = FrameSocket(host, int(port), TIMEOUT_SECONDS)
        self.protocol = ClientConnection()

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.socket.close()

    def send(self, message, version) -> None:
        self.socket.send(*self.protocol.request(message, version).parts)

    def receive(self, kind: type[Response]) -> Response:
        message = self.protocol.receive(self.socket.receive()).message
        assert isinstance(message, kind)
        return message

    def ask(self, message, version, kind: type[Response]) -> Response:
        self.send(message, version)
        return self.receive(kind)

    def metadata(self, topics=None):
        return self.ask(MetadataRequest(topics), 12, MetadataResponse)

    def topic(self, name="t"):
        (topic,) = self.metadata([MetadataRequest.MetadataRequestTopic(name=name)]).topics
        assert not topic.error_code

    def fetch(self, **options):
        return self.ask(fetch(**options), 12, FetchResponse)

    def produce(self, data, acks=1):
        partition = ProduceRequest.PartitionProduceData(0, data)
        message = ProduceRequest(None, acks, 1000, [ProduceRequest.TopicProduceData("t", partition_data=[partition])])
        return self.ask(message, 9, ProduceResponse).responses[0].partition_responses[0]


def fetch(offset=0, wait=0, max_bytes=2**26):
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(max_wait_ms=wait, min_bytes=1, topics=[FetchRequest.FetchTopic("t", partitions=[partition])])


def fetched(response):
    return values_in(response.responses[0].partitions[0].records)


@pytest.fixture
def broker(tmp_path):
    with BackgroundBroker(tmp_path / "data") as broker:
        yield broker


def test_produce_and_fetch(broker):
    with Client(broker.bootstrap) as client:
        client.topic()
        assert client.produce(produced(b"a", b"b")).base_offset == 0
        assert fetched(client.fetch()) == [b"a", b"b"]


def test_long_poll_ends_when_data_comes_and_when_time_is_up(broker):
    with Client(broker.bootstrap) as reader, Client(broker.bootstrap) as writer:
        writer.topic()
        reader.send(fetch(wait=TIMEOUT_SECONDS * 1000), 12)
        writer.produce(produced(b"x"))
        assert fetched(reader.receive(FetchResponse)) == [b"x"]
        began = time.monotonic()
        assert fetched(reader.fetch(offset=1, wait=100)) == []
        assert time.monotonic() - began >= 0.09


def test_large_responses_arrive_whole_although_the_client_is_slow(broker):
    values = [bytes([number]) * 900_000 for number in range(20)]
    with Client(broker.bootstrap) as client:
        client.topic()
        for value in values:
            assert not client.produce(produced(value)).error_code
        client.send(fetch(), 12)
        client.send(fetch(offset=18), 12)
        client.send(MetadataRequest(None), 12)
        assert fetched(client.receive(FetchResponse)) == values
        assert fetched(client.receive(FetchResponse)) == values[18:]
        assert client.receive(MetadataResponse).topics


def test_pipelined_requests_are_answered_in_order(broker):
    with Client(broker.bootstrap) as client:
        client.topic()
        for number in range(200):
            partition = ProduceRequest.PartitionProduceData(0, produced(b"%d" % number))
            topic = ProduceRequest.TopicProduceData("t", partition_data=[partition])
            client.send(ProduceRequest(None, 1, 1000, [topic]), 9)
        offsets = [client.receive(ProduceResponse).responses[0].partition_responses[0].base_offset for _ in range(200)]
        assert offsets == list(range(200))


def test_unknown_request_closes_only_its_connection(broker):
    with Client(broker.bootstrap) as bad, Client(broker.bootstrap) as good:
        bad.socket.send(b"\x00\x00\x00\x0a", b"\x7f\xff\x00\x00\x00\x00\x00\x00\xff\xff")
        with pytest.raises(ConnectionEnded):
            bad.socket.receive()
        assert good.metadata().brokers


def test_frame_above_the_limit_closes_the_connection(tmp_path):
    with BackgroundBroker(tmp_path, max_frame_bytes=1000) as broker, Client(broker.bootstrap) as client:
        client.socket.send((1001).to_bytes(4, "big"))
        with pytest.raises(RemoteProtocolError):
            client.socket.receive()


def test_connections_above_the_limit_are_turned_away(tmp_path):
    with BackgroundBroker(tmp_path, max_connections=1) as broker, Client(broker.bootstrap) as first:
        assert first.metadata().brokers
        with pytest.raises(RemoteProtocolError), Client(broker.bootstrap) as second:
            second.metadata()
        assert first.metadata().brokers


def test_idle_connections_are_closed(tmp_path):
    with BackgroundBroker(tmp_path, connections_max_idle_ms=50) as broker, Client(broker.bootstrap) as client:
        assert client.metadata().brokers
        with pytest.raises(RemoteProtocolError):
            client.socket.receive()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_acknowledged_is_lost_and_the_address_stays(tmp_path, end):
    broker = BackgroundBroker(tmp_path / "data")
    broker.start()
    bootstrap = broker.bootstrap
    with Client(bootstrap) as client:
        client.topic()
        for number in range(50):
            assert client.produce(produced(b"%d" % number)).base_offset == number
        getattr(broker, end)()
        with pytest.raises(RemoteProtocolError):
            client.metadata()
    with pytest.raises(Closed):
        _ = broker.bootstrap
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() is (end == "stop")
    broker.start()
    assert broker.bootstrap == bootstrap
    with Client(bootstrap) as client:
        assert fetched(client.fetch()) == [b"%d" % number for number in range(50)]
    broker.stop()


def test_stop_wakes_waiting_clients_and_can_be_repeated(tmp_path):
    broker = BackgroundBroker(tmp_path)
    broker.start()
    with Client(broker.bootstrap) as client:
        client.topic()
        client.send(fetch(wait=60_000), 12)
        broker.stop()
        broker.stop()
        with pytest.raises(RemoteProtocolError):
            client.receive(FetchResponse)


def test_responds_after_syncing_if_the_topic_asks_for_it(tmp_path):
    with BackgroundBroker(tmp_path, log_flush_interval_messages=1) as broker, Client(broker.bootstrap) as client:
        client.topic()
        assert [client.produce(produced(b"x")).base_offset for _ in range(3)] == [0, 1, 2]


def test_taken_port_and_foreign_directory(tmp_path, broker):
    port = int(broker.bootstrap.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        BackgroundBroker(tmp_path / "other", port=port).start()
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        BackgroundBroker(tmp_path / "data", node_id=2).start()
    with pytest.raises(ConfigurationError, match="did you mean"):
        BackgroundBroker(tmp_path / "data", num_partition=2)


def test_broker_on_the_callers_loop(tmp_path):
    async def run() -> str:
        broker = Broker(tmp_path, advertised_host="localhost")
        await broker.start()
        bootstrap = broker.bootstrap
        await broker.stop()
        return bootstrap

    assert asyncio.run(run()).startswith("localhost:")


def test_serve_runs_until_a_signal(tmp_path):
    ready = threading.Event()
    found = []

    def started(broker: Broker) -> None:
        found.append(broker.bootstrap)
        ready.set()
        os.kill(os.getpid(), signal.SIGTERM)

    serve(Address("127.0.0.1", 0), tmp_path, {"num.partitions": "2"}, started)
    assert ready.is_set()
    host, _, port = found[0].rpartition(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
