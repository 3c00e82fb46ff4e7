"""A client's session with the broker: frames in, responses out, one request at a time.

As in Kafka, a request is handled only once the connection's previous request has been answered, so a delayed fetch or
join holds up the client's later requests. The backlog is bounded: reading pauses while a request is queued, while the
client is not reading its responses, and while a quota mutes the connection (KIP-219). The responses to requests that
arrive together are written together.

A session runs over any `Wire`: TCP in `network/client_wire.py`, or an in-process wire in tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import Answer, DelayedOperation, finished
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.requests.error_responses import error_response
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.requests.request_times import RequestTimes, RequestWatch
from kafkawire.reference_broker.requests.session_login import ListenerLogin, SessionLogin
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError, RemoteProtocolError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.connection import Request, ServerConnection
from kafkawire.sdk.protocol.schema import Api, Buffer, Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.wire import Wire

__all__ = ["FRAME_BYTES_MAX", "SENDFILE_BYTES_MIN", "TURN_MS", "WRITE_BYTES", "Session"]

#: Smaller regions are read into memory and sent with the preceding data, which saves the client a packet and a wake-up.
SENDFILE_BYTES_MIN = 32 * 1024

#: The maximum request size for most APIs. A commit or a group assignment for 100,000 partitions takes a third of it.
FRAME_BYTES_MAX = 16 * 1024 * 1024

#: APIs whose requests may be larger: they carry records, or the state of all partitions in a cluster.
_LARGE_REQUESTS = frozenset({ApiKey.PRODUCE, ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})

#: Responses of this size are not held back until later requests are answered, so the client can read them earlier.
WRITE_BYTES = 64 * 1024

#: How long one connection's requests are handled before other connections have a turn.
TURN_MS = 10


class _Lost:
    """The wire of a session whose connection is closed."""

    is_open = is_congested = has_unsent = False

    def write(self, parts: Iterable[object]) -> None:
        """Discard the data."""

    def close(self) -> None:
        """Do nothing."""

    abort = close

    async def drain(self) -> None:
        """Do nothing."""

    sent = drain


_LOST = _Lost()


def _ignore(frame: Buffer) -> None:
    """Ignore a frame from a closed connection."""


class Session:
    """The broker's side of one connection.

    Args:
        dispatcher: handles the requests.
        wire: the wire to which responses are written.
        peer: the client.
        clock: returns the time in milliseconds.
        defer: calls a function soon but not immediately, since a delayed response must not be sent from within the
            request that completed it.
        sends_files: whether the wire accepts `FileSlice`s; if not, they are read into memory.
        login: how clients log in; None if they need not.
        watch: measures the requests; None if nobody observes them.

    Attributes:
        peer: the client.
        has_dropped: whether requests have arrived after the session stopped accepting them.
        take: handles the next frame as a request; replaced during a login, and while a login has an end.
        on_pause: called with True to pause reading, and with False to resume it.
        on_answer: called after a delayed response, when `held_bytes` may have decreased.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        wire: Wire,
        peer: Peer,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
        *,
        sends_files: bool = False,
        login: ListenerLogin | None = None,
        watch: RequestWatch | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._services = dispatcher.services
        self._throttling: Throttling | None = dispatcher.throttling
        self._wire: Wire = wire
        self.peer = peer
        self._clock = clock
        self._defer = defer
        self._sends_files = sends_files
        self._watch = watch
        #: When each of the queued frames arrived; empty if requests are not measured.
        self._arrivals_ns: deque[int] = deque()
        self._times: RequestTimes | None = None
        self._protocol = ServerConnection(dispatcher.served, dispatcher.apis, dispatcher.frame_bytes_max)
        self.take: Callable[[Buffer], None] = self.handle
        self._frames: deque[Buffer] = deque()
        self._outgoing: list[Buffer] = []
        self._outgoing_bytes = 0
        self._now_ms = clock()
        self._delayed: DelayedOperation | None = None
        #: The size in bytes of the delayed request, if there is one, and its API.
        self._delayed_bytes = 0
        self._delayed_api: Api | None = None
        self._is_writing_blocked = False
        self._muted: Timer | None = None
        #: Whether a failed login is waiting for its answer.
        self._is_held = False
        #: Whether the next message of a login is waiting for its turn.
        self._awaits_turn = False
        self._is_paused = False
        self._is_ending = False
        self.has_dropped = False
        self.on_pause: Callable[[bool], None] | None = None
        self.on_answer: Callable[[], None] | None = None
        self._login: SessionLogin | None = None
        if login is not None:
            self._login = SessionLogin(self, login, self._protocol, self._services, clock, defer)
            self.take = self._login.take

    @property
    def is_waiting(self) -> bool:
        """Whether the client is waiting for the broker, rather than the broker for the client."""
        return self._delayed is not None or self._muted is not None

    @property
    def delayed_api(self) -> Api | None:
        """The API of the delayed request; None if there is none."""
        return None if self._delayed is None else self._delayed_api

    @property
    def is_unanswered(self) -> bool:
        """Whether the request being handled expects no response; its client may have closed the connection already."""
        return self._delayed is not None and self._delayed.check_unsent is not None

    @property
    def held_bytes(self) -> int:
        """The bytes of the requests that are waiting their turn, and of the unanswered request."""
        delayed_bytes = 0 if self._delayed is None else self._delayed_bytes
        return sum(map(len, self._frames)) + delayed_bytes if self._frames else delayed_bytes

    def frame_bytes_max(self, key: int) -> int:
        """Return the maximum request size for an API.

        Args:
            key: the key of the API, as sent by the client.

        Raises:
            RemoteProtocolError: the API is not served.
        """
        if self._login is not None and (login_bytes_max := self._login.frame_bytes_max) is not None:
            return login_bytes_max
        if key not in self._dispatcher.served:
            raise RemoteProtocolError(f"API key {key} is not served here")
        limit_bytes = self._dispatcher.frame_bytes_max
        return limit_bytes if key in _LARGE_REQUESTS else min(limit_bytes, FRAME_BYTES_MAX)

    # Called by the wire.

    def receive_frame(self, frame: Buffer) -> None:
        self.receive_frames((frame,))

    def receive_frames(self, frames: Iterable[Buffer]) -> None:
        """Handle complete frames that have arrived together."""
        if self._is_ending:
            self.has_dropped = True
        else:
            self._frames.extend(frames)
            if self._watch is not None:
                now_ns = self._watch.clock_ns()
                while len(self._arrivals_ns) < len(self._frames):
                    self._arrivals_ns.append(now_ns)
            self._work()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ending = True
        self._drop_frames()
        delayed, self._delayed = self._delayed, None
        if delayed is not None:
            self._cancel(delayed.cancel)
        self._cancel(self.peer.lost)
        if self._muted is not None:
            self._muted.cancel()
        if self._login is not None:
            self._login.end()
        # Leave no reference cycle, which would live long in a broker with little garbage.
        self._wire = _LOST
        self.on_pause = self.on_answer = None
        self.take = _ignore
        self._login = None

    def _cancel(self, cancel: Callable[[], None]) -> None:
        """Cancel a request that no client is waiting for; even if that fails, the connection ends."""
        try:
            cancel()
        except BrokerEnd:
            raise
        except BaseException:
            text = "could not cancel the request from %s"
            self._lines.exception("cancel", self._clock(), text, self.peer)

    def writing_blocked(self, is_blocked: bool) -> None:
        """Record that the client has stopped or resumed reading its responses."""
        self._is_writing_blocked = is_blocked
        if not is_blocked:
            self._defer(self._work)

    def begin_end(self) -> None:
        """Stop accepting requests; a delayed response is still sent."""
        self._is_ending = True
        self.has_dropped = bool(self._frames)
        self._drop_frames()

    # Internals.

    def _drop_frames(self) -> None:
        self._frames.clear()
        self._arrivals_ns.clear()

    def _work(self) -> None:
        """Handle queued requests for a limited time."""
        until_ms = None
        while self._frames and self._may_handle():
            self._now_ms = now_ms = self._clock()
            if until_ms is None:
                until_ms = now_ms + TURN_MS
            elif now_ms > until_ms:
                self._defer(self._work)
                break
            if self._login is not None and not self._login.has_turn(self._turn_has_come):
                self._awaits_turn = True
                break
            frame = self._frames.popleft()
            if self._watch is not None:
                self._times = RequestTimes(self._arrivals_ns.popleft(), self._watch.clock_ns())
            self._guarded(self.take, frame)
        self._write()
        self._pause_or_resume()

    def _may_handle(self) -> bool:
        is_held_up = self._delayed is not None or self._is_writing_blocked or self._muted is not None
        return not (is_held_up or self._is_held or self._awaits_turn) and self._wire.is_open

    def _turn_has_come(self) -> None:
        self._awaits_turn = False
        self._work()

    def _write(self) -> None:
        if self._outgoing:
            parts, self._outgoing = self._outgoing, []
            self._outgoing_bytes = 0
            self._wire.write(parts)

    def _pause_or_resume(self) -> None:
        # A client may disconnect after a request that expects no response; the rest of that request is still processed.
        has_steps = self._delayed is not None and self._delayed.steps is not None
        is_stopped = self._is_writing_blocked or self._muted is not None or self._is_held
        should_pause = bool(self._frames) or is_stopped or has_steps
        if should_pause != self._is_paused:
            self._is_paused = should_pause
            if self.on_pause is not None:
                self.on_pause(should_pause)

    def _guarded(self, step: Callable[..., None], *arguments: object) -> None:
        """Close the connection if a step fails, since later requests could not be answered in order."""
        try:
            step(*arguments)
        except KafkaWireError as error:
            self.break_off(str(error))
        except BrokerEnd:
            raise
        except BaseException:
            self._lines.exception("session", self._clock(), "closing the connection from %s", self.peer)
            self._close()

    def break_off(self, reason: str, *, is_own_fault: bool = False) -> None:
        """Close the connection and log the reason.

        Args:
            reason: for the log.
            is_own_fault: whether the disk is at fault, rather than the client.
        """
        tell = self._lines.error if is_own_fault else self._lines.info
        tell("closed", self._clock(), "closing the connection from %s: %s", self.peer, reason)
        self._close()

    def _close(self) -> None:
        self._drop_frames()
        self._write()
        self._wire.close()

    @property
    def _lines(self) -> LogLimit:
        return self._services.lines

    # Called by the login.

    def handle(self, frame: Buffer) -> None:
        time = None if self._throttling is None else self._throttling.begin()
        request = self._protocol.receive(frame)
        call = Call(self._services, request, self.peer, self._now_ms)
        call.time = time
        answer = self._dispatcher.handle(call, None if request.version_error else request.message)
        if not isinstance(answer, DelayedOperation):
            self._respond(request, call, answer)
        else:
            self._delayed = answer
            self._delayed_bytes = request.size_bytes
            self._delayed_api = request.api
            self._take_steps(request, call, answer, self._services.timers.jumped_ms)

    def answer(self, request: Request, call: Call) -> Answer:
        return self._dispatcher.handle(call, None if request.version_error else request.message)

    def send(self, parts: list[Buffer]) -> None:
        self._outgoing += parts

    def hold(self) -> None:
        self._is_held = True
        self._drop_frames()
        self._pause_or_resume()

    def end(self) -> None:
        self._close()

    # Internals.

    def _take_steps(self, request: Request, call: Call, answer: DelayedOperation, jumped_ms: int) -> None:
        """Run the steps before a response, for a limited time; if none are left, wait for the response."""
        until_ms = self._now_ms + TURN_MS
        while answer.steps is not None:
            if self._clock() > until_ms:
                _pause(call)
                self._services.turns.later(partial(self._go_on, request, call, answer, jumped_ms), self._defer)
                return
            self._services.timers.as_of(jumped_ms, answer.step)
        if answer.response is not None:
            self._delayed = None
            self._respond_late(request, call, answer, answer.response)
        else:
            _pause(call)
            if self._watch is not None and self._times is not None:
                self._times.handled_ns = self._watch.clock_ns()
            answer.then(
                lambda response: self._defer(partial(self._finish, request, call, response)),
                lambda failure: self._defer(partial(self._give_up, failure)),
            )

    def _go_on(self, request: Request, call: Call, answer: DelayedOperation, jumped_ms: int) -> None:
        """Continue a request after other connections have had a turn, unless this connection has ended."""
        if self._delayed is answer and self._wire.is_open:
            self._now_ms = self._clock()
            _resume(call)
            self._guarded(self._take_steps, request, call, answer, jumped_ms)
            self._work()
            if self.on_answer is not None:
                self.on_answer()

    def _finish(self, request: Request, call: Call, response: Message) -> None:
        """Send a delayed response and continue with the next request."""
        delayed, self._delayed = self._delayed, None
        if delayed is not None:
            _resume(call)
            self._guarded(self._respond_late, request, call, delayed, response)
            self._work()
            if self.on_answer is not None:
                self.on_answer()

    def _give_up(self, failure: RemoteProtocolError) -> None:
        """Close the connection because its request cannot be answered."""
        if self._delayed is not None and self._delayed.failure is failure:
            self.break_off(str(failure))

    def _respond_late(self, request: Request, call: Call, delayed: DelayedOperation, response: Message) -> None:
        if delayed.check_unsent is None:
            self._respond(request, call, response)
        else:
            delayed.check_unsent(response)
            self._respond(request, call, None)

    def _respond(self, request: Request, call: Call, response: Message | None) -> None:
        watch, times, throttling = self._watch, self._times, self._throttling
        if watch is not None and times is not None:
            watch.answered(times)
        if throttling is not None and throttling.is_needed(call):
            throttling.answered(call, request.size_bytes, response)
        try:
            parts = self._protocol.respond(request, response)
        except LocalProtocolError:
            name = request.api.name
            self._lines.exception(("response", name), call.now_ms, "could not write the response to %s", name)
            response = finished(error_response(call, request.message, ErrorCode.UNKNOWN_SERVER_ERROR, ""))
            parts = self._protocol.respond(request, response)
        for part in parts:
            self._outgoing.append(self._part(part))
            self._outgoing_bytes += len(part)
        if self._outgoing_bytes >= WRITE_BYTES:
            self._write()
        if throttling is not None and call.time is not None:
            throttling.encoded(call)
        if watch is not None and times is not None:
            watch.sent(request, call, response, times)
        if call.throttle_ms:
            self._muted = self._services.timers.at(self._clock() + call.throttle_ms, self._unmute)

    def _unmute(self, now_ms: int) -> None:
        self._muted = None
        self._defer(self._work)

    def _part(self, part: Buffer | FileSlice) -> Buffer:
        """Return a part of a response in a form that the wire accepts."""
        if isinstance(part, FileSlice) and (not self._sends_files or len(part) < SENDFILE_BYTES_MIN):
            return part.read()
        return part  # type: ignore[return-value]  # this wire accepts slices too


def _pause(call: Call) -> None:
    """Stop counting the time spent on a request while other connections have their turn."""
    if call.time is not None:
        call.time.pause()


def _resume(call: Call) -> None:
    if call.time is not None:
        call.time.resume()
