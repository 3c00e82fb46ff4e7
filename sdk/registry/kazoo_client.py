"""kazoo's connection to a ZooKeeper server, on one thread and without queues: events are reported in wire order.

kazoo's own handler passes results to one thread and events to another, so an event may be reported after an outcome
that already reflects the change. `DirectHandler` calls back on the thread of the connection, where `ZooKeeperRegistry`
only appends to its inbox. Only this module uses kazoo's private names: `_call` queues any request, and
`_notify_pending` fails queued requests. Because of these two, pyproject.toml limits kazoo's version.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import select
import socket
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkawire.sdk.clock import monotonic_ms

if TYPE_CHECKING:
    import ssl

__all__ = ["ConnectionLog", "DirectHandler", "KazooConnection", "KnownSession", "WakePipe"]

#: The shortest and the longest pause between attempts to connect; each pause is twice the previous one, with some
#: jitter.
_PAUSE_MIN_SECONDS: Final = 0.1
_PAUSE_MAX_SECONDS: Final = 2.0

#: The time allowed for connecting and receiving the first answer, unless the session timeout is shorter. A ZooKeeper
#: server that is starting up accepts connections but never answers them.
_HANDSHAKE_SECONDS: Final = 6.0

#: The minimum time to allow for a TLS handshake, no matter how long it took to connect.
_ROUND_TRIP_SECONDS: Final = 1.0

#: How many connections in a row may be lost while a previously successful login is repeated; the next loss is treated
#: as a refusal. Some servers refuse a login only by closing the connection.
_LOGIN_LOSSES_MAX: Final = 5

#: kazoo considers a connection lost if nothing is received for this share of the timeout that the servers grant.
_SILENT_SHARE: Final = 2 / 3

#: Receives kazoo's log lines about its connections, including several warnings for each attempt.
_log = logging.getLogger("kafkawire.registry.kazoo")


class WakePipe:
    """Wakes kazoo's thread once for each request, like kazoo's own socket pair, but never blocks the sender.

    A socket pair fills up after a few hundred bytes if its reader is busy with a connection.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._lock = threading.Lock()
        #: The number of bytes sent but not received; if it is positive, the pipe contains a byte.
        self._count = 0
        self._open_ends = 2

    def fileno(self) -> int:
        """Return the file descriptor that is readable while a byte is waiting."""
        return self._reader

    def send(self, data: bytes) -> None:
        """Send a byte.

        Raises:
            OSError: the pipe is closed.
        """
        with self._lock:
            if self._open_ends < 2:
                raise BrokenPipeError("the connection was closed")
            # The order matters: if interrupted in between, the reader may wake needlessly, but never misses a byte.
            if not self._count:
                os.write(self._writer, b"\0")
            self._count += 1

    def recv(self, size_bytes: int) -> bytes:
        """Receive a byte.

        Raises:
            OSError: no byte is waiting, or the pipe is closed.
        """
        with self._lock:
            if self._open_ends < 2:
                raise BlockingIOError("the connection was closed")
            self._count = max(self._count - 1, 0)
            if not self._count:
                # Read all bytes: one that is not counted would wake the reader over and over.
                os.read(self._reader, 4096)
            return b"\0"

    def close(self) -> None:
        """Close one end; closing the first end closes both."""
        with self._lock:
            if self._open_ends == 2:
                os.close(self._reader)
                os.close(self._writer)
            self._open_ends -= 1

    def forked(self) -> None:
        """Close the child's copies of the parent's pipe; the parent's threads may have held the lock."""
        self._lock = threading.Lock()
        if self._open_ends == 2:
            os.close(self._reader)
            os.close(self._writer)
        self._open_ends = 0


class _TimedOut(Exception):
    """The server did not answer in time."""


