"""kazoo's connection to a ZooKeeper, on one thread, without its queues: everything is told in the order of the wire.

kazoo's own handler hands results to one thread and events to another, so that an event can be told after an outcome
that shows its change. `DirectHandler` calls back on the thread of the connection, where `ZooKeeperRegistry` only
appends to its inbox. Names of kazoo that are not public are used in this module alone: `_call` queues any request, and
`_notify_pending` fails what is queued.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

__all__ = ["ConnectionLog", "DirectHandler", "KazooConnection", "WakePipe"]

#: Pauses between attempts to connect, each twice the one before up to the last, with some jitter.
_PAUSE_MIN_SECONDS: Final = 0.1
_PAUSE_MAX_SECONDS: Final = 2.0

#: A connection, and the answer to its first request, may take so long, or as long as a session if that is shorter. A
#: ZooKeeper that is just starting takes connections that it never answers.
_HANDSHAKE_SECONDS: Final = 6.0

#: What kazoo says of its connections, which is more than a warning for each attempt.
_log = logging.getLogger("kafkawire.registry.kazoo")


class WakePipe:
    """Wakes kazoo's thread once for each request, as its pair of sockets does, without ever blocking the sender.

    A pair of sockets is full after some hundred bytes if its reader is busy with a connection.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._lock = threading.Lock()
        #: So many bytes are sent and not received; the pipe has one byte if there are any.
        self._count = 0
        self._open_ends = 2

    def fileno(self) -> int:
        """Return what is readable while a byte waits."""
        return self._reader

    def send(self, data: bytes) -> None:
        """Send a byte.

        Raises:
            OSError: the pipe is closed.
        """
        with self._lock:
            if self._open_ends < 2:
                raise BrokenPipeError("the connection was closed")
            self._count += 1
            if self._count == 1:
                os.write(self._writer, b"\0")

    def recv(self, size_bytes: int) -> bytes:
        """Receive a byte.

        Raises:
            OSError: there is none, or the pipe is closed.
        """
        with self._lock:
            if not self._count or self._open_ends < 2:
                raise BlockingIOError("no byte was sent")
            self._count -= 1
            return os.read(self._reader, 1) if not self._count else b"\0"

    def close(self) -> None:
        """Close one end; both are closed with the first."""
        with self._lock:
            if self._open_ends == 2:
                os.close(self._reader)
                os.close(self._writer)
            self._open_ends -= 1


class _TimedOut(Exception):
    """A connection took too long."""


class DirectHandler:
    """What kazoo's client needs of threads and sockets (`kazoo.interfaces.IHandler`).

    Callbacks run on the thread of the connection, at once.
    """

    name = "kafkawire"
    timeout_exception = _TimedOut
    #: Callbacks of results are called in place by a handler that does not run.
    running = False

    def __init__(self) -> None:
        self._is_ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        #: Whether there is a connection whose first request was not answered.
        self.is_in_handshake = False

    def abort(self) -> None:
        """End waits, and the connection, at once: kazoo's thread comes to its end."""
        with self._lock:
            self._is_ended.set()
            for each in self._sockets:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # it is closed already

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
        options["timeout"] = min(options["timeout"], _HANDSHAKE_SECONDS)
        connected: socket.socket = create_tcp_connection(socket, *arguments, **options)
        self.is_in_handshake = True
        with self._lock:
            # One connection at a time: a former one is closed.
            self._sockets = [connected]
            if self._is_ended.is_set():
                connected.close()
                raise ConnectionAbortedError("the registry was closed")
        return connected

    def select(self, reads: Sequence[Any], writes: Sequence[Any], others: Sequence[Any], timeout: float) -> Any:
        """Wait for sockets; return those that can be read, those that can be written, and nothing."""
        # kazoo's own makes a selector for each call, and there are two calls for each request.
        poll = select.poll()
        for files, event in ((reads, select.POLLIN), (writes, select.POLLOUT)):
            for file in files:
                poll.register(file, event)
        limit = min(timeout, _HANDSHAKE_SECONDS) if self.is_in_handshake else timeout
        ready = {number for number, _ in poll.poll(limit * 1000)}
        found = [[file for file in files if file.fileno() in ready] for files in (reads, writes)]
        return *found, []

    def create_socket_pair(self) -> tuple[WakePipe, WakePipe]:
        """Return both ends of what wakes the thread."""
        pipe = WakePipe()
        return pipe, pipe

    def event_object(self) -> threading.Event:
        """Return an event."""
        return threading.Event()

    def spawn(self, function: Callable[..., None], *arguments: Any, **options: Any) -> threading.Thread:
        """Run a function on a thread that does not keep the process."""
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
    """Takes kazoo's log lines: errors as they are, the others for debugging.

    Attributes:
        last: the last warning, which says why there is no connection; empty if there was none.
    """

    def __init__(self) -> None:
        super().__init__(_log, {})
        self.last = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line."""
        if level == logging.WARNING:
            self.last = str(msg) % args if args else str(msg)
        self.logger.log(level if level >= logging.ERROR else min(level, logging.DEBUG), msg, *args, **kwargs)

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Return a line as it is."""
        return msg, kwargs


