"""The HTTP server answers good requests and refuses others; neither hostile clients nor long work hold up the broker.

Method: run a broker on free ports, and speak HTTP with it over plain sockets.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kafkawire import sync
from kafkawire.reference_broker.metrics.broker_metrics import BrokerMetrics
from kafkawire.reference_broker.network import http_server
from kafkawire.reference_broker.network.http_requests import HEAD_BYTES_MAX
from kafkawire.reference_broker.network.http_server import CONNECTIONS_MAX, in_turns
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.errors import ConfigurationError
from tests.reference_broker.http_client import ANY_PORT, TIMEOUT_SECONDS, address_of, answer, get, whole


@pytest.fixture(scope="module")
def broker():
    with BackgroundBroker(None, metrics_listen=ANY_PORT, offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * HEAD_BYTES_MAX + b"\r\n\r\n", b"431"),
        (b"x" * HEAD_BYTES_MAX * 3, b"431"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
    ],
)
def test_hostile_requests_get_an_error(broker, data, status):
    received = answer(broker, data)
    assert received == b"" or received.split()[1] == status  # a reset may overtake the response
    assert get(broker, "/healthz")[0] == 200


def test_requests_after_the_first_are_ignored(broker):
    request = b"GET /healthz HTTP/1.1\r\n\r\n"
    assert answer(broker, request * 2).count(b"HTTP/1.1 200 OK") <= 1


def test_a_client_that_leaves(broker):
    for data in (b"", b"GET", b"GET /metrics HTTP/1.1\r\n\r\n"):
        with socket.create_connection(address_of(broker), TIMEOUT_SECONDS) as client:
            client.sendall(data)
    assert get(broker, "/healthz")[0] == 200


def test_a_client_that_sends_nothing_is_cut_off(broker, monkeypatch):
    monkeypatch.setattr(http_server, "TIMEOUT_SECONDS", 0.05)
    with socket.create_connection(address_of(broker), TIMEOUT_SECONDS) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nA:")
        assert whole(client) == b""


def test_too_many_connections(broker):
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(address_of(broker), TIMEOUT_SECONDS))
            for _ in range(CONNECTIONS_MAX)
        ]
        assert answer(broker, b"GET /healthz HTTP/1.1\r\n\r\n") == b""
        idle[0].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert whole(idle[0]).endswith(b"alive\n")
        with sync.Producer(broker.bootstrap) as producer:  # clients of Kafka have connections of their own
            producer.send("t", b"x").result()


@pytest.mark.defect
def test_a_defect_ends_one_connection(broker, monkeypatch, caplog):
    def fail(metrics) -> Iterator[None]:
        yield
        raise RuntimeError("planted")

    monkeypatch.setattr(BrokerMetrics, "collect", fail)
    assert answer(broker, b"GET /metrics HTTP/1.1\r\n\r\n") == b""
    assert "could not answer an HTTP request" in caplog.text
    assert get(broker, "/healthz")[0] == 200


def test_an_address_in_use_prevents_the_start(broker):
    other = BackgroundBroker(None, metrics_listen=str(address_of(broker)))
    with pytest.raises(OSError, match="in use"):
        other.start()
    assert other.metrics_address is None


@pytest.mark.parametrize("value", ["nowhere", "host:99999", ":1"])
def test_addresses_that_are_refused(value):
    with pytest.raises(ConfigurationError, match="metrics_listen"):
        BackgroundBroker(None, metrics_listen=value)


def test_nothing_is_served_without_the_option():
    with BackgroundBroker(None) as broker:
        assert broker.metrics_address is None


def test_work_is_done_in_turns():
    """Other tasks run between two turns, however many pieces the work has."""
    others = pieces = 0

    async def run() -> str:
        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        result = await in_turns(work(), turn_ns=0)
        task.cancel()
        return result

    def work():
        nonlocal pieces
        for _ in range(1_000):
            pieces += 1
            yield
            assert others >= pieces - 1
        return "done"

    assert asyncio.run(run()) == "done"
    assert (others, pieces) == (1_000, 1_000)
