"""A stopping broker answers requests whose data it has stored, wakes waiting clients, and does not wait forever.

Method: stop the broker while TCP clients are in the middle of a request; every wait has a time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkawire.reference_broker.server import BackgroundBroker, Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.sdk.errors import Closed, ConfigurationError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.raw_client import TIMEOUT_SECONDS, Client, base_offset, fetch, fetched, produce_request
from tests.reference_broker.storage.produced_batches import produced


def test_stop_answers_what_it_stores(tmp_path, monkeypatch):
    is_syncing, may_end = threading.Event(), threading.Event()
    broker = BackgroundBroker(tmp_path, log_flush_interval_messages=1)
    broker.start()
    with Client(broker.bootstrap) as client:
        client.topic()
        sync = os.fsync

        def slow_sync(descriptor: int) -> None:
            is_syncing.set()
            may_end.wait(TIMEOUT_SECONDS)
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", slow_sync)
        client.send(produce_request(produced(b"x")), 9)
        assert is_syncing.wait(TIMEOUT_SECONDS)
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        are_ending(broker)
        client.send(produce_request(produced(b"not taken any more")), 9)
        may_end.set()
        assert base_offset(client.receive(ProduceResponse)) == 0
        with pytest.raises(RemoteProtocolError):
            client.receive(ProduceResponse)
        stopping.join(TIMEOUT_SECONDS)
    monkeypatch.undo()
    broker.start()
    with Client(broker.bootstrap) as client:
        assert fetched(client.fetch()) == [b"x"]
    broker.stop()


def are_ending(broker):
    """Wait until every connection has stopped accepting requests."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not all(wire.session._is_ending for wire in list(broker._broker._wires)):
        assert time.monotonic() < deadline, "the broker does not stop"
        time.sleep(0)


def test_stop_of_a_client_that_goes_on_sending(tmp_path):
    """The client gets its responses, although the broker leaves further requests unread."""
    broker = BackgroundBroker(tmp_path)
    broker.start()
    stored = 0
    with Client(broker.bootstrap) as client:
        client.topic()
        client.produce(produced(b"first"))
        stopping = threading.Thread(target=broker.stop)
        for number in range(400):
            if number == 100:
                stopping.start()
            try:
                client.send(produce_request(produced(b"%d" % number)), 9)
            except (OSError, RemoteProtocolError):
                break
        with contextlib.suppress(RemoteProtocolError):  # the connection may end
            while True:
                assert base_offset(client.receive(ProduceResponse)) == stored + 1
                stored += 1
        stopping.join(TIMEOUT_SECONDS)
    broker.start()
    with Client(broker.bootstrap) as client:
        assert len(fetched(client.fetch())) == stored + 1
    broker.stop()


def test_stop_answers_members_that_wait_for_others(tmp_path):
    broker = BackgroundBroker(tmp_path, group_initial_rebalance_delay_ms=60_000)
    broker.start()
    with Client(broker.bootstrap) as client:
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
        client.send(JoinGroupRequest("g", 10_000, 10_000, protocol_type="consumer", protocols=protocols), 3)
        is_waiting(broker)
        broker.stop()
        assert client.receive(JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR


def is_waiting(broker):
    """Wait until a member's join is delayed."""
    with Client(broker.bootstrap) as other:
        for _ in range(TIMEOUT_SECONDS * 1000):
            (group,) = other.ask(DescribeGroupsRequest(["g"]), 5, DescribeGroupsResponse).groups
            if group.members:
                return
    raise AssertionError("no member has joined")


def test_stop_does_not_wait_for_ever_for_a_disk_that_hangs(monkeypatch, caplog):
    monkeypatch.setattr("kafkawire.reference_broker.server._LAST_SYNC_SECONDS", 0.1)
    may_end = threading.Event()

    def hang(self, *, with_indexes):
        return not may_end.wait(TIMEOUT_SECONDS)

    broker = BackgroundBroker(MemoryDisk())
    broker.start()
    with Client(broker.bootstrap) as client:
        client.topic()
        client.produce(produced(b"x"))
        monkeypatch.setattr(Segment, "sync", hang)
        broker.stop()
    assert "did not sync everything" in caplog.text
    with pytest.raises(ConfigurationError, match="the data directory is in use by another broker"):
        broker.start()
    may_end.set()


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


def test_brokers_are_stopped_and_killed_at_once():
    disk = MemoryDisk()

    async def run() -> None:
        broker = Broker(disk)
        await broker.start()
        await asyncio.gather(broker.stop(), broker.stop(), broker.stop())
        assert not broker.is_stuck
        await broker.start()
        await asyncio.gather(broker.stop(), broker.kill(), broker.kill(), broker.stop())
        assert not broker.is_stuck
        with pytest.raises(Closed):
            _ = broker.core
        await broker.start()
        await broker.stop()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))


def test_start_is_refused_while_it_runs_and_waits_for_a_stop():
    async def run() -> None:
        broker = Broker(MemoryDisk())
        await broker.start()
        bootstrap = broker.bootstrap
        with pytest.raises(LocalProtocolError, match="already running"):
            await broker.start()
        assert broker.bootstrap == bootstrap
        await asyncio.gather(broker.stop(), broker.start())
        assert broker.bootstrap == bootstrap
        await asyncio.gather(broker.kill(), broker.stop(), broker.start())
        assert broker.bootstrap == bootstrap
        await broker.stop()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_SECONDS))


def test_broker_is_stopped_from_several_threads(tmp_path):
    broker = BackgroundBroker(tmp_path)
    broker.start()
    with ThreadPoolExecutor(4) as threads:
        for stopped in [threads.submit(broker.stop) for _ in range(4)]:
            stopped.result(TIMEOUT_SECONDS)
    with pytest.raises(Closed):
        _ = broker.bootstrap


def test_stop_while_clients_reset_their_connections(tmp_path):
    """The broker does not notice this immediately, because it does not read while a request is delayed."""
    broker = BackgroundBroker(tmp_path)
    broker.start()
    for _ in range(5):
        with Client(broker.bootstrap) as client:
            client.topic()
            for _ in range(3):
                client.send(fetch(wait=60_000), 12)
            while not all(wire.session.is_waiting for wire in list(broker._broker._wires)):
                time.sleep(0)
            linger = struct.pack("ii", 1, 0)
            client.socket._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    broker.stop()
    assert not broker._broker._wires