class DirectHandler:
    """Provides threads and sockets to kazoo's client (`kazoo.interfaces.IHandler`).

    Callbacks run immediately, on the thread of the connection.

    Args:
        tls: the TLS configuration; None for connections without TLS. kazoo's own configuration would always trust the
            system's certificate authorities.
    """

    name = "kafkawire"
    timeout_exception = _TimedOut
    #: kazoo calls result callbacks in place if its handler is not running.
    running = False

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._is_ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self._pipe: WakePipe | None = None
        self._lock = threading.Lock()
        #: Whether there is a connection whose first request has not been answered.
        self.is_in_handshake = False
        self._silence_ms = math.inf
        self._received_at_ms = 0

    def limit_silence(self, silence_ms: float) -> None:
        """Start the timeout of a new connection, which is considered lost once nothing has been received for this long.

        kazoo itself checks its pings only while it is not sending anything.
        """
        self._silence_ms = silence_ms
        self._received_at_ms = monotonic_ms()

    def abort(self) -> None:
        """End all waits and the connection immediately, so that kazoo's thread ends."""
        with self._lock:
            self._is_ended.set()
            for each in self._sockets:
                try:
                    # A TLS socket's own `shutdown` would remove TLS state that another thread is using.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)
                except OSError:
                    continue  # it is already closed

    def sleep_func(self, seconds: float) -> None:
        """Sleep between two attempts to connect."""
        self._is_ended.wait(seconds)

    def create_connection(self, *arguments: Any, **options: Any) -> socket.socket:
        """Connect a socket; see `kazoo.handlers.utils.create_tcp_connection`.

        Raises:
            OSError: it cannot connect, or the handler has ended.
        """
        from kazoo.handlers.utils import create_tcp_connection

        if self._is_ended.is_set():
            raise ConnectionAbortedError("the registry was closed")
        limit = options["timeout"] = min(options["timeout"], _HANDSHAKE_SECONDS)
        since_ms = monotonic_ms()
        try:
            connected: socket.socket = create_tcp_connection(socket, *arguments, **options)
        except TimeoutError as error:
            # Python's own error lacks the text that kazoo looks for.
            raise TimeoutError(errno.ETIMEDOUT, "timed out") from error
        self.is_in_handshake = True
        self._silence_ms = math.inf
        if self._tls is None:
            self._hold(connected)
            return connected
        name = options.get("hostname") or options["address"][0]
        secured = self._tls.wrap_socket(connected, server_hostname=name, do_handshake_on_connect=False)
        self._hold(secured)
        try:
            secured.settimeout(max(limit - (monotonic_ms() - since_ms) / 1000, _ROUND_TRIP_SECONDS))
            secured.do_handshake()
        except OSError:
            secured.close()
            raise
        return secured

    def _hold(self, connected: socket.socket) -> None:
        """Remember a connection for `abort` to end."""
        with self._lock:
            # There is only one connection at a time: any earlier one is closed.
            self._sockets = [connected]
            if self._is_ended.is_set():
                connected.close()
                raise ConnectionAbortedError("the registry was closed")

    def select(self, reads: Sequence[Any], writes: Sequence[Any], others: Sequence[Any], timeout: float) -> Any:
        """Wait for sockets; return the readable ones, the writable ones, and an empty list.

        Raises:
            _TimedOut: nothing has been received for too long.
        """
        # The operating system does not know about data that TLS has decrypted but kazoo has not read.
        decrypted = [file for file in reads if hasattr(file, "pending") and file.pending()]
        if decrypted:
            return decrypted, [], []
        # kazoo's own method creates a selector in each call, and each request takes two calls.
        poll = select.poll()
        for files, event in ((reads, select.POLLIN), (writes, select.POLLOUT)):
            for file in files:
                poll.register(file, event)
        limit = min(timeout, _HANDSHAKE_SECONDS) if self.is_in_handshake else timeout
        limit_ms = min(limit * 1000, self._received_at_ms + self._silence_ms - monotonic_ms())
        ready = {number for number, _ in poll.poll(math.ceil(max(limit_ms, 0)))}
        found = [[file for file in files if file.fileno() in ready] for files in (reads, writes)]
        if any(each in found[0] for each in self._sockets):
            self._received_at_ms = monotonic_ms()
        elif monotonic_ms() - self._received_at_ms >= self._silence_ms:
            self._check_silence()
        return *found, []

    def _check_silence(self) -> None:
        """Raise an error unless there is data to receive; kazoo does not read while it writes."""
        poll = select.poll()
        for each in self._sockets:
            poll.register(each, select.POLLIN)
        if not poll.poll(0):
            raise _TimedOut(f"nothing was received for {monotonic_ms() - self._received_at_ms} ms")
        self._received_at_ms = monotonic_ms()

    def create_socket_pair(self) -> tuple[WakePipe, WakePipe]:
        """Return both ends of the pipe that wakes the thread."""
        pipe = self._pipe = WakePipe()
        return pipe, pipe

    def forked(self) -> None:
        """Close the child's copies of the parent's descriptors; the connection itself continues in the parent."""
        self._lock = threading.Lock()
        self._is_ended = threading.Event()
        self._is_ended.set()
        for each in self._sockets:
            each.close()
        self._sockets = []
        if self._pipe is not None:
            self._pipe.forked()

    def event_object(self) -> threading.Event:
        """Return an event."""
        return threading.Event()

    def spawn(self, function: Callable[..., None], *arguments: Any, **options: Any) -> threading.Thread:
        """Run a function on a thread that does not keep the process alive."""
        thread = threading.Thread(
            target=function, args=arguments, kwargs=options, name="kafkawire-zookeeper", daemon=True
        )
        thread.start()
        return thread

    def dispatch_callback(self, callback: Any) -> None:
        """Call a watcher."""
        callback.func(*callback.args)

    def start(self) -> None:
        """Do nothing: there are no other threads."""

    def stop(self) -> None:
        """Do nothing: there are no other threads."""


