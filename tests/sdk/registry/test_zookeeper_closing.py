"""A ZooKeeper registry is closed in time, with or without an answer, and ends waiting operations.

Method: proceed as in `test_zookeeper.py`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from kafkawire.sdk.registry.registry import Exists, Stat
from kafkawire.sdk.registry.watches import WatchKind
from kafkawire.sdk.registry.zookeeper import SessionState, ZooKeeperRegistry
from tests.sdk.registry.fake_kazoo import FakeBench
from tests.sdk.registry.owner import Owner

pytest.importorskip("kazoo")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    return FakeBench(monkeypatch)


def test_closing(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    bench.servers.answers = False
    ended = owner.submit(one, Exists("/"), Exists("/a"))
    one.close(1_000)
    connection.answer()
    owner.run_all()
    assert [str(outcome).partition(":")[0] for outcome in ended[0]] == ["CLOSED", "CLOSED"]
    assert connection.is_closed
    one.start()
    assert len(bench.servers.connections) == 1


def test_what_is_in_the_inbox_when_the_registry_is_closed(bench: FakeBench) -> None:
    """An answer is reported, but does not open a session or set a watch."""
    bench.servers.accepts = False
    opening = bench.registry()
    bench.servers.connections[0].link()
    bench.owner.turn()
    opening.close(1_000)
    bench.servers.accepts = True
    continued = bench.registry()
    connection = bench.connection_of(continued)
    connection.lose()
    connection.link()
    bench.owner.turn()
    continued.close(1_000)
    read, owner = bench.registry(), bench.owner
    bench.connection_of(read)
    ended = owner.submit(read, Exists("/", owner.note))
    read.close(1_000)
    owner.run_all()
    assert isinstance(ended[0][0], Stat)
    assert not any(read._watches.paths(kind) for kind in WatchKind)
    assert {one.state for one in (opening, continued, read)} == {SessionState.CLOSED}


def test_closing_what_was_not_started() -> None:
    owner = Owner()
    one = ZooKeeperRegistry("a:1", owner.post)
    ended = owner.submit(one, Exists("/"))
    one.close(1_000)
    owner.run_all()
    assert [str(outcome) for outcome in ended[0]] == ["CLOSED: /: the ZooKeeper at a:1"]
    assert owner.code(one, Exists("/")) == "CLOSED"


def test_closing_without_an_answer(bench: FakeBench, caplog: pytest.LogCaptureFixture) -> None:
    one = bench.registry()
    bench.connection_of(one).closes_in_time = False
    one.close(50)
    assert "has not responded within 50 ms; the session there will end after its timeout of 18000 ms" in caplog.text


@pytest.mark.parametrize("answers", [True, False])
def test_beginning_to_close(bench: FakeBench, caplog: pytest.LogCaptureFixture, answers: bool) -> None:
    """Another thread waits and makes one callback, even for a registry that is already closed."""
    one, closed = bench.registry(), queue.SimpleQueue[str]()
    connection = bench.connection_of(one)
    connection.closes_in_time = answers
    ended = bench.owner.submit(one, Exists("/"))
    one.begin_to_close(50, lambda: closed.put(threading.current_thread().name))
    assert one.state is SessionState.CLOSED
    assert closed.get(timeout=10) != threading.current_thread().name
    assert connection.is_closed
    assert ("has not responded within 50 ms" in caplog.text) is not answers
    one.begin_to_close(50, lambda: closed.put("again"))
    assert closed.get(timeout=10) == "again"
    bench.owner.run_all()
    assert len(ended) == 1


def test_closing_after_the_loop_of_the_owner_has_ended(
    bench: FakeBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No outcome is reported, no warning is logged, and the session is ended once."""

    def ended(function: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    one = bench.registry()
    connection = bench.connection_of(one)
    monkeypatch.setattr(one, "_post", ended)
    threads: list[Callable[[], object]] = []
    monkeypatch.setattr(one, "_start_thread", threads.append)
    one.close(1_000)
    assert connection.is_closed
    assert not threads
    assert "event loop has ended" not in caplog.text


def test_beginning_to_close_without_a_thread(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one, closed = bench.registry(), list[int]()
    bench.connection_of(one)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    one.begin_to_close(50, lambda: closed.append(1))
    assert closed == [1]