class KazooConnection:
    """A session, and the next one after it has expired, until the credentials are refused or it is closed.

    Args:
        hosts: the servers, with their ports, separated by commas.
        session_timeout_ms: after so long without a connection, the servers may end the session.
        digests: credentials for the scheme `digest`: `user:password`.
        sasl: options of kazoo for SASL; None for none.
        on_state: called on the thread of the connection with the names of kazoo's states: CONNECTED, SUSPENDED (then
            `_notify_pending` has failed all requests), EXPIRED_SESSION, AUTH_FAILED, CLOSED.
        on_event: called there with kazoo's events of watches.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        digests: Sequence[str],
        sasl: Mapping[str, str] | None,
        on_state: Callable[[str], None],
        on_event: Callable[[Any], None],
    ) -> None:
        from kazoo.client import KazooClient
        from kazoo.protocol.states import KazooState, KeeperState

        self.log = ConnectionLog()
        self._handler = DirectHandler()
        self._on_state = on_state
        self._suspended = KazooState.SUSPENDED
        self._connecting = KeeperState.CONNECTING
        #: The watcher of every request, one for all.
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
        )
        # kazoo forgets its watchers when a connection is lost. They stay: the next connection sets them again.
        self._client._reset_watchers = lambda: None
        self._client.add_listener(self._changed)

    @property
    def session_id(self) -> int:
        """The session; 0 if there is none."""
        return self._client._session_id or 0

    @property
    def session_password(self) -> bytes:
        """What continues the session on another connection."""
        password: bytes = self._client._session_passwd
        return password

    @property
    def last_zxid(self) -> int:
        """The last transaction that this session has seen."""
        zxid: int = self._client.last_zxid
        return zxid

    def start(self) -> None:
        """Begin to connect."""
        self._client.start_async()

    def send(self, request: Any, answered: Any) -> None:
        """Queue a request; never blocks.

        Args:
            request: of kazoo, or like one.
            answered: its `set` or its `set_exception` is called, mostly on the thread of the connection.
        """
        self._client._call(request, answered)

    def fail_pending(self) -> None:
        """Fail requests that were queued after the connection was lost."""
        self._client._notify_pending(self._connecting)

    def close(self, timeout_ms: int) -> bool:
        """End the session; return whether that was done in time. If not, its thread ends soon."""
        ended = threading.Event()

        def stop() -> None:
            try:
                self._client.stop()
                self._client.close()
            except Exception as error:
                _log.debug("closing: %s", error)
            ended.set()

        self._handler.spawn(stop)
        in_time = ended.wait(timeout_ms / 1000)
        self._handler.abort()
        return in_time

    def _changed(self, state: str) -> None:
        self._handler.is_in_handshake = False
        if state == self._suspended:
            self._on_state("SUSPENDED")
        else:
            # For a lost session, how it was lost.
            self._on_state(self._client.client_state)
            if not self.session_id:
                self._client._data_watchers.clear()
                self._client._child_watchers.clear()