class ConnectionLog(logging.LoggerAdapter[logging.Logger]):
    """Handles kazoo's log lines: errors keep their level, all others become debug lines.

    Requests and responses contain passwords and node content, so only their types and paths are logged.

    Attributes:
        last: the last warning, which says why there is no connection; empty if there was no warning.
    """

    def __init__(self) -> None:
        super().__init__(_log, {})
        self.last = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line."""
        args = tuple(map(_shown, args))
        if level == logging.WARNING:
            self.last = str(msg) % args if args else str(msg)
        self.logger.log(level if level >= logging.ERROR else min(level, logging.DEBUG), msg, *args, **kwargs)

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Return a line unchanged."""
        return msg, kwargs


def _shown(argument: object) -> object:
    """Return as much of a log argument as may be logged."""
    if argument is None or isinstance(argument, str | int | float | Exception):
        return argument
    kind = type(argument).__name__
    path = getattr(argument, "path", None)
    return f"{kind} {path}" if isinstance(path, str) else kind


class KnownSession(NamedTuple):
    """A session that another connection can continue.

    Attributes:
        session_id: the id of the session.
        password: the password, which proves ownership of the session.
        last_zxid: the last transaction that the session has seen.
    """

    session_id: int
    password: bytes
    last_zxid: int


class _CloseAnswer:
    """Records whether the request to end a session has been answered."""

    def __init__(self) -> None:
        self.is_given = False

    def set(self, response: object) -> None:
        self.is_given = True

    def set_exception(self, error: Exception) -> None:
        """Ignore the error: the session ends when it times out."""


class _OneWatcher(dict[str, set[Callable[[Any], None]]]):
    """Replaces kazoo's table of watchers by path: one watcher takes the events for all paths, and nothing is stored."""

    def __init__(self, watcher: Callable[[Any], None]) -> None:
        super().__init__()
        self._watcher = watcher

    def __missing__(self, path: str) -> set[Callable[[Any], None]]:
        return set()

    def pop(self, path: str, default: Any = None) -> Any:
        """Return the watcher."""
        return {self._watcher}


