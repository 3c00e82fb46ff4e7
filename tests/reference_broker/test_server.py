"""Clients use the broker over TCP, with long polls, large fetches and limits; it stops, crashes and restarts.

Method: run a broker on a free local port; every wait has a time limit.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from mmap import PAGESIZE
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.reference_broker.server import BackgroundBroker, Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import Closed, ConfigurationError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import ConnectionEnded
from tests.reference_broker.raw_client import TIMEOUT_SECONDS, Client, base_offset, fetch, fetched, produce_request
from tests.reference_broker.storage.produced_batches import produced

MEBIBYTE = 2**20


@pytest.fixture
def broker(tmp_path):
    with BackgroundBroker(tmp_path / "data") as broker:
        yield broker


def test_the_next_timer_is_set_once_those_that_are_due_have_fired(monkeypatch):
    """Requests may set and cancel other timers; no wakeup may remain for finished work."""
    broker, woken = Broker(MemoryDisk()), []
    timers = SimpleNamespace(next_deadline_ms=5, fire=lambda now_ms: setattr(timers, "next_deadline_ms", 100))
    monkeypatch.setattr(broker, "_timers", timers)
    monkeypatch.setattr(broker, "_wake_at", woken.append)
    broker._wake()
    assert woken == [100]


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


def test_long_polls_end_each_in_its_time(broker):
    with Client(broker.bootstrap) as first, Client(broker.bootstrap) as second:
        first.topic()
        for client, wait_ms in ((first, 50), (second, 100)):
            client.send(fetch(wait=wait_ms), 12)
        for client in (first, second):
            assert fetched(client.receive(FetchResponse)) == []


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
            client.send(produce_request(produced(b"%d" % number)), 9)
        assert [base_offset(client.receive(ProduceResponse)) for _ in range(200)] == list(range(200))


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


def assert_full(broker: BackgroundBroker, first: Client) -> None:
    """Check that a second client of the first listener has to wait until the first one closes its connection."""
    assert first.metadata().brokers
    acceptor = broker._broker._acceptors[0]
    with Client(broker.bootstrap) as second:
        second.send(MetadataRequest(None), 12)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while acceptor._waiting is None:
            assert time.monotonic() < deadline
        assert first.metadata().brokers
        assert select.select([second.socket], [], [], 0)[0] == []
        first.socket.close()
        assert second.receive(MetadataResponse).brokers


def test_connections_above_the_limit_have_to_wait(tmp_path):
    with BackgroundBroker(tmp_path, max_connections=1) as broker, Client(broker.bootstrap) as first:
        assert_full(broker, first)


def test_limits_of_a_listener_are_changed_while_the_broker_runs(tmp_path):
    Config, Resource = AlterConfigsRequest.AlterableConfig, AlterConfigsRequest.AlterConfigsResource
    options: dict[str, Any] = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "listener.name.a.max.connections": "2",
    }

    def change(client: Client, name: str, value: str) -> tuple[int, str | None]:
        resource = Resource(ConfigResourceType.BROKER, "", [Config(f"listener.name.a.{name}", value)])
        (result,) = client.ask(AlterConfigsRequest([resource]), 2, AlterConfigsResponse).responses
        return result.error_code, result.error_message

    with BackgroundBroker(tmp_path, **options) as broker:
        a, b = (str(broker.addresses[name]) for name in "AB")
        with Client(b) as other, Client(a) as first:
            for name in ("max.connections", "max.connection.creation.rate"):
                code, text = change(other, name, "0")
                assert code == ErrorCode.INVALID_REQUEST
                assert text is not None
                assert f"ConfigException: Invalid {name} 0 for" in text
            with Client(a) as second:
                assert second.metadata().brokers
            assert change(other, "max.connections", "1")[0] == ErrorCode.NONE
            assert_full(broker, first)
            with Client(b) as third:
                assert third.metadata().brokers


def test_the_limit_of_connections_is_changed_while_the_broker_runs_and_after_a_restart(tmp_path):
    Config, Resource = AlterConfigsRequest.AlterableConfig, AlterConfigsRequest.AlterConfigsResource
    change = [Resource(ConfigResourceType.BROKER, "1", [Config("max.connections", "1")])]
    with BackgroundBroker(tmp_path) as broker, Client(broker.bootstrap) as first:
        assert not first.ask(AlterConfigsRequest(change), 2, AlterConfigsResponse).responses[0].error_code
        assert_full(broker, first)
    with BackgroundBroker(tmp_path) as broker, Client(broker.bootstrap) as first:
        assert_full(broker, first)


def test_idle_connections_are_closed(tmp_path):
    with BackgroundBroker(tmp_path, connections_max_idle_ms=500) as broker, Client(broker.bootstrap) as client:
        assert client.metadata().brokers
        with pytest.raises(RemoteProtocolError):
            client.socket.receive()


def test_without_a_limit_no_connection_is_ever_idle(tmp_path):
    with BackgroundBroker(tmp_path, connections_max_idle_ms=-1) as broker, Client(broker.bootstrap) as client:
        assert client.metadata().brokers
        assert broker._broker._idle_timer is None


def test_stuck_reader_and_stuck_sender_are_closed_and_waiting_clients_are_not(tmp_path):
    with ExitStack() as stack:
        broker = stack.enter_context(BackgroundBroker(tmp_path, connections_max_idle_ms=1_000))
        reader = stack.enter_context(Client(broker.bootstrap))
        reader.topic()
        reader.produce(produced(bytes(1_000_000)))
        waiter = stack.enter_context(Client(broker.bootstrap))
        waiter.send(fetch(offset=1, wait=3_000), 12)
        sender = stack.enter_context(Client(broker.bootstrap))
        sender.socket.send(b"\0\1\0\0\0\0")
        for _ in range(20):
            reader.send(fetch(), 12)
        with pytest.raises(RemoteProtocolError):
            sender.socket.receive()
        with select.epoll() as poll:  # without reading
            poll.register(reader.socket, select.EPOLLRDHUP)
            assert poll.poll(TIMEOUT_SECONDS)
        with pytest.raises(RemoteProtocolError):
            read_all(reader)
        assert fetched(waiter.receive(FetchResponse)) == []


def read_all(client: Client) -> None:
    while True:
        client.socket.receive()


def test_large_announcements_take_no_memory(tmp_path):
    with ExitStack() as stack:
        broker = stack.enter_context(BackgroundBroker(tmp_path))
        clients = [stack.enter_context(Client(broker.bootstrap)) for _ in range(100)]
        clients[0].topic()
        before = resident_bytes()
        announced = (100 * MEBIBYTE).to_bytes(4, "big") + bytes(2)  # the header of Produce
        for client in clients:
            client.socket.send(announced)
        piece = bytes(MEBIBYTE)
        sent_bytes = 0
        with select.epoll() as poll:
            names = {client.socket.fileno(): client for client in clients}
            for number in names:
                os.set_blocking(number, False)
                poll.register(number, select.EPOLLOUT)
            # One connection after another ends with a complete but invalid request.
            while sent_bytes < 1_000 * MEBIBYTE and (ready := poll.poll(TIMEOUT_SECONDS)):
                for number, event in ready:
                    is_gone = bool(event & (select.EPOLLHUP | select.EPOLLERR))
                    try:
                        sent_bytes += os.write(number, piece)
                    except (BlockingIOError, ConnectionError):
                        is_gone = True
                    if is_gone:
                        poll.unregister(number)
                assert resident_bytes() - before < 160 * MEBIBYTE
        assert sent_bytes > 500 * MEBIBYTE
        with Client(broker.bootstrap) as other:
            assert other.metadata().brokers
            assert other.produce(produced(b"small")).base_offset == 0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE


@pytest.mark.parametrize("is_reset", [False, True])
def test_clients_that_go_while_nobody_reads_them_are_noticed(broker, is_reset):
    """Otherwise, their connections would be counted until the longest poll ends."""
    with Client(broker.bootstrap) as client:
        client.topic()
        for _ in range(3):
            client.send(fetch(wait=2**31 - 1), 12)
        (wire,) = broker._broker._wires
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while wire._is_reading:
            assert time.monotonic() < deadline
        if is_reset:
            client.socket._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    while broker._broker._wires:
        assert time.monotonic() < deadline


def test_nothing_is_left_of_a_connection(broker):
    """The cleanup must not depend on the garbage collector, which seldom runs in a broker."""
    gc.collect()
    gc.disable()
    try:
        with Client(broker.bootstrap) as client:
            client.topic()
            client.send(fetch(wait=60_000), 12)
            client.socket.send((900_000).to_bytes(4, "big") + bytes(100_000))  # a part of a Produce request
            wires = broker._broker._wires
            left = [weakref.ref(part) for wire in wires for part in (wire, wire.session)]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while any(reference() is not None for reference in left):
            assert time.monotonic() < deadline, [reference() for reference in left]
    finally:
        gc.enable()


def test_too_many_connections_from_one_address(tmp_path, caplog):
    caplog.set_level("WARNING")
    options: dict[str, Any] = {"max.connections.per.ip": 1}
    with BackgroundBroker(tmp_path, **options) as broker, Client(broker.bootstrap) as first:
        assert first.metadata().brokers
        for _ in range(5):
            with pytest.raises(RemoteProtocolError), Client(broker.bootstrap) as other:
                other.metadata()
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), TIMEOUT_SECONDS, ("127.0.0.2", 0)) as elsewhere:
            elsewhere.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\0\xff\xff")  # ApiVersions in version 0
            assert elsewhere.recv(4)
    assert caplog.messages == [
        "refusing a connection from 127.0.0.1: the address has 1 connections, and max.connections.per.ip is 1"
    ]


def test_clients_are_given_the_addresses_of_their_listener(tmp_path):
    options: dict[str, Any] = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "advertised.listeners": "EXTERNAL://kafka.example.com:443",
    }
    with BackgroundBroker(tmp_path, **options) as broker:
        internal, external = broker.addresses["INTERNAL"], broker.addresses["EXTERNAL"]
        assert broker.bootstrap == str(internal)
        assert external == ("kafka.example.com", 443)
        ports = [acceptor.listener.bind.port for acceptor in broker._broker._acceptors]
        for port, address in zip(ports, (internal, external), strict=True):
            with Client(f"127.0.0.1:{port}") as client:
                (node,) = client.metadata().brokers
                assert (node.host, node.port) == address
                found = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)
                assert (found.coordinators[0].host, found.coordinators[0].port) == address
        broker.stop()
        broker.start()
        assert [acceptor.listener.bind.port for acceptor in broker._broker._acceptors] == ports


def test_small_responses_leave_at_once(broker):
    with Client(broker.bootstrap) as client:
        assert client.metadata().brokers
        (wire,) = broker._broker._wires
        assert wire._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_after_a_suspend_records_of_now_are_taken(broker):
    hour_ms = 3_600_000
    with Client(broker.bootstrap) as client:
        client.topic()
        batch = produced(b"x", timestamps=(now_ms() + 3 * hour_ms,))
        assert client.produce(batch).error_code == ErrorCode.INVALID_TIMESTAMP
        client.send(fetch(wait=TIMEOUT_SECONDS * 1_000), 12)
        (wire,) = broker._broker._wires
        while not wire.session.is_waiting:
            time.sleep(0)
        broker._broker._clock._wall_ms = lambda: now_ms() + 3 * hour_ms
        with Client(broker.bootstrap) as other:
            assert fetched(other.fetch(wait=10)) == [], "only this request's deadline has passed"
            assert other.produce(batch).base_offset == 0
        assert fetched(client.receive(FetchResponse)) == [b"x"]


def test_clock_set_back_before_a_timer_is_armed_delays_nothing():
    async def run() -> None:
        broker = Broker(None)
        await broker.start()
        fired = asyncio.Event()
        now = broker._clock()
        broker._clock._wall_ms = lambda: now_ms() - 3_600_000
        broker.core.timers.at(now + 50, lambda now_ms: fired.set())
        assert broker._timer is not None
        assert broker._timer.when() - asyncio.get_running_loop().time() <= 0.05
        await asyncio.wait_for(fired.wait(), TIMEOUT_SECONDS)
        await broker.stop()

    asyncio.run(run())


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


def test_responds_after_syncing_if_the_topic_asks_for_it(tmp_path):
    with BackgroundBroker(tmp_path, log_flush_interval_messages=1) as broker, Client(broker.bootstrap) as client:
        client.topic()
        assert [client.produce(produced(b"x")).base_offset for _ in range(3)] == [0, 1, 2]


def test_taken_port_and_foreign_directory(tmp_path, broker):
    port = int(broker.bootstrap.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        BackgroundBroker(tmp_path / "other", port=port).start()
    with pytest.raises(ConfigurationError, match="the data directory is in use by another broker"):
        BackgroundBroker(tmp_path / "data").start()
    broker.stop()
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


def test_a_timer_fires_although_those_before_it_were_all_later():
    async def run() -> None:
        broker = Broker(MemoryDisk())
        await broker.start()
        timers, fired = broker.core.timers, asyncio.Event()
        later_ms = timers.next_deadline_ms
        timers.at(now_ms() + 1, lambda _: fired.set())
        await asyncio.wait_for(fired.wait(), TIMEOUT_SECONDS)
        assert later_ms is not None
        assert now_ms() < later_ms
        await broker.stop()

    asyncio.run(run())


def test_a_broker_that_has_stopped_leaves_nothing_on_the_loop():
    async def run() -> None:
        broker = Broker(MemoryDisk())
        await broker.start()
        stopped = weakref.ref(broker)
        await broker.stop()
        del broker
        await asyncio.sleep(0)
        for thread in threading.enumerate():
            if thread.name == "kafkawire-broker-close":  # the thread may still be running after its report
                thread.join(TIMEOUT_SECONDS)
        gc.collect()
        assert stopped() is None

    asyncio.run(run())


def test_a_broker_says_that_its_disk_hung_when_it_stopped(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.server._LAST_SYNC_SECONDS", 0)
    disk, may_end = MemoryDisk(), threading.Event()
    with BackgroundBroker(disk) as broker:
        monkeypatch.setattr(disk, "plan", lambda call: may_end.wait(TIMEOUT_SECONDS))
    may_end.set()
    assert broker._broker.is_stuck


def test_runs_on_uvloop(tmp_path, monkeypatch):
    pytest.importorskip("uvloop")
    values = [bytes([number]) * 900_000 for number in range(20)]
    with BackgroundBroker(tmp_path, event_loop="uvloop") as broker, Client(broker.bootstrap) as client:
        assert type(broker._loop).__module__ == "uvloop"
        client.topic()
        for value in values:
            assert not client.produce(produced(value)).error_code
        client.send(fetch(), 12)
        client.send(MetadataRequest(None), 12)
        assert fetched(client.receive(FetchResponse)) == values
        assert client.receive(MetadataResponse).topics
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigurationError, match="uvloop is not installed; install it with pip"):
        broker.start()


@pytest.mark.parametrize("end", [BackgroundBroker.stop, BackgroundBroker.kill])
def test_the_thread_ends_with_the_broker(tmp_path: Path, end: Callable[[BackgroundBroker], None]) -> None:
    before = set(threading.enumerate())
    broker = BackgroundBroker(tmp_path / "data")
    broker.start()
    (thread,) = (each for each in set(threading.enumerate()) - before if each.name == "kafkawire-broker")
    end(broker)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("data", "given", "text"),
    [
        ("", {}, "data='': expected a folder"),
        (None, {"wall_ms": 5}, "wall_ms=5: expected a function"),
        (None, {"port": 65_536}, "port=65536: expected 0 to 65535"),
        (None, {"host": None}, "host=None: expected a string"),
    ],
)
def test_arguments_that_cannot_be(data: Any, given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Broker(data, **given)


def test_a_forked_child_has_no_broker_to_end() -> None:
    with BackgroundBroker(None) as broker:
        child = os.fork()
        if not child:
            broker.stop()
            broker.kill()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with Client(broker.bootstrap) as client:
            client.topic()
