"""A client used in a `with` statement connects and disconnects, and leaves no thread, even if it could not connect."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.errors import ConnectFailed, LocalProtocolError
from kafkawire.sdk.spark import connecting
from kafkawire.sdk.spark.blocking_client import BlockingClient
from kafkawire.testing import Broker


def client(servers: str, limit_ms: int = 60_000) -> Any:
    options = read_options(AdminOptions, servers, {"io": "thread"})
    return BlockingClient(lambda: ClientCore("test", options, None), limit_ms)


def test_with() -> None:
    with Broker() as broker:
        before = set(threading.enumerate())
        one = client(broker.bootstrap)
        with one as entered:
            assert entered is one
            assert len(set(threading.enumerate()) - before) == 1
        assert set(threading.enumerate()) <= before
        with pytest.raises(LocalProtocolError, match="already started"):
            one.__enter__()
        bootstrap = broker.bootstrap
    before = set(threading.enumerate())
    with pytest.raises(ConnectFailed), client(bootstrap, limit_ms=1):
        pass
    assert set(threading.enumerate()) <= before


def test_brokers_that_are_away_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(ephemeral=True) as broker:
        bootstrap = broker.bootstrap
        broker.stop()
        before = set(threading.enumerate())
        monkeypatch.setattr(connecting, "pause", lambda _: broker.start())
        with client(bootstrap):
            pass
        broker.stop()
        left = set(threading.enumerate()) - before
        assert not [thread for thread in left if not thread.name.startswith("kafkawire-broker")]