class KazooConnection:
    """A session, replaced after each expiry, until the credentials are refused or the connection is closed.

    Args:
        hosts: the servers, with their ports, separated by commas.
        session_timeout_ms: after this time without a connection, the servers may end the session.
        digests: credentials for the scheme `digest`, as `user:password`.
        sasl: kazoo's options for SASL; None for no SASL login.
        on_state: called on the thread of the connection with the name of each new kazoo state: CONNECTED, SUSPENDED
            (once `_notify_pending` has failed all requests), EXPIRED_SESSION or AUTH_FAILED; and with CLOSED if the
            thread has ended although the connection was neither closed nor refused, in which case the session may still
            exist.
        on_event: called on the same thread with kazoo's watch events.
        session: the session to continue; None for a new one.
        tls: the TLS configuration; None for no TLS.

    Attributes:
        agreed_timeout_ms: the session timeout that the servers have granted; None before their first answer.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        digests: Sequence[str],
        sasl: Mapping[str, str] | None,
        on_state: Callable[[str], None],
        on_event: Callable[[Any], None],
        session: KnownSession | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        from kazoo.client import KazooClient
        from kazoo.protocol.states import KazooState, KeeperState

        self.log = ConnectionLog()
        self.agreed_timeout_ms: int | None = None
        self._handler = DirectHandler(tls)
        self._on_state = on_state
        self._suspended = KazooState.SUSPENDED
        self._connecting = KeeperState.CONNECTING
        #: The session: kazoo forgets it when its thread ends.
        self._session = KnownSession(0, b"", 0) if session is None else session
        self._is_refused = self._is_closing = False
        self._has_logged_in = session is not None
        self._login_losses = 0
        #: The single watcher of all requests.
        self.watcher = on_event
        retry = {
            "max_tries": -1,
            "delay": _PAUSE_MIN_SECONDS,
            "max_delay": _PAUSE_MAX_SECONDS,
            "sleep_func": self._handler.sleep_func,
        }
        self._client: Any = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=self._handler,
            auth_data=[("digest", digest) for digest in digests],
            sasl_options=None if sasl is None else dict(sasl),
            connection_retry=retry,
            command_retry=dict(retry),
            logger=self.log,
            client_id=None if session is None else (session.session_id, session.password),
        )
        if session is not None:
            self._client.last_zxid = session.last_zxid
            # kazoo begins in the state LOST and never reports a state twice, so it would not report that this session
            # has expired.
            self._client.state = KazooState.SUSPENDED
        connection = self._client._connection
        connection._connect = self._login_checked(connection._connect)
        connection.zk_loop = self._watched(connection.zk_loop)
        # kazoo reports events only to watchers that this client has set, and forgets them when a connection ends. But a
        # session's watches remain, even if another client continues it.
        self._client._reset_watchers = lambda: None
        self._client._data_watchers = _OneWatcher(on_event)
        self._client._child_watchers = _OneWatcher(on_event)
        self._client.add_listener(self._changed)

    def _login_checked(self, connect: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
        """Wrap kazoo's login to tell refused credentials from a connection lost during the login."""
        from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError

        def checked(*arguments: Any) -> tuple[float, float]:
            try:
                timeouts_ms = connect(*arguments)
            except AuthFailedError as error:
                self._login_losses += 1
                is_lost = isinstance(error.__cause__, ConnectionDropped)
                if is_lost and self._has_logged_in and self._login_losses <= _LOGIN_LOSSES_MAX:
                    raise ConnectionDropped(str(error)) from error
                raise
            except SessionClosedRequireSaslError as error:
                raise AuthFailedError("the servers require a SASL login") from error
            self._has_logged_in = True
            self._login_losses = 0
            self._handler.limit_silence(timeouts_ms[0])
            self.agreed_timeout_ms = round(timeouts_ms[0] / _SILENT_SHARE)
            return timeouts_ms

        return checked

    def _watched(self, loop: Callable[[], None]) -> Callable[[], None]:
        """Wrap the loop of kazoo's thread to report when the thread ends on its own."""

        def watched() -> None:
            try:
                loop()
            except Exception as error:
                self.log.warning("the connection's thread has failed: %r", error)
            if not self._is_refused and not self._is_closing:
                self._on_state("CLOSED")

        return watched

    @property
    def session(self) -> KnownSession | None:
        """The data that another connection needs to continue the session; None if there is no session."""
        return self._session if self._session.session_id else None

    @property
    def session_id(self) -> int:
        """The id of the session; 0 if there is none."""
        return self._session.session_id

    @property
    def session_password(self) -> bytes:
        """The password needed to continue the session on another connection."""
        return self._session.password

    @property
    def last_zxid(self) -> int:
        """The last transaction that this session has seen."""
        zxid: int = self._client.last_zxid
        return zxid or self._session.last_zxid

    def start(self) -> None:
        """Begin to connect.

        Raises:
            OSError: there are too many open files.
            RuntimeError: no thread can be started.
        """
        self._client.start_async()

    def send(self, request: Any, answered: Any) -> None:
        """Queue a request; never blocks.

        Args:
            request: one of kazoo's requests, or one with the same interface.
            answered: an object whose `set` or `set_exception` is called, usually on the thread of the connection.
        """
        self._client._call(request, answered)

    def fail_pending(self) -> None:
        """Fail requests that were queued after the connection was lost."""
        self._client._notify_pending(self._connecting)

    def close(self, timeout_ms: int) -> bool:
        """End the session; return whether the servers confirmed it in time. If not, the thread ends soon anyway."""
        from kazoo.protocol.serialization import Close

        self._is_closing = True
        had_session = bool(self.session_id)
        ended, answer = threading.Event(), _CloseAnswer()
        # kazoo does not report the answer to its own request.
        methods = {"__bool__": lambda _: True, "deserialize": lambda *_: True}
        request = type("CloseSession", (Close,), methods)()
        client = self._client

        def stop() -> None:
            try:
                if not client._stopped.is_set():
                    client._stopped.set()
                    client._queue.append((request, answer))
                    client._connection._write_sock.send(b"\0")
                    client._safe_close()
                client.close()
            except Exception as error:
                _log.debug("closing: %s", error)
            ended.set()

        self._handler.spawn(stop)
        in_time = ended.wait(timeout_ms / 1000)
        self._handler.abort()
        return in_time and (answer.is_given or not had_session)

    def drop(self) -> None:
        """End the connection immediately, but not the session; its thread then ends."""
        self._is_closing = True
        self._client._stopped.set()
        self._handler.abort()

    def abandon(self) -> None:
        """End the connection, but not the session; block until the thread has ended."""
        self.drop()
        try:
            self._client._safe_close()
            self._client.close()
        except Exception as error:
            _log.debug("abandoning: %s", error)

    def forked(self) -> None:
        """Release a child process's copy of this connection, which belongs to the parent."""
        self._is_closing = True
        self._handler.forked()

    def _changed(self, state: str) -> None:
        self._handler.is_in_handshake = False
        client = self._client
        if state == self._suspended:
            self._on_state("SUSPENDED")
            return
        # If a session is lost, this says how.
        kind: str = client.client_state
        if kind == "CLOSED":
            # The end is reported when the thread ends; kazoo then forgets this listener.
            self._session = self._session._replace(last_zxid=client.last_zxid)
            return
        self._is_refused = kind == "AUTH_FAILED"
        if kind == "CONNECTED":
            self._session = KnownSession(client._session_id, client._session_passwd, client.last_zxid)
        else:
            self._session = KnownSession(0, b"", 0)
        self._on_state(kind)
