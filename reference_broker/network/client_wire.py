"""A client's TCP connection: requests in, responses out in order, and files sent without copying them into memory.

Responses go straight to the socket, through the connection's outlet (`outlets.py`). Only data that the socket does not
accept immediately is left to the transport, and the session stops until the client has read that data. Buffered
requests and responses count towards the memory that all connections share.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from kafkawire.reference_broker.network.memory_budget import MemoryBudget
from kafkawire.reference_broker.network.outlets import Outlet, PlainOutlet
from kafkawire.reference_broker.network.request_frames import RequestFrames
from kafkawire.reference_broker.requests.session import Session
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.transport.stream import CLOSE_LINGER_SECONDS
from kafkawire.sdk.transport.wire import Wire

__all__ = ["ClientWire", "Shared"]

#: The number of buffers to send with one system call; Linux accepts 1,024.
_PARTS_MAX = 1_000

#: Connection states in `struct tcp_info`: reset by the client, and closed by the client.
_TCP_CLOSE = 7
_TCP_CLOSE_WAIT = 8

#: The value for SO_LINGER with which closing discards unsent data and resets the connection.
_NO_LINGER = struct.pack("ii", 1, 0)


class Shared(NamedTuple):
    """State that all connections share.

    Attributes:
        buffer: the shared receive buffer.
        budget: the memory of all connections.
        frame_bytes_max: the maximum size of a request.
    """

    buffer: memoryview
    budget: MemoryBudget
    frame_bytes_max: int


class ClientWire(asyncio.BufferedProtocol):
    """The `Wire` of a client.

    Args:
        client: the non-blocking socket.
        session: creates the client's session, given this wire.
        shared: state shared with all other connections.
        gone: called when the connection is closed.
        outlet: creates what sends on the socket, given the transport on top of it.
    """

    def __init__(
        self,
        client: socket.socket,
        session: Callable[[Wire], Session],
        shared: Shared,
        gone: Callable[[ClientWire], None],
        outlet: Callable[[socket.socket, asyncio.Transport], Outlet] = PlainOutlet,
    ) -> None:
        self._socket = client
        self.session = session(self)
        self._budget = shared.budget
        self._frames = RequestFrames(shared.buffer, self.session.frame_bytes_max, shared.frame_bytes_max)
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._outlet: Outlet | None = None
        self._new_outlet = outlet
        self._outgoing: deque[Buffer | FileSlice] = deque()
        self._is_blocked = False
        self._is_ending = False
        self._is_finishing = False
        self._linger: asyncio.TimerHandle | None = None
        self._held_bytes = 0
        self._is_paused_by_session = False
        self._lacks_memory = False
        self._is_reading = True
        self._was_ended = False
        self._received_bytes = 0
        self._sent_bytes = 0
        self._has_counted_unsent = False
        self.session.on_pause = self._session_pauses
        self.session.on_answer = self._count_held

    # Wire: called by the session.

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and not self._is_ending

    @property
    def is_congested(self) -> bool:
        return self._is_blocked

    @property
    def has_unsent(self) -> bool:
        return bool(self._outgoing) or self._is_blocked

    def write(self, parts: Sequence[Buffer | FileSlice]) -> None:
        """Write buffers and file regions in order."""
        if self._transport is not None and not self._transport.is_closing():
            self._outgoing.extend(parts)
            self._send()

    async def drain(self) -> None:
        """Return immediately, since the session is told when to stop."""

    sent = drain

    def close(self) -> None:
        """Close once everything has been sent, or the client has not read anything for a while."""
        if self._transport is None or self._is_ending:
            return
        self._is_ending = True
        self._set_reading()
        if self.has_unsent:
            self._linger = asyncio.get_running_loop().call_later(CLOSE_LINGER_SECONDS, self.abort)
        else:
            self._end(self._transport)

    def _end(self, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            return
        try:
            if self._is_finishing and self._outlet is not None and (self.session.has_dropped or self._has_unread()):
                self._outlet.end()
                return
        except OSError:
            pass  # the client has disconnected
        transport.close()

    def _has_unread(self) -> bool:
        count = array("i", [0])
        fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, count)
        return count[0] > 0

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """Close as `close` does, but let a client that is still sending read its responses first.

        Closing a socket with unread data resets the connection, and data in flight to the client is lost. So incoming
        data is read and dropped until the client has seen the end of the connection, or the broker aborts it.
        """
        self._is_finishing = True
        self.close()

    # Called by the broker.

    def expire(self) -> None:
        """Close an idle connection; unread data is discarded, even in the kernel."""
        if self.has_unsent:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.abort()

    def look_for_end(self) -> None:
        """Close a connection that its client has closed, which goes unnoticed while the broker is not reading.

        A reset is final. Requests received before an orderly close may still be processed: they have one interval to
        finish, or more if the client expects no response and only the disk is delaying them.
        """
        transport = self._transport
        if self._is_reading or transport is None or transport.is_closing():
            self._was_ended = False
            return
        state = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        if state == _TCP_CLOSE or (state == _TCP_CLOSE_WAIT and self._was_ended and not self.session.is_unanswered):
            self.abort()
        self._was_ended = state == _TCP_CLOSE_WAIT

    @property
    def progress(self) -> tuple[int, int]:
        """Numbers that stay the same while the connection is idle."""
        waiting_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._received_bytes, self._sent_bytes - waiting_bytes

    @property
    def may_be_idle(self) -> bool:
        """Whether the broker is waiting for the client to send a request, to finish one, or to read."""
        return self.has_unsent or not self.session.is_waiting

    # Holder: called by the memory budget.

    @property
    def missing_bytes(self) -> int:
        return self._frames.missing_bytes

    @property
    def unsent_bytes(self) -> int:
        buffered = sum(len(part) for part in self._outgoing if not isinstance(part, FileSlice))
        return buffered + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def no_room(self) -> None:
        self._lacks_memory = True
        self._set_reading()

    def room_again(self) -> None:
        self._lacks_memory = False
        self._set_reading()

    def give_up(self, reason: str) -> None:
        self.abort()
        self.session.break_off(reason)

    # asyncio.BufferedProtocol: called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class has no base class
        self._transport.set_write_buffer_limits(0)  # so any unsent data pauses writing
        self._outlet = self._new_outlet(self._socket, self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer(is_short=not self._budget.may_read_much(self))

    def buffer_updated(self, nbytes: int) -> None:
        self._received_bytes += nbytes
        if self._is_finishing:
            return
        frames = self._frames.filled(nbytes)
        was_held = self._held_bytes
        if frames:
            self.session.receive_frames(frames)
        if self._frames.error is not None:
            self.session.break_off(str(self._frames.error))
        self._count_held()
        if frames and was_held:
            self._budget.done(self)
        is_unfinished = self._held_bytes > 0 and self._frames.missing_bytes > 0
        if is_unfinished and not self._is_stopped and self._budget.must_wait(self):
            self.no_room()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_blocked = True
        self.session.writing_blocked(True)

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._send()
        if not self._is_blocked:
            self.session.writing_blocked(False)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self._outgoing.clear()
        self._frames.clear()
        try:
            self.session.connection_lost(exc)
        finally:
            # Memory that is not released now would be lost to the other connections.
            self._gone(self)
            self._budget.received(-self._held_bytes)
            self._budget.unsent(self, 0)
            self._budget.done(self)

    # Receiving.

    def _count_held(self) -> None:
        held_bytes = self._frames.held_bytes + self.session.held_bytes
        if self._outlet is not None:
            held_bytes += self._outlet.held_bytes
        if held_bytes != self._held_bytes:
            by_bytes, self._held_bytes = held_bytes - self._held_bytes, held_bytes
            self._budget.received(by_bytes)

    def _session_pauses(self, pause: bool) -> None:
        self._is_paused_by_session = pause
        if not pause:
            self._count_held()
        self._set_reading()

    @property
    def _is_stopped(self) -> bool:
        """Whether reading is stopped for a reason other than memory."""
        return self._is_paused_by_session or self._is_ending

    def _set_reading(self) -> None:
        """Resume or pause reading according to the current state."""
        if self._is_stopped:
            # A connection that is not being read can be neither preferred nor too slow; it asks again when it resumes.
            self._lacks_memory = False
            self._budget.done(self)
        should_read = self._is_finishing or not (self._is_stopped or self._lacks_memory)
        if should_read != self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = should_read
            if should_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # Sending.

    def _send(self) -> None:
        """Send queued data until the socket blocks."""
        transport, outlet = self._transport, self._outlet
        assert transport is not None
        assert outlet is not None, "data was written before the connection was established"
        while self._outgoing and not self._is_blocked and not transport.is_closing():
            part = self._outgoing.popleft()
            if isinstance(part, FileSlice):
                self._send_file(outlet, part)
            else:
                self._send_buffers(outlet, part)
        if self._is_blocked or self._has_counted_unsent:
            unsent_bytes = self.unsent_bytes
            self._has_counted_unsent = unsent_bytes > 0
            self._budget.unsent(self, unsent_bytes)
        if self._is_ending and not self.has_unsent:
            # Do this later: a transport that is about to report that everything has been sent would close twice.
            asyncio.get_running_loop().call_soon(self._end, transport)

    def _send_buffers(self, outlet: Outlet, part: Buffer) -> None:
        """Send a buffer and the buffers that follow it."""
        parts, size_bytes = [part], len(part)
        while self._outgoing and len(parts) < _PARTS_MAX and not isinstance(following := self._outgoing[0], FileSlice):
            parts.append(following)
            size_bytes += len(following)
            self._outgoing.popleft()
        try:
            rest = outlet.send(parts)
        except OSError:
            self.abort()
            return
        if rest:
            size_bytes -= sum(map(len, rest))
            self._outgoing.extendleft(reversed(rest))
        self._sent_bytes += size_bytes

    def _send_file(self, outlet: Outlet, part: FileSlice) -> None:
        """Send a file region, or as much of it as the socket accepts."""
        file, end = part.file, part.position + part.size_bytes
        try:
            position = outlet.send_file(part)
        except OSError as error:
            if not isinstance(error, ConnectionError):
                self.session.break_off(f"could not read records: {error}", is_own_fault=True)
            self.abort()
            return
        self._sent_bytes += position - part.position
        if position == part.position < end:
            self._file_is_short(position, end)
        elif position < end:
            self._outgoing.appendleft(FileSlice(file, position, end - position))

    def _file_is_short(self, position: int, end: int) -> None:
        """Close a connection whose current response cannot be completed."""
        reason = f"a log file ends at byte {position}, so {end - position} bytes are missing"
        self.session.break_off(reason, is_own_fault=True)
        self.abort()
