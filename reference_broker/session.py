"""One client of the broker: frames in, responses out, one request at a time.

As in Kafka, the next request of a connection is looked at when the one before is answered; a fetch or JoinGroup that
waits therefore holds back what the client sent after it. What piles up meanwhile is bounded: reading is paused as soon
as a request waits behind another one, or while the client does not take its answers.

Runs over any `Wire`: TCP through `server.py`, or inside the process for tests.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.log.file import FileSlice
from kafkawire.reference_broker.waiting import Waiting
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.connection import Request, ServerConnection
from kafkawire.sdk.protocol.schema import Buffer, Message
from kafkawire.sdk.transport.wire import Wire

__all__ = ["SENDFILE_BYTES_MIN", "Session"]

#: Smaller regions are read and sent together with what stands before them: one packet and one wake-up of the client
#: less.
SENDFILE_BYTES_MIN = 32 * 1024

_log = logging.getLogger(__name__)


class Session:
    """The broker's side of one connection.

    Args:
        core: answers the requests.
        wire: where to write.
        clock: tells the time in milliseconds.
        defer: calls a function soon, but not now: an answer that comes late must not go out from inside the request
            that made it possible.
        sends_files: whether the wire takes `FileSlice`s; they are read into memory otherwise.

    Attributes:
        client_host: where the client is, as Kafka shows it: `/127.0.0.1`.
        last_active_ms: when the last frame came.
        on_pause: is called with True when no more frames should be read, with False when they should be again.
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
        self._waiting: Waiting | None = None
        self._is_writing_blocked = False
        self._is_paused = False
        self.last_active_ms = clock()
        self.on_pause: Callable[[bool], None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._waiting is None and not self._frames

    # What the wire calls.

    def receive_frame(self, frame: Buffer) -> None:
        self._frames.append(frame)
        self.last_active_ms = self._clock()
        self._work()

    def connection_lost(self, error: Exception | None) -> None:
        self._frames.clear()
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def writing_blocked(self, is_blocked: bool) -> None:
        """Note that the client does not take what was written for it, or does so again."""
        self._is_writing_blocked = is_blocked
        if not is_blocked:
            self._defer(self._work)

    # The rest.

    def _work(self) -> None:
        while self._frames and self._waiting is None and not self._is_writing_blocked and self._wire.is_open:
            self._guarded(partial(self._answer, self._frames.popleft()))
        should_pause = bool(self._frames) or self._is_writing_blocked
        if should_pause != self._is_paused:
            self._is_paused = should_pause
            if self.on_pause is not None:
                self.on_pause(should_pause)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Close the connection where a step fails: nothing that comes later could be answered in order."""
        try:
            step()
        except KafkaWireError as error:
            _log.info("the connection from %s is closed: %s", self.client_host, error)
            self._wire.close()
        except Exception:
            _log.exception("a request from %s failed", self.client_host)
            self._wire.close()

    def _answer(self, frame: Buffer) -> None:
        request = self._protocol.receive(frame)
        answer = self._core.handle(request, self.client_host, self._clock())
        if not isinstance(answer, Waiting):
            self._respond(request, answer)
        elif answer.response is not None:
            self._respond(request, answer.response)
        else:
            self._waiting = answer
            answer.then(lambda response: self._defer(partial(self._finish, request, response)))

    def _finish(self, request: Request, response: Message) -> None:
        """Send an answer that was waited for, and go on."""
        if self._waiting is not None:
            self._waiting = None
            self._guarded(partial(self._respond, request, response))
            self._work()

    def _respond(self, request: Request, response: Message | None) -> None:
        parts = self._protocol.respond(request, response)
        if parts:
            self._wire.write([self._part(part) for part in parts])

    def _part(self, part: Buffer | FileSlice) -> Buffer:
        """Return what the wire is given for a part of a response."""
        if isinstance(part, FileSlice) and (not self._sends_files or len(part) < SENDFILE_BYTES_MIN):
            return part.read()
        return part  # type: ignore[return-value]  # this wire takes slices too
