"""A broker reports which brokers it knows; a broker that does not answer is assumed to know none.

Method: run the reference broker in this process, alongside sockets that do not answer.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from kafkawire.local_cluster import known_brokers as module
from kafkawire.local_cluster.known_brokers import known_brokers
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.wire import Address
from kafkawire.testing import Broker


def test_a_broker_knows_itself() -> None:
    with Broker(ephemeral=True, node_id=7) as broker:
        address = Address.parse("address", broker.bootstrap)
        assert asyncio.run(known_brokers(address)) == {7}
    assert asyncio.run(known_brokers(address)) == frozenset()


def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SETTINGS", ConnectionSettings("test", 50, 50))
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert asyncio.run(known_brokers(Address(*server.getsockname()))) == frozenset()
