"""kazoo's connection calls back in place, never blocks its sender, and ends when it is told to.

Method: the parts by themselves; a connection to a listener that takes connections and never answers, as a stopped
ZooKeeper does.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from kafkawire.sdk.registry import kazoo_client
from kafkawire.sdk.registry.kazoo_client import ConnectionLog, DirectHandler, KazooConnection, WakePipe

pytest.importorskip("kazoo")

#: A thread that does not end by then never will.
END_SECONDS = 60


def is_readable(pipe: WakePipe) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_a_pipe_has_as_many_bytes_as_were_sent() -> None:
    pipe = WakePipe()
    assert not is_readable(pipe)
    for _ in range(100_000):  # a pair of sockets would have blocked long ago
        pipe.send(b"\0")
    for _ in range(100_000):
        assert pipe.recv(1) == b"\0"
    assert not is_readable(pipe)
    with pytest.raises(OSError, match="no byte was sent"):
        pipe.recv(1)
    pipe.send(b"\0")
    assert is_readable(pipe)
    pipe.close()
    pipe.close()
    pipe.close()


def test_a_closed_pipe_refuses() -> None:
    pipe = WakePipe()
    number = pipe.fileno()
    pipe.send(b"\0")
    pipe.close()
    with pytest.raises(BrokenPipeError):
        pipe.send(b"\0")
    with pytest.raises(BlockingIOError):
        pipe.recv(1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_the_handler_calls_back_in_place() -> None:
    from kazoo.protocol.states import Callback

    handler = DirectHandler()
    called: list[object] = []
    handler.dispatch_callback(Callback("watch", called.append, ("event",)))
    assert called == ["event"]
    assert not handler.running
    thread = handler.spawn(called.append, threading.current_thread())
    thread.join(END_SECONDS)
    assert thread.daemon
    reader, writer = handler.create_socket_pair()
    writer.send(b"\0")
    assert handler.select([reader], [], [], 0)[0] == [reader]
    reader.close()


def test_the_end_of_a_handler(silent: int) -> None:
    handler = DirectHandler()
    connected = handler.create_connection(("127.0.0.1", silent), timeout=END_SECONDS)
    sleeper = handler.spawn(handler.sleep_func, 10 * END_SECONDS)
    handler.abort()
    assert connected.recv(1) == b""
    sleeper.join(END_SECONDS)
    assert not sleeper.is_alive()
    with pytest.raises(ConnectionAbortedError):
        handler.create_connection(("127.0.0.1", silent), timeout=END_SECONDS)
    connected.close()
    handler.abort()


def test_a_server_that_takes_a_connection_and_does_not_answer_it(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kazoo_client, "_HANDSHAKE_SECONDS", 0.01)
    handler = DirectHandler()
    connected = handler.create_connection(("127.0.0.1", silent), timeout=10 * END_SECONDS)
    # It does not wait for a whole session, here ten minutes.
    assert handler.select([connected], [], [], 10 * END_SECONDS) == ([], [], [])
    handler.is_in_handshake = False
    monkeypatch.setattr(kazoo_client, "_HANDSHAKE_SECONDS", 10 * END_SECONDS)
    assert handler.select([connected], [], [], 0.01) == ([], [], [])
    connected.close()


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    log = ConnectionLog()
    with caplog.at_level(logging.DEBUG, "kafkawire.registry.kazoo"):
        log.info("Connecting to %s", "a:1")
        assert log.last == ""
        log.warning("Connection dropped: %s", "refused")
        log.warning("no 100% certainty")
        log.error("a defect")
    assert log.last == "no 100% certainty"
    assert [record.levelname for record in caplog.records] == ["DEBUG", "DEBUG", "DEBUG", "ERROR"]


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a listener that takes connections, in its backlog, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class Answer:
    """Notes how a request ended."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    def set(self, response: object) -> None:
        self.ended.append(response)

    def set_exception(self, error: Exception) -> None:
        self.ended.append(error)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "kafkawire-zookeeper"}


@pytest.mark.parametrize("listens", [True, False])
def test_a_connection_without_an_answer_is_closed_in_time(silent: int, listens: bool) -> None:
    before = threads()
    states: list[str] = []
    # Nothing listens on port 1.
    address = f"127.0.0.1:{silent if listens else 1}"
    connection = KazooConnection(address, 600_000, ["a:b"], None, states.append, states.append)
    connection.start()
    answers = [Answer() for _ in range(2_000)]
    for answer in answers:
        connection.send(object(), answer)
    connection.fail_pending()
    # kazoo refuses what comes before it has begun to connect.
    errors = {type(ended).__name__ for answer in answers for ended in answer.ended}
    assert errors <= {"ConnectionLoss", "ConnectionClosedError"}
    assert all(len(answer.ended) == 1 for answer in answers)
    assert (connection.session_id, any(connection.session_password), connection.last_zxid) == (0, False, 0)
    connection.close(0)
    for thread in threads() - before:
        assert thread.daemon
        thread.join(END_SECONDS)
        assert not thread.is_alive(), "a thread of a closed connection goes on"
    assert states == []


def test_a_connection_that_was_not_started_is_closed() -> None:
    connection = KazooConnection("127.0.0.1:1", 1_000, [], None, list[str]().append, list[object]().append)
    assert connection.close(END_SECONDS * 1_000)
