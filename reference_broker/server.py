"""The broker's sockets, clock and threads: the only file with asyncio.

`Broker` runs on the caller's event loop; `BackgroundBroker` runs one in its own thread, for tests and synchronous
programs; `serve` runs until a signal stops it. Requests are handled inline; only syncing to disk runs on another
thread. Regions of files are sent with `sendfile`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.log.file import FileSlice
from kafkawire.reference_broker.log.log_directory import LogDirectory
from kafkawire.reference_broker.options import read_options
from kafkawire.reference_broker.session import Session
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.stream import FrameProtocol
from kafkawire.sdk.transport.wire import Address

__all__ = ["BackgroundBroker", "Broker", "serve"]

_log = logging.getLogger(__name__)

#: Longest time between two checks for idle connections.
_IDLE_CHECK_MS = 60_000

#: Connections that the operating system queues until they are accepted.
_BACKLOG = 511

#: How long `BackgroundBroker` waits for its thread.
_THREAD_TIMEOUT_SECONDS = 60

#: How long to stop accepting connections after accepting one failed.
_ACCEPT_PAUSE_SECONDS = 0.1

#: How long clients may take to read their last responses when the broker stops, and how often that is checked.
_LAST_RESPONSES_MS = 1_000
_LAST_RESPONSES_PAUSE_SECONDS = 0.002

#: Wildcard addresses, which clients cannot connect to.
_ANY_ADDRESS = ("", "0.0.0.0", "::")


class _ClientWire(FrameProtocol):
    """A client's TCP connection: sends responses in order, and files without copying them into the process."""

    def __init__(self, broker: Broker, session: Callable[[_ClientWire], Session], max_frame_bytes: int) -> None:
        super().__init__(lambda _: session(self), max_frame_bytes)
        assert isinstance(self.receiver, Session)
        self.session = self.receiver
        self._broker = broker
        self._tcp: asyncio.Transport | None = None
        self._outgoing: deque[Buffer | FileSlice] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._tcp = transport
        # A client may be gone already.
        peer = transport.get_extra_info("peername") or ("unknown",)
        self.session.client_host = f"/{peer[0]}"
        self.session.on_pause = self._pause_reading
        self._broker.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker.disconnected(self)
        self._outgoing.clear()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection and discard unsent bytes."""
        if self._tcp is not None:
            self._tcp.abort()

    def write(self, parts: Sequence[Buffer | FileSlice]) -> None:
        self._outgoing.extend(parts)
        if self._sending is None:
            self._send()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_full = True
        self._tell_session()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_full = False
        self._tell_session()

    def _tell_session(self) -> None:
        self.session.writing_blocked(self._is_full or self._sending is not None)

    def _pause_reading(self, pause: bool) -> None:
        if self._tcp is None or self._tcp.is_closing():
            return
        if pause:
            self._tcp.pause_reading()
        else:
            self._tcp.resume_reading()

    def _send(self) -> None:
        """Send what is queued; when the socket blocks mid-file, a task continues."""
        while self._outgoing and self.is_open:
            part = self._outgoing.popleft()
            if not isinstance(part, FileSlice):
                buffers = [part]
                while self._outgoing and not isinstance(self._outgoing[0], FileSlice):
                    buffers.append(self._outgoing.popleft())  # type: ignore[arg-type]  # just checked
                super().write(buffers)
            elif (rest := self._send_file(part)) is not None:
                self._sending = asyncio.get_running_loop().create_task(self._send_slowly(rest))
                self._tell_session()
                return

    def _send_file(self, part: FileSlice) -> FileSlice | None:
        """Send as much of a file as the socket takes now; return the rest, None if nothing is left."""
        assert self._tcp is not None
        position, left = part.position, part.size_bytes
        if self._tcp.get_write_buffer_size() == 0:
            client = self._tcp.get_extra_info("socket").fileno()
            try:
                while left:
                    sent = os.sendfile(client, part.file.fileno(), position, left)
                    if not sent:
                        break
                    position += sent
                    left -= sent
            except BlockingIOError:
                pass
            except OSError:
                self.abort()
                return None
        return FileSlice(part.file, position, left) if left else None

    async def _send_slowly(self, part: FileSlice) -> None:
        assert self._tcp is not None
        try:
            loop = asyncio.get_running_loop()
            file = cast("BinaryIO", part.file)  # only its descriptor is used
            sent = await loop.sendfile(self._tcp, file, part.position, part.size_bytes, fallback=False)
            if sent < part.size_bytes:
                self.abort()
        except (OSError, RuntimeError):
            # The client is gone; connection_lost follows.
            self.abort()
        finally:
            self._sending = None
        self._send()
        if self._sending is None:
            self._tell_session()


class Broker:
    """A broker on the running event loop.

    Args:
        data_dir: the folder of its files; created if it does not exist.
        host: the address to listen on.
        port: the port to listen on; 0 for a free one.
        options: the fields of `BrokerOptions`; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range.
    """

    def __init__(self, data_dir: str | Path, host: str = "127.0.0.1", port: int = 0, **options: object) -> None:
        self._path = Path(data_dir)
        self._host = host
        self._port = port
        self._options = read_options(options)
        self._core: Core | None = None
        self._listener: socket.socket | None = None
        self._connecting: set[asyncio.Task[object]] = set()
        self._pause_timer: asyncio.TimerHandle | None = None
        self._address: Address | None = None
        self._wires: set[_ClientWire] = set()
        self._executor: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        # The wall clock at the start, advanced by the monotonic one, so that timestamps and timeouts agree.
        self._clock_offset_ms = now_ms() - monotonic_ms()

    @property
    def address(self) -> Address:
        """The address that clients connect to.

        Raises:
            Closed: the broker is not running.
        """
        if self._address is None:
            raise Closed("the broker is not running")
        return self._address

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to, as `host:port`."""
        return str(self.address)

    @property
    def core(self) -> Core:
        """The broker without sockets.

        Raises:
            Closed: the broker is not running.
        """
        if self._core is None:
            raise Closed("the broker is not running")
        return self._core

    async def start(self) -> None:
        """Open the logs, recovering from a crash if there was one, and listen.

        Raises:
            ConfigurationError: the data directory belongs to another broker.
            OSError: the address is in use, or the directory cannot be written.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        # Kept, so that a restarted broker listens where its clients expect it.
        port = self._port = listener.getsockname()[1]
        advertised = self._options.advertised_host or self._host
        self._address = Address(socket.gethostname() if advertised in _ANY_ADDRESS else advertised, port)
        try:
            directory = LogDirectory(
                self._path, self._options.node_id, lambda: uuid.uuid4().bytes, self._options.topic_defaults
            )
            self._core = Core(
                directory, self._options, self._address, lambda: str(uuid.uuid4()), self._now_ms(), self._in_background
            )
        except BaseException:
            listener.close()
            raise
        self._core.timers.on_earlier = self._wake_at
        self._wake_next()
        self._check_idle()
        self._listener = listener
        self._listen(listener)

    async def stop(self) -> None:
        """Send the responses that are ready, sync everything to disk, and close; may be called more than once."""
        if self._core is None:
            return
        await self._stop_listening()
        for wire in list(self._wires):
            wire.close()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None
        core, self._core = self._core, None
        core.close()
        deadline_ms = monotonic_ms() + _LAST_RESPONSES_MS
        while self._wires and monotonic_ms() < deadline_ms:
            await asyncio.sleep(_LAST_RESPONSES_PAUSE_SECONDS)
        for wire in list(self._wires):
            wire.abort()

    async def kill(self) -> None:
        """Stop as in a crash: send nothing, sync nothing, write no clean-shutdown file."""
        if self._core is not None:
            await self._stop_listening()
            for wire in list(self._wires):
                wire.abort()
            if self._executor is not None:
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = None
            self._core = None

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        if self._connecting:
            await asyncio.wait(self._connecting)
        for timer in (self._timer, self._idle_timer, self._pause_timer):
            if timer is not None:
                timer.cancel()
        if self._core is not None:
            self._core.timers.on_earlier = None
        self._address = None

    # Connections.

    def _listen(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept a connection."""
        loop = asyncio.get_running_loop()
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Most likely too many open files: wait until others are closed.
            _log.warning("cannot accept a connection: %s", error)
            loop.remove_reader(listener)
            self._pause_timer = loop.call_later(_ACCEPT_PAUSE_SECONDS, self._listen, listener)
            return
        client.setblocking(False)
        task = loop.create_task(loop.connect_accepted_socket(self._wire, client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _wire(self) -> _ClientWire:
        loop = asyncio.get_running_loop()
        core = self.core

        def session(wire: _ClientWire) -> Session:
            return Session(core, wire, self._now_ms, loop.call_soon, sends_files=True)

        return _ClientWire(self, session, self._options.max_frame_bytes)

    def connected(self, wire: _ClientWire) -> None:
        """Register a new connection, or refuse it if there are too many."""
        if len(self._wires) >= self._options.max_connections:
            wire.abort()
        else:
            self._wires.add(wire)

    def disconnected(self, wire: _ClientWire) -> None:
        """Forget a connection."""
        self._wires.discard(wire)

    def _check_idle(self) -> None:
        limit_ms = self._options.connections_max_idle_ms
        oldest_ms = self._now_ms() - limit_ms
        for wire in list(self._wires):
            if wire.session.is_idle and wire.session.last_active_ms < oldest_ms:
                wire.close()
        delay_ms = min(limit_ms, _IDLE_CHECK_MS)
        self._idle_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._check_idle)

    # Time and threads.

    def _now_ms(self) -> int:
        return monotonic_ms() + self._clock_offset_ms

    def _wake_at(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(deadline_ms - self._now_ms(), 0)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._core is not None:
            self._core.advance(self._now_ms())
            self._wake_next()

    def _wake_next(self) -> None:
        if (deadline_ms := self.core.timers.next_deadline_ms) is not None:
            self._wake_at(deadline_ms)

    def _in_background(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "kafkawire-broker-sync")

        def finished(future: asyncio.Future[None]) -> None:
            error = None if future.cancelled() else future.exception()
            done(error if isinstance(error, Exception) else None)

        asyncio.get_running_loop().run_in_executor(self._executor, work).add_done_callback(finished)


class BackgroundBroker:
    """A broker in its own thread, for tests and synchronous programs.

    Args:
        data_dir: see `Broker`.
        host: see `Broker`.
        port: see `Broker`.
        options: see `Broker`.

    Raises:
        ConfigurationError: an option is unknown or out of range.
    """

    def __init__(self, data_dir: str | Path, host: str = "127.0.0.1", port: int = 0, **options: object) -> None:
        self._broker = Broker(data_dir, host, port, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to, as `host:port`."""
        return self._broker.bootstrap

    def start(self) -> None:
        """Start the thread and wait until the broker listens.

        Raises:
            ConfigurationError: the data directory belongs to another broker.
            OSError: the address is in use, or the directory cannot be written.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafkawire-broker", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._broker.start(), self._loop).result(_THREAD_TIMEOUT_SECONDS)
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        """Shut down cleanly, see `Broker.stop`; may be called more than once."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._broker.stop(), self._loop).result(_THREAD_TIMEOUT_SECONDS)
            self._end_thread()

    def kill(self) -> None:
        """Stop as in a crash, see `Broker.kill`."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._broker.kill(), self._loop).result(_THREAD_TIMEOUT_SECONDS)
            self._end_thread()

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None

        async def settle() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Closed connections need one iteration of the loop to be gone.
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(settle(), loop).result(_THREAD_TIMEOUT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_THREAD_TIMEOUT_SECONDS)
        loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve(
    listen: Address,
    data_dir: str | Path,
    options: Mapping[str, object],
    started: Callable[[Broker], None] | None = None,
) -> None:
    """Run a broker until SIGINT or SIGTERM.

    Args:
        listen: the address to listen on.
        data_dir: the folder of its files; created if it does not exist.
        options: see `BrokerOptions`.
        started: called once clients can connect.

    Raises:
        ConfigurationError: an option is invalid, or the data directory belongs to another broker.
        OSError: the address is in use, or the directory cannot be written.
    """

    # Every partition keeps files open, every client a socket: the usual soft limit of 1,024 is soon reached.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    async def run() -> None:
        broker = Broker(data_dir, listen.host, listen.port, **options)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        await broker.start()
        try:
            if started is not None:
                started(broker)
            await stopped.wait()
        finally:
            await broker.stop()

    asyncio.run(run())
