"""kazoo's connection makes its callbacks directly, never blocks its sender, and ends when told to.

Method: test the parts in isolation, a connection to a listener that accepts connections but never answers, like a
stopped ZooKeeper server, and connections to a server that follows a script (`scripted_server.py`).
"""

from __future__ import annotations

import inspect
import logging
import os
import queue
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from kafkawire.sdk.registry import kazoo_client
from kafkawire.sdk.registry.kazoo_client import ConnectionLog, DirectHandler, KazooConnection, KnownSession, WakePipe
from kafkawire.sdk.registry.kazoo_requests import KazooTranslation
from kafkawire.sdk.registry.registry import GetData, SetData
from kafkawire.sdk.transport.tls import PemFiles, tls_context
from tests.certificates import Certificates
from tests.sdk.registry.scripted_server import ScriptedConnection, ScriptedServer

pytest.importorskip("kazoo")

#: A thread that has not ended by this time never will.
END_SECONDS = 60


def is_readable(pipe: WakePipe) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_a_pipe_has_as_many_bytes_as_were_sent() -> None:
    pipe = WakePipe()
    assert not is_readable(pipe)
    for _ in range(100_000):  # a socket pair would have blocked long ago
        pipe.send(b"\0")
    for _ in range(100_000):
        assert pipe.recv(1) == b"\0"
    assert not is_readable(pipe)
    with pytest.raises(BlockingIOError):
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


