"""An abandoned registry drops its connection without waiting, and leaves its session to the servers.

Method: use a ZooKeeper server on the test's thread (`fake_kazoo.py`), and a thread that runs when the test wants it to.
The registry suite covers what every registry does when it is abandoned.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.sdk.registry.registry import Exists
from kafkawire.sdk.registry.zookeeper import SessionState, ZooKeeperRegistry
from tests.sdk.registry.fake_kazoo import FakeBench

pytest.importorskip("kazoo")


def test_a_registry_that_is_abandoned_drops_its_connection_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread waits for the connection's thread to end; a registry that was never started has none."""
    bench = FakeBench(monkeypatch)
    started: list[Callable[[], object]] = []
    monkeypatch.setattr(ZooKeeperRegistry, "_start_thread", lambda registry, run: started.append(run))
    one = bench.registry()
    connection = bench.connection_of(one)
    bench.servers.answers = False
    waiting = bench.owner.submit(one, Exists("/"))
    one.abandon()
    bench.owner.until(lambda: bool(waiting))
    assert [str(outcome) for outcome in waiting[0]] == [f"CLOSED: /: {one.describe()}"]
    assert (connection.is_dropped, connection.is_abandoned, connection.is_closed) == (True, False, False)
    assert bench.servers.tree.has_session(connection.session_id)
    (wait,) = started
    wait()
    assert connection.is_abandoned
    early = ZooKeeperRegistry("a:1", bench.owner.post)
    early.abandon()
    early.start()
    assert (early.state, len(started)) == (SessionState.CLOSED, 1)
