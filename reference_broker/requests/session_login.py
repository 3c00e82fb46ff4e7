"""The login of a session: its requests are decoded, answered, and kept from all other handlers until it is complete.

A failed login is answered after `connection.failed.authentication.delay.ms`, so that guessing passwords takes time; the
connection does nothing else meanwhile. A login that stalls ends after `LOGIN_TIMEOUT_MS`. Many logins at once take
turns with the requests of other clients (`login_turns.py`).

Source: Apache Kafka, `SaslServerAuthenticator`, `SocketServer.processCompletedReceives`, `KafkaChannel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kafkawire.reference_broker.requests.call import Call, RequestServices
from kafkawire.reference_broker.requests.delayed_operations import Answer, finished
from kafkawire.reference_broker.requests.error_responses import error_response
from kafkawire.reference_broker.requests.login_turns import LoginTurns
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.security.authentication import Authentication, LoginState, OfferedMechanism
from kafkawire.reference_broker.security.sasl.mechanism import LoginAborted, LoginRefused
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.connection import Request, ServerConnection
from kafkawire.sdk.protocol.frames import frame_prefix
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["FAILURES_MAX", "LOGIN_TIMEOUT_MS", "ListenerLogin", "LoginFailures", "SessionLogin", "SessionOfLogin"]

#: How long a login may take. Kafka's clients give up connecting after at most 30 seconds by default.
LOGIN_TIMEOUT_MS: Final = 30_000

#: The maximum number of failed logins that are waiting for an answer; beyond it, the oldest one is answered early.
#: Each of them is an open connection.
FAILURES_MAX: Final = 1_000

_KEY_BYTES: Final = 2

#: SaslHandshake since this version announces that tokens come in SaslAuthenticate.
_WRAPS_TOKENS_SINCE: Final = 1


class LoginFailures:
    """The failed logins of all connections that are waiting for the answer.

    Args:
        services: see `RequestServices`.
    """

    def __init__(self, services: RequestServices) -> None:
        self._services = services
        self._waiting: dict[Callable[[], None], Timer] = {}

    def later(self, deadline_ms: int, finish: Callable[[], None]) -> None:
        """Call a function at a time, or earlier if there are too many."""
        if len(self._waiting) >= FAILURES_MAX:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest).cancel()
            oldest()

        def due(now_ms: int) -> None:
            self._waiting.pop(finish, None)
            finish()

        self._waiting[finish] = self._services.timers.at(deadline_ms, due)


class ListenerLogin(NamedTuple):
    """How clients of a listener log in.

    Attributes:
        mechanisms: the mechanisms that the listener offers, keyed by name.
        receive_bytes_max: the maximum size of a request during a login.
        failure_delay_ms: how long a failed login stays unanswered.
        failures: the failed logins of all connections.
        turns: the turns of all logins.
    """

    mechanisms: Mapping[str, OfferedMechanism]
    receive_bytes_max: int
    failure_delay_ms: int
    failures: LoginFailures
    turns: LoginTurns


class SessionOfLogin(Protocol):
    """What a login needs of its session.

    Attributes:
        peer: the client.
        take: handles the next frame.
    """

    peer: Peer
    take: Callable[[Buffer], None]

    def handle(self, frame: Buffer) -> None:
        """Handle a request of a client that is logged in."""
        ...

    def answer(self, request: Request, call: Call) -> Answer:
        """Return the answer of the request's handler."""
        ...

    def send(self, parts: list[Buffer]) -> None:
        """Send buffers with the next write."""
        ...

    def hold(self) -> None:
        """Stop reading and accepting requests."""
        ...

    def end(self) -> None:
        """Send everything, and close the connection."""
        ...

    def break_off(self, reason: str, *, is_own_fault: bool = False) -> None:
        """Close the connection and log the reason."""
        ...


