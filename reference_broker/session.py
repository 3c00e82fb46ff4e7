"""One client of the broker: frames in, responses out, one request at a time.

As in Kafka, a request is handled after the previous one of its connection is answered, so a delayed fetch or join holds
up what the client sent after it. What accumulates meanwhile is bounded: reading pauses while a request is queued, or
while the client does not read its responses.

Runs over any `Wire`: TCP through `server.py`, or inside the process for tests.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.log.file import FileSlice
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.connection import Request, ServerConnection
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.transport.wire import Wire

__all__ = ["SENDFILE_BYTES_MIN", "Session"]

#: Smaller regions are read into memory and sent with what precedes them: one packet and one wake-up fewer for the
#: client.
SENDFILE_BYTES_MIN = 32 * 1024

_log = logging.getLogger(__name__)


class Session:
    """The broker's side of one connection.

    Args:
        core: handles the requests.
        wire: where responses are written.
        clock: returns the time in milliseconds.
        defer: calls a function soon but not now: a delayed response must not be sent from inside the request that
            completed it.
        sends_files: whether the wire takes `FileSlice`s; otherwise they are read into memory.

    Attributes:
        client_host: the client's host as Kafka shows it: `/127.0.0.1`.
        last_active_ms: when the last frame arrived.
        on_pause: called with True to pause reading, with False to resume it.
    """

    def __init__(
        self,
        core: Core,
        wire: Wire,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
        *,
        sends_files: bool = False,
    ) -> None:
        self._core = core
        self._wire = wire
        self.client_host = ""
        self._clock = clock
        self._defer = defer
        self._sends_files = sends_files
        self._protocol = ServerConnection(core.served)
        self._frames: deque[Buffer] = deque()
        self._delayed: DelayedOperation | None = None
        self._is_writing_blocked = False
        self._is_paused = False
        self.last_active_ms = clock()
        self.on_pause: Callable[[bool], None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is pending."""
        return self._delayed is None and not self._frames

    # What the wire calls.

    def receive_frame(self, frame: Buffer) -> None:
        self._frames.append(frame)
        self.last_active_ms = self._clock()
        self._work()

    def connection_lost(self, error: Exception | None) -> None:
        self._frames.clear()
        if self._delayed is not None:
            self._delayed.cancel()
            self._delayed = None

    def writing_blocked(self, is_blocked: bool) -> None:
        """Note that the client has stopped or resumed reading its responses."""
        self._is_writing_blocked = is_blocked
        if not is_blocked:
            self._defer(self._work)

    # The rest.

    def _work(self) -> None:
        while self._frames and self._delayed is None and not self._is_writing_blocked and self._wire.is_open:
            self._guarded(partial(self._handle, self._frames.popleft()))
        should_pause = bool(self._frames) or self._is_writing_blocked
        if should_pause != self._is_paused:
            self._is_paused = should_pause
            if self.on_pause is not None:
                self.on_pause(should_pause)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Close the connection if a step fails: later requests could not be answered in order."""
        try:
            step()
        except KafkaWireError as error:
            _log.info("closing the connection from %s: %s", self.client_host, error)
            self._wire.close()
        except Exception:
            _log.exception("a request from %s failed", self.client_host)
            self._wire.close()

    def _handle(self, frame: Buffer) -> None:
        request = self._protocol.receive(frame)
        handled = self._core.handle(request, self.client_host, self._clock())
        if not isinstance(handled, DelayedOperation):
            self._respond(request, handled)
        elif handled.response is not None:
            self._respond(request, handled.response)
        else:
            self._delayed = handled
            handled.then(lambda response: self._defer(partial(self._finish, request, response)))

    def _finish(self, request: Request, response: Message) -> None:
        """Send a delayed response and continue with the next request."""
        if self._delayed is not None:
            self._delayed = None
            self._guarded(partial(self._respond, request, response))
            self._work()

    def _respond(self, request: Request, response: Message | None) -> None:
        parts = self._protocol.respond(request, response)
        if parts:
            self._wire.write([self._part(part) for part in parts])

    def _part(self, part: Buffer | FileSlice) -> Buffer:
        """Return a part of a response in a form that the wire takes."""
        if isinstance(part, FileSlice) and (not self._sends_files or len(part) < SENDFILE_BYTES_MIN):
            return part.read()
        return part  # type: ignore[return-value]  # this wire takes slices too