def test_an_interruption_leaves_no_byte_that_wakes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, write = WakePipe(), os.write

    def interrupted(number: int, data: bytes) -> int:
        write(number, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pipe.send(b"\0")
    assert is_readable(pipe)
    assert pipe.recv(1) == b"\0"
    assert not is_readable(pipe)
    pipe.send(b"\0")
    assert is_readable(pipe), "the reader must not sleep once a byte has been sent"
    pipe.close()


def test_a_child_process_closes_its_copy_of_a_pipe() -> None:
    pipe = WakePipe()
    number = pipe.fileno()
    pipe._lock.acquire()  # as if another thread of the parent held it
    pipe.forked()
    with pytest.raises(BrokenPipeError):
        pipe.send(b"\0")
    pipe.close()
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
    # The connection does not wait for a whole session timeout, which is ten minutes here.
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
    """The port of a listener that accepts connections into its backlog, but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


class Answer:
    """Records how a request ends."""

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
    # kazoo refuses requests before it has begun to connect.
    errors = {type(ended).__name__ for answer in answers for ended in answer.ended}
    assert errors <= {"ConnectionLoss", "ConnectionClosedError"}
    assert all(len(answer.ended) == 1 for answer in answers)
    assert (connection.session_id, any(connection.session_password), connection.last_zxid) == (0, False, 0)
    connection.close(0)
    for thread in threads() - before:
        assert thread.daemon
        thread.join(END_SECONDS)
        assert not thread.is_alive(), "the thread of a closed connection is still running"
    assert states == []


def test_a_connection_that_was_not_started_is_closed() -> None:
    connection = KazooConnection("127.0.0.1:1", 1_000, [], None, list[str]().append, list[object]().append)
    assert connection.close(END_SECONDS * 1_000)


# Connections to a server that follows a script.


class WaitedAnswer:
    """An answer that lets a test wait for the end of each request."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.set = self.set_exception = self.queue.put


class States:
    """The states of a connection, for which a test can wait."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.put = self._queue.put

    def next(self) -> str:
        return self._queue.get(timeout=END_SECONDS)


def connected(
    server: ScriptedServer,
    states: States,
    *,
    digests: Sequence[str] = (),
    sasl: Mapping[str, str] | None = None,
    session: KnownSession | None = None,
    on_event: Callable[[Any], None] = lambda event: None,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> KazooConnection:
    address = f"{host}:{server.port}"
    connection = KazooConnection(address, 18_000, digests, sasl, states.put, on_event, session, tls)
    connection.start()
    return connection


SASL = {"mechanism": "DIGEST-MD5", "username": "alice", "password": "secret"}


def test_a_silent_server_is_noticed_while_requests_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100_000]
    monkeypatch.setattr(kazoo_client, "monotonic_ms", lambda: now[0])
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def silent_after_welcome(peer: ScriptedConnection) -> None:
        peer.welcome(timeout_ms=18_000)
        while request := peer.receive():
            received.put(request)

    with ScriptedServer([silent_after_welcome]) as server:
        states, answer = States(), Answer()
        connection = connected(server, states)
        assert states.next() == "CONNECTED"
        request = KazooTranslation("").request_of(GetData("/a"))
        for passed_ms in (0, 6_000, 11_900):
            now[0] = 100_000 + passed_ms
            connection.send(request, answer)
            assert received.get(timeout=END_SECONDS)
        assert answer.ended == []
        assert connection.agreed_timeout_ms == 18_000
        # Two thirds of the session timeout.
        now[0] = 112_000
        connection.send(request, answer)
        assert states.next() == "SUSPENDED"
        assert connection.log.last in (
            "Transition to CONNECTING",
            "Connection time-out: nothing was received for 12000 ms",
        )
        assert {type(ended).__name__ for ended in answer.ended} == {"ConnectionLoss"}
        connection.abandon()


def test_what_is_received_while_a_request_is_written_ends_the_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(kazoo_client, "monotonic_ms", lambda: now[0])
    handler = DirectHandler()
    own, other = socket.socketpair()
    with own, other:
        handler._sockets = [own]
        handler.limit_silence(12_000)
        own.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                own.send(bytes(65_536))
        other.send(b"x")
        now[0] = 12_000
        assert handler.select([], [own], [], 0) == ([], [], [])
        own.recv(1)
        now[0] = 24_000
        with pytest.raises(DirectHandler.timeout_exception, match="nothing was received for 12000 ms"):
            handler.select([], [own], [], 0)


def test_a_login_that_the_server_refuses_by_a_code(caplog: pytest.LogCaptureFixture) -> None:
    def refuses(peer: ScriptedConnection) -> None:
        peer.welcome()
        peer.answer(code=-124)

    with ScriptedServer([refuses]) as server:
        states = States()
        connection = connected(server, states, sasl=SASL)
        assert [states.next(), states.next()] == ["CONNECTED", "AUTH_FAILED"]
        assert connection.session is None
        connection.abandon()
    assert "Unhandled exception" not in caplog.text


def test_a_connection_that_is_lost_during_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a session that has logged in before, this is an ordinary loss, up to a limit."""
    monkeypatch.setattr(kazoo_client, "_PAUSE_MIN_SECONDS", 0.001)
    monkeypatch.setattr(kazoo_client, "_LOGIN_LOSSES_MAX", 2)
    requests = []

    def drops(peer: ScriptedConnection) -> None:
        requests.append(peer.welcome(session_id=0x123))
        peer.receive()

    with ScriptedServer([drops] * 3) as server:
        states = States()
        connection = connected(server, states, sasl=SASL, session=KnownSession(0x123, b"q" * 16, 55))
        told = [states.next() for _ in range(6)]
        assert told == ["CONNECTED", "SUSPENDED", "CONNECTED", "SUSPENDED", "CONNECTED", "AUTH_FAILED"]
        connection.abandon()
    # The fields are protocol, last transaction, timeout, session and password.
    assert requests[0][:44] == struct.pack(">iqiqi16s", 0, 55, 18_000, 0x123, 16, b"q" * 16)


def test_a_first_login_that_the_server_refuses_by_closing() -> None:
    def drops(peer: ScriptedConnection) -> None:
        peer.welcome()
        peer.receive()

    with ScriptedServer([drops]) as server:
        states = States()
        connection = connected(server, states, sasl=SASL)
        assert [states.next(), states.next()] == ["CONNECTED", "AUTH_FAILED"]
        connection.abandon()


def test_a_session_to_continue_that_has_expired() -> None:
    def expired(peer: ScriptedConnection) -> None:
        peer.welcome(session_id=0, timeout_ms=0)

    def ends(peer: ScriptedConnection) -> None:
        peer.welcome(session_id=8)
        peer.receive()

    with ScriptedServer([expired, ends]) as server:
        states = States()
        connection = connected(server, states, session=KnownSession(7, b"q" * 16, 55))
        assert [states.next(), states.next()] == ["EXPIRED_SESSION", "CONNECTED"]
        assert connection.session_id == 8
        connection.abandon()


def test_a_continued_session_hears_of_watches_that_another_connection_has_set() -> None:
    """The server sends these events in response to SetWatches, whichever connection has set the watches."""
    kinds = {1: "CREATED", 2: "DELETED", 3: "CHANGED", 4: "CHILD"}

    def fires(peer: ScriptedConnection) -> None:
        peer.welcome()
        for kind in kinds:
            peer.send(struct.pack(">iqiiii2s", -1, -1, 0, kind, 3, 2, b"/a"))
        peer.receive()

    with ScriptedServer([fires]) as server:
        states = States()
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        connection = connected(server, states, session=KnownSession(7, b"p" * 16, 55), on_event=events.put)
        found = [events.get(timeout=END_SECONDS) for _ in range(5)]
        connection.abandon()
    assert [(event.type, event.path) for event in found] == [
        (kind, "/a") for kind in ("CREATED", "DELETED", "DELETED", "CHANGED", "CHILD")
    ], "a deletion must end watches of both kinds, and be reported for each"


def test_a_thread_that_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> object:
        raise OSError("System error")

    def lost(peer: ScriptedConnection) -> None:
        peer.welcome()
        monkeypatch.setattr(socket, "getaddrinfo", fails)

    with ScriptedServer([lost]) as server:
        states = States()
        connection = connected(server, states)
        assert [states.next(), states.next(), states.next()] == ["CONNECTED", "SUSPENDED", "CLOSED"]
        assert connection.session == KnownSession(7, b"p" * 16, 0)
        assert connection.log.last == "the connection's thread has failed: OSError('System error')"
        connection.abandon()
        # The end is reported even if there has never been a connection.
        again = connected(server, states)
        assert states.next() == "CLOSED"
        assert again.session is None
        again.abandon()


@pytest.mark.parametrize("is_answered", [True, False])
def test_the_end_of_a_session_is_confirmed(is_answered: bool) -> None:
    def close(peer: ScriptedConnection) -> None:
        peer.welcome()
        assert struct.unpack(">i", (peer.answer() if is_answered else peer.receive())[4:]) == (-11,)

    with ScriptedServer([close]) as server:
        states = States()
        connection = connected(server, states)
        assert states.next() == "CONNECTED"
        assert connection.close(END_SECONDS * 1_000) is is_answered


# TLS.


def test_answers_that_come_together_are_all_read(certificates: Certificates) -> None:
    """TLS decrypts both answers together, so the system reports no more data to read."""

    def two(peer: ScriptedConnection) -> None:
        peer.welcome()
        numbers = [struct.unpack(">i", peer.receive()[:4])[0] for _ in range(2)]
        frames = [struct.pack(">iqi", number, 9, -101) for number in numbers]
        peer.send_raw(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        peer.receive()

    with ScriptedServer([two], certificates.context(certificates.broker)) as server:
        states = States()
        trusting = tls_context(PemFiles(str(certificates.authority)))
        connection = connected(server, states, tls=trusting, host="localhost")
        assert states.next() == "CONNECTED"
        answers = [WaitedAnswer(), WaitedAnswer()]
        for answer in answers:
            connection.send(KazooTranslation("").request_of(GetData("/a")), answer)
        for answer in answers:
            assert type(answer.queue.get(timeout=END_SECONDS)).__name__ == "NoNodeError"
        connection.abandon()


def test_a_server_that_is_not_trusted(certificates: Certificates) -> None:
    with ScriptedServer([ScriptedConnection.receive], certificates.context(certificates.stranger)) as server:
        handler = DirectHandler(tls_context(PemFiles(str(certificates.authority))))
        with pytest.raises(ssl.SSLCertVerificationError):
            handler.create_connection(address=("127.0.0.1", server.port), hostname="localhost", timeout=END_SECONDS)


def test_a_handshake_that_hangs_is_given_up(certificates: Certificates, silent: int) -> None:
    handler = DirectHandler(tls_context(PemFiles(str(certificates.authority))))
    ended: queue.SimpleQueue[Exception] = queue.SimpleQueue()

    def connect() -> None:
        try:
            handler.create_connection(address=("127.0.0.1", silent), hostname="localhost", timeout=END_SECONDS)
        except OSError as error:
            ended.put(error)

    thread = handler.spawn(connect)
    while not handler._sockets:
        thread.join(0.001)
    handler.abort()
    assert isinstance(ended.get(timeout=END_SECONDS), OSError)
    thread.join(END_SECONDS)


def test_a_connection_that_is_abandoned_does_not_end_its_session() -> None:
    received = []

    def wait(peer: ScriptedConnection) -> None:
        peer.welcome()
        received.append(peer.receive())

    before = threads()
    with ScriptedServer([wait]) as server:
        states = States()
        connection = connected(server, states)
        assert states.next() == "CONNECTED"
        connection.abandon()
    assert received == [b""]
    assert not threads() - before


def test_a_child_process_leaves_the_connection_to_its_parent() -> None:
    def echo(peer: ScriptedConnection) -> None:
        peer.welcome()
        peer.answer()

    with ScriptedServer([echo]) as server:
        states, answer = States(), Answer()
        connection = connected(server, states)
        assert states.next() == "CONNECTED"
        child = os.fork()
        if not child:  # pragma: no cover
            connection.forked()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        connection.send(type(KazooTranslation("").request_of(SetData("/a", b"")))("/a", b"", -1), answer)
        assert states.next() == "SUSPENDED"  # the script has ended
        assert len(answer.ended) == 1
        connection.abandon()


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    content = b"the password of a user"

    def serve(peer: ScriptedConnection) -> None:
        peer.welcome(password=b"k" * 16)
        peer.answer()  # to the digest
        stat = struct.pack(">qqqqiiiqiiq", *range(11))
        peer.answer(body=stat)
        peer.answer(body=struct.pack(">i", len(content)) + content + stat)
        peer.receive()

    caplog.set_level(1, "kafkawire.registry.kazoo")
    with ScriptedServer([serve]) as server:
        states, translation = States(), KazooTranslation("")
        connection = connected(server, states, digests=["alice:secret"])
        assert states.next() == "CONNECTED"
        answer = WaitedAnswer()
        for operation in (SetData("/a", content), GetData("/a")):
            connection.send(translation.request_of(operation), answer)
            answer.queue.get(timeout=END_SECONDS)
        connection.abandon()
    assert "Sending request(xid=1): SetData /a" in caplog.text
    for secret in ("secret", "password of", "kkk", (b"k" * 16).hex()):
        assert secret not in caplog.text


def test_the_names_of_kazoo_that_are_not_public() -> None:
    """When a newer kazoo is released, check these first, then raise the limit in pyproject.toml."""
    from kazoo.client import KazooClient
    from kazoo.protocol.connection import ConnectionHandler

    methods: dict[Any, Sequence[str]] = {
        KazooClient: ("_call", "_notify_pending", "_reset_watchers", "_safe_close", "_session_callback"),
        ConnectionHandler: ("_connect", "zk_loop"),
    }
    for kind, names in methods.items():
        assert all(callable(getattr(kind, name, None)) for name in names)
    assert list(inspect.signature(KazooClient._call).parameters) == ["self", "request", "async_object"]
    client = KazooClient(handler=DirectHandler())
    assert {
        "_session_id",
        "_session_passwd",
        "_data_watchers",
        "_child_watchers",
        "_queue",
        "_pending",
        "_stopped",
        "_connection",
        "_state",
    } <= set(vars(client))
    assert {"_write_sock", "zk_loop"} <= {*vars(client._connection), *dir(client._connection)}


def test_the_order_in_which_kazoo_tells_a_loss() -> None:
    """Requests fail before a lost connection is reported, and an ended session is reported before kazoo forgets it."""
    from kazoo.client import KazooClient
    from kazoo.protocol.states import KeeperState

    order: list[object] = []
    client = KazooClient(handler=DirectHandler())

    class Noted(Answer):
        def set_exception(self, error: Exception) -> None:
            order.append(type(error).__name__)

    def told(state: str) -> None:
        order.append((state, client._session_id))

    client.add_listener(told)
    client._session_id = 7
    for state in (KeeperState.CONNECTED, KeeperState.CONNECTING, KeeperState.CONNECTED, KeeperState.EXPIRED_SESSION):
        client._pending.append((object(), Noted(), 1))
        client._session_callback(state)
    assert order == [
        ("CONNECTED", 7),
        *["ConnectionLoss"] * 2,
        ("SUSPENDED", 7),
        ("CONNECTED", 7),
        ("LOST", 7),
        *["SessionExpiredError"] * 2,
    ]