class SessionLogin:
    """The login of one session.

    Args:
        session: the session.
        settings: see `ListenerLogin`.
        protocol: decodes requests and encodes responses.
        services: see `RequestServices`.
        clock: returns the time in ms since the epoch.
        defer: calls a function soon, but not immediately.
    """

    def __init__(
        self,
        session: SessionOfLogin,
        settings: ListenerLogin,
        protocol: ServerConnection,
        services: RequestServices,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        self._session = session
        self._settings = settings
        self._protocol = protocol
        self._services = services
        self._clock = clock
        self._defer = defer
        self._authentication = Authentication(settings.mechanisms)
        self._timer: Timer | None = None
        self._has_ended = False
        self._limit_time()

    @property
    def frame_bytes_max(self) -> int | None:
        """The maximum size of the next request; None once the client is logged in."""
        return None if self._authentication.is_complete else self._settings.receive_bytes_max

    def has_turn(self, go_on: Callable[[], None]) -> bool:
        """Return whether the next frame can be handled now; if not, `go_on` will be called when it can."""
        return self._authentication.is_complete or self._settings.turns.has_time(go_on, self._defer)

    def take(self, frame: Buffer) -> None:
        """Handle a frame during the login.

        Raises:
            RemoteProtocolError: the frame is not a request that may come now; the connection must be closed.
        """
        if len(frame) > self._settings.receive_bytes_max:
            limit = f"sasl.server.max.receive.size is {self._settings.receive_bytes_max}"
            self._fail(f"a request of {len(frame)} bytes during the login; {limit}")
        elif self._authentication.state is LoginState.OTHER_MECHANISM:
            self._fail(str(self._authentication.refuse_other_mechanism()))
        elif not self._authentication.awaits_token:
            self._take_request(frame)
        elif self._authentication.wraps_tokens:
            self._take_wrapped_token(frame)
        else:
            self._take_bare_token(frame)

    def take_logged_in(self, frame: Buffer) -> None:
        """Handle a frame of a client whose login will expire."""
        steady_ms = self._steady_ms
        if _key_of(frame) == ApiKey.SASL_HANDSHAKE and self._authentication.begin_again(steady_ms):
            self._session.take = self.take
            self._limit_time()
            self.take(frame)
        elif self._authentication.has_expired(steady_ms):
            self._session.break_off("its login has expired, and it has not logged in again")
        else:
            self._session.handle(frame)

    def end(self) -> None:
        """Forget everything, because the connection has ended."""
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()

    # Internals.

    @property
    def _steady_ms(self) -> int:
        """The time on a clock that does not jump."""
        return self._clock() - self._services.timers.jumped_ms

    def _limit_time(self) -> None:
        def too_slow(now_ms: int) -> None:
            self._authentication.fail()
            self._session.break_off(f"the login has taken more than {LOGIN_TIMEOUT_MS} ms")

        self._timer = self._services.timers.at(self._clock() + LOGIN_TIMEOUT_MS, too_slow)

    def _call(self, request: Request) -> Call:
        return Call(self._services, request, self._session.peer, self._clock())

    def _take_request(self, frame: Buffer) -> None:
        """Handle ApiVersions or SaslHandshake; nothing else is decoded."""
        key = _key_of(frame)
        if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
            reason = f"unexpected request {_name_of(key)} before the login"
            if self._authentication.state is LoginState.INITIAL:
                reason += "; does the client expect another security.protocol?"
            self._authentication.fail()
            raise RemoteProtocolError(reason)
        request = self._protocol.receive(frame)
        if key == ApiKey.API_VERSIONS:
            self._answer_versions(request)
        else:
            self._shake_hands(request)

    def _answer_versions(self, request: Request) -> None:
        if not self._authentication.allows_versions:
            self._authentication.fail()
            raise RemoteProtocolError("unexpected second ApiVersions request before the login")
        answer: Any = self._session.answer(request, self._call(request))
        self._session.send(self._protocol.respond(request, answer))
        self._authentication.versions_answered(is_accepted=answer.error_code == ErrorCode.NONE)

    def _shake_hands(self, request: Request) -> None:
        authentication = self._authentication
        response = SaslHandshakeResponse(mechanisms=authentication.mechanisms)
        try:
            authentication.choose(request.message.mechanism, wraps_tokens=request.version >= _WRAPS_TOKENS_SINCE)
        except LoginRefused as refusal:
            if authentication.identity is not None:  # as in Kafka, which answers only clients that are not logged in
                self._abort(str(refusal))
                return
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._fail(str(refusal), self._protocol.respond(request, response))
        else:
            self._session.send(self._protocol.respond(request, response))

    def _take_wrapped_token(self, frame: Buffer) -> None:
        request = self._protocol.receive(frame)
        if request.api.key != ApiKey.SASL_AUTHENTICATE:
            name = request.api.name
            text = f"Unexpected Kafka request of type {_name_of(request.api.key)} during SASL authentication."
            work = error_response(self._call(request), request.message, ErrorCode.ILLEGAL_SASL_STATE, text)
            self._fail(f"unexpected {name} request during the login", self._protocol.respond(request, finished(work)))
            return
        try:
            challenge = self._authentication.take_token(
                bytes(request.message.auth_bytes), self._clock(), self._steady_ms
            )
        except LoginAborted as aborted:
            self._abort(str(aborted))
        except LoginRefused as refusal:
            response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, refusal.detail)
            self._fail(str(refusal), self._protocol.respond(request, response))
        else:
            response = SaslAuthenticateResponse(auth_bytes=challenge.token, session_lifetime_ms=challenge.lifetime_ms)
            self._session.send(self._protocol.respond(request, response))
            self._look_whether_complete()

    def _take_bare_token(self, frame: Buffer) -> None:
        try:
            challenge = self._authentication.take_token(bytes(frame), self._clock(), self._steady_ms)
        except LoginAborted as aborted:
            self._abort(str(aborted))
        except LoginRefused as refusal:
            self._fail(str(refusal))
        else:
            self._session.send([frame_prefix(len(challenge.token)) + challenge.token])
            self._look_whether_complete()

    def _look_whether_complete(self) -> None:
        identity = self._authentication.identity
        if not self._authentication.is_complete or identity is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        peer = self._session.peer
        peer.principal, peer.is_token = identity.principal, identity.is_token
        has_end = self._authentication.session_ends_ms is not None
        self._session.take = self.take_logged_in if has_end else self._session.handle

    def _abort(self, reason: str) -> None:
        self._authentication.fail()
        self._session.break_off(f"its login failed: {reason}")

    def _fail(self, reason: str, parts: list[Buffer] | None = None) -> None:
        """Answer a failed login after a while, and close the connection."""
        self._authentication.fail()
        if self._timer is not None:
            self._timer.cancel()
        peer, now_ms = self._session.peer, self._clock()
        self._services.lines.info(("login", peer.host), now_ms, "the login of %s failed: %s", peer, reason)

        def end() -> None:
            if not self._has_ended:
                self._session.send(parts or [])
                self._session.end()

        def finish() -> None:
            if self._settings.turns.has_time(end, self._defer):
                end()

        delay_ms = self._settings.failure_delay_ms
        self._session.hold()
        if delay_ms:
            self._settings.failures.later(now_ms + delay_ms, finish)
        else:
            finish()


def _key_of(frame: Buffer) -> int:
    """Return the key of the API that a request is for; -1 if there is none."""
    return int.from_bytes(frame[:_KEY_BYTES], "big", signed=True) if len(frame) >= _KEY_BYTES else -1


def _name_of(key: int) -> str:
    """Return Kafka's name of an API."""
    return ApiKey(key).name if key in APIS else f"with API key {key}"
