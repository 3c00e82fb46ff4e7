"""Apache Kafka and the reference broker hold clients to the limits of quotas, and to those of a listener.

Method: clients without throttling of their own send as fast as the broker reads, for some seconds; the bytes and
connections per second are compared with the limits. A short window lets the burst at the beginning pass quickly.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from kafkawire import ClientQuotaAlteration, ClientQuotaEntity
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sync import Admin
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.produced import FETCH_VERSION, TIMEOUT_MS, create
from tests.kafka.servers import Server
from tests.ports import free_port
from tests.reference_broker.storage.produced_batches import produced

pytestmark = pytest.mark.timeout(300)

BYTES_PER_SECOND = 100_000
MEASURED_SECONDS = 6.0

#: So many requests without a throttle time are a burst.
BURST_REQUESTS = 4
PRODUCE_VERSION = 9

#: A client may exceed its limit by a tenth. On a loaded machine, it may be too late to use all of it.
LOWEST, HIGHEST = 0.8 * BYTES_PER_SECOND, 1.1 * BYTES_PER_SECOND

#: The records of one request; a fetch returns as many.
RECORDS = produced(bytes(10_000))

WINDOW_SECONDS = 2
CONNECTIONS_PER_SECOND = 10
CONNECTIONS_MAX = 3
SETTINGS: dict[str, Any] = {
    "quota.window.num": f"{WINDOW_SECONDS + 1}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FEW:PLAINTEXT,SLOW:PLAINTEXT",
    "listener.name.few.max.connections": f"{CONNECTIONS_MAX}",
    "listener.name.slow.max.connection.creation.rate": f"{CONNECTIONS_PER_SECOND}",
    "max.connections.per.ip.overrides": "127.0.0.7:1,127.0.0.8:0",
}

#: ApiVersions in version 0, as sent.
ASK_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\0\xff\xff"


class Limited:
    """A broker with limits.

    Attributes:
        server: the broker.
        ports: the ports of its listeners, keyed by name.
    """

    def __init__(self, server: Server, ports: dict[str, int]) -> None:
        self.server = server
        self.ports = ports


@pytest.fixture(scope="module", params=["kafka", "broker"])
def limited(request: pytest.FixtureRequest) -> Iterator[Limited]:
    names = ("FEW", "SLOW")
    if request.param == "kafka":
        addresses = {name: f"127.0.0.1:{free_port()}" for name in names}
        protocols = SETTINGS["listener.security.protocol.map"] + ",CONTROLLER:PLAINTEXT"
        settings = {**SETTINGS, "listener.security.protocol.map": protocols}
        with ApacheKafka(settings=settings, listeners=addresses) as kafka:
            yield Limited(kafka, ports_of(addresses))
    else:
        listeners = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *names))
        with Broker(ephemeral=True, listeners=listeners, **SETTINGS) as broker:
            yield Limited(broker, ports_of(broker.addresses))


def ports_of(addresses: Mapping[str, str]) -> dict[str, int]:
    return {name: int(address.rpartition(":")[2]) for name, address in addresses.items()}


def connect(server: Server, client_id: str, **quotas: float) -> tuple[FrameSocket, ClientConnection]:
    """Return a connection with a client id that has quotas."""
    with Admin(server.bootstrap) as admin:
        entity = ClientQuotaEntity(client_id=client_id)
        admin.alter_client_quotas([ClientQuotaAlteration(entity, quotas)]).all()
        deadline = time.monotonic() + TIMEOUT_MS / 1_000
        while entity not in admin.describe_client_quotas():
            assert time.monotonic() < deadline
    host, _, port = server.bootstrap.rpartition(":")
    return FrameSocket(host, int(port), TIMEOUT_MS / 1_000), ClientConnection(client_id)


def rate_of(act: Callable[[], tuple[int, int]]) -> float:
    """Let a client act; return the bytes per second from the end of one burst to that of a later one.

    There is a burst whenever an idle sample has left the window, so that only whole periods have the rate of the limit.

    Args:
        act: returns the bytes, and how long the client is throttled in ms; the next call takes at least as long.
    """
    total, unthrottled, begin, deadline = 0, 0, 0.0, time.monotonic() + TIMEOUT_MS / 1_000
    while time.monotonic() < deadline:
        size_bytes, throttle_ms = act()
        total += size_bytes
        is_end_of_burst = bool(throttle_ms) and unthrottled >= BURST_REQUESTS
        unthrottled = 0 if throttle_ms else unthrottled + 1
        if is_end_of_burst and not begin:
            total, begin = 0, time.monotonic()
        elif is_end_of_burst and time.monotonic() - begin >= MEASURED_SECONDS:
            return total / (time.monotonic() - begin)
    raise AssertionError("the client was not throttled")


def test_a_producer_is_held_to_its_limit(limited: Limited) -> None:
    topic = create(limited.server.bootstrap, {})
    near, protocol = connect(limited.server, "producing", producer_byte_rate=BYTES_PER_SECOND)
    data = ProduceRequest.PartitionProduceData(0, RECORDS)
    request = ProduceRequest(
        None, Acks.ALL, TIMEOUT_MS, [ProduceRequest.TopicProduceData(topic, partition_data=[data])]
    )

    def act() -> tuple[int, int]:
        parts = protocol.request(request, PRODUCE_VERSION).parts
        near.send(*parts)
        response = protocol.receive(near.receive()).message
        assert isinstance(response, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        return sum(map(len, parts)), response.throttle_time_ms

    with near:
        assert LOWEST < rate_of(act) < HIGHEST


def test_a_consumer_is_held_to_its_limit(limited: Limited) -> None:
    topic = create(limited.server.bootstrap, {})
    near, protocol = connect(limited.server, "consuming", consumer_byte_rate=BYTES_PER_SECOND)
    data = ProduceRequest.PartitionProduceData(0, RECORDS)
    produce = ProduceRequest(
        None, Acks.ALL, TIMEOUT_MS, [ProduceRequest.TopicProduceData(topic, partition_data=[data])]
    )
    partition = FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=len(RECORDS))
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[FetchRequest.FetchTopic(topic, partitions=[partition])]
    )

    def act() -> tuple[int, int]:
        near.send(*protocol.request(fetch, FETCH_VERSION).parts)
        answer = near.receive()
        response = protocol.receive(answer).message
        assert isinstance(response, FetchResponse)
        # A throttled response has no records, and does not count.
        return len(answer) if response.responses else 0, response.throttle_time_ms

    with near:
        near.send(*protocol.request(produce, PRODUCE_VERSION).parts)
        protocol.receive(near.receive())
        assert LOWEST < rate_of(act) < HIGHEST


def open_from(port: int, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT_MS / 1_000, (host, 0))


def is_served(client: socket.socket) -> bool:
    """Return whether the broker answers, rather than closes the connection."""
    try:
        client.sendall(ASK_VERSIONS)
        return bool(client.recv(4))
    except ConnectionError:
        return False


def test_an_address_has_no_more_connections_than_it_may(limited: Limited) -> None:
    port = int(limited.server.bootstrap.rpartition(":")[2])
    with open_from(port, "127.0.0.7") as first, open_from(port, "127.0.0.7") as second:
        assert is_served(first)
        assert not is_served(second)
    with open_from(port, "127.0.0.8") as none:
        assert not is_served(none)
    with open_from(port, "127.0.0.9") as other:
        assert is_served(other)


def test_a_connection_to_a_full_listener_waits_for_another_to_be_closed(limited: Limited) -> None:
    with ExitStack() as opened:
        clients = [opened.enter_context(open_from(limited.ports["FEW"])) for _ in range(CONNECTIONS_MAX)]
        assert all(map(is_served, clients))
        waiting = opened.enter_context(open_from(limited.ports["FEW"]))
        waiting.sendall(ASK_VERSIONS)
        with Admin(limited.server.bootstrap) as admin:
            admin.list_topics()  # the broker serves clients of other listeners meanwhile
        assert select.select([waiting], [], [], 0)[0] == []
        clients[0].close()
        assert waiting.recv(4), "it is served as soon as there is room"


def test_new_connections_to_a_slow_listener_wait(limited: Limited) -> None:
    """Both brokers admit about eight per second, since no connection waits for more than one sample."""
    burst = WINDOW_SECONDS * CONNECTIONS_PER_SECOND
    count, begin = 5 * burst, time.monotonic()
    for _ in range(count):
        with open_from(limited.ports["SLOW"]) as client:
            assert is_served(client)
    per_second = (count - burst) / (time.monotonic() - begin)
    assert 0.6 * CONNECTIONS_PER_SECOND < per_second < 1.1 * CONNECTIONS_PER_SECOND
