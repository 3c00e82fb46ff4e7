"""Sends requests to the controller, wherever it runs: AlterPartition, AllocateProducerIds, ControlledShutdown.

A request is retried, with growing pauses, as long as there is no controller, the request reaches a broker that is not
the controller, or the connection is lost. Its outcome is any other response, an error that retrying cannot fix, or a
timeout. When the controller moves, the request is sent to the new one immediately, since the former controller may be
paused and never answer. A request may therefore be carried out more than once; epochs make this harmless.

Source: `NodeToControllerChannelManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kafkawire.reference_broker.cluster.links import Cancel, Done, Links
from kafkawire.reference_broker.work.timers import Later, nothing
from kafkawire.sdk.errors import BrokerError, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Node, Purpose
from kafkawire.sdk.routing.retry import Attempts, Backoff, may_pass

__all__ = ["PENDING_MAX", "ControllerClient"]

#: Maximum number of requests without an outcome. A broker never has this many, since its parts send one request of each
#: kind at a time.
PENDING_MAX: Final = 500


#: The error codes from a broker that is not the controller; the second one is for ControlledShutdown.
_NOT_CONTROLLER: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH})


class ControllerClient:
    """Sends requests to the cluster's controller. No method except `close` invokes a callback before it returns.

    Args:
        broker_id: the id of this broker.
        links: links to the other brokers.
        own: handles a request, given its version as in `ask`, if this broker is the controller; if the broker no longer
            is, the response says so.
        later: the timer for retrying requests.
        now_ms: returns the time.
        backoff: the pauses between attempts.
        response_timeout_ms: how long to wait for one response before the request is resent.
    """

    def __init__(
        self,
        broker_id: int,
        links: Links,
        own: Callable[[Message, int | None, Done], None],
        later: Later,
        now_ms: Callable[[], int],
        backoff: Backoff,
        response_timeout_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.links = links
        self.own = own
        self.later = later
        self.now_ms = now_ms
        self.response_timeout_ms = response_timeout_ms
        self.controller_id: int | None = None
        self._backoff = backoff
        self._pending: dict[_Request, None] = {}
        self._closed: KafkaWireError | None = None

    def moved(self, controller_id: int | None) -> None:
        """Send all requests to another controller.

        Args:
            controller_id: the node id of the controller; None if there is none, in which case requests wait.
        """
        if controller_id == self.controller_id:
            return
        self.controller_id = controller_id
        for request in list(self._pending):
            request.begin_again()

    def ask(
        self, message: Message, done: Done, timeout_ms: int, version: int | None = None, *, repeats: bool = True
    ) -> Cancel:
        """Send a request.

        Args:
            message: a request whose response has a top-level error code.
            done: called once, with an error or with a response whose error code is neither NOT_CONTROLLER nor
                STALE_CONTROLLER_EPOCH.
            timeout_ms: the time limit for all attempts together.
            version: the version of the request, required for a removed API; None for the highest that both sides know.
            repeats: whether to wait for a controller and to retry the request after transient failures; if not, the
                first failure is the outcome.

        Returns:
            A function that abandons the request: `done` is not called.
        """
        refusal = self._closed
        if refusal is None and len(self._pending) >= PENDING_MAX:
            refusal = LocalProtocolError(f"more than {PENDING_MAX} requests are waiting for the controller")
        if refusal is not None:
            return self.later(0, partial(done, refusal))
        attempts = Attempts(self._backoff, self.now_ms() + timeout_ms)
        request = _Request(self, message, version, done, attempts, self._pending.pop, repeats=repeats)
        self._pending[request] = None
        request.begin(timeout_ms)
        return request.cancel

    def close(self, error: KafkaWireError) -> None:
        """End all requests with an error, and refuse new ones with it."""
        self._closed = error
        for request in list(self._pending):
            request.end(error)


class _Request:
    """A request and its attempts; at most one attempt is in flight."""

    def __init__(
        self,
        client: ControllerClient,
        message: Message,
        version: int | None,
        done: Done,
        attempts: Attempts,
        forget: Callable[[_Request], None],
        *,
        repeats: bool,
    ) -> None:
        self._client = client
        self._message = message
        self._version = version
        self._done = done
        self._attempts = attempts
        self._forget = forget
        self._repeats = repeats
        self._number = 0
        self._is_over = False
        self._stop: Cancel = nothing
        self._stop_deadline: Cancel = nothing

    def begin(self, timeout_ms: int) -> None:
        """Make the first attempt."""
        self._stop_deadline = self._client.later(timeout_ms, self._expire)
        self._attempt()

    def begin_again(self) -> None:
        """Abandon the attempt or the pause, and start the next attempt."""
        self._stop()
        self._attempts.succeeded()
        self._attempt()

    def cancel(self) -> None:
        """End without an outcome."""
        if not self._is_over:
            self._is_over = True
            self._stop()
            self._stop_deadline()
            self._forget(self)

    def end(self, outcome: Message | Exception) -> None:
        """End with an outcome."""
        if not self._is_over:
            self.cancel()
            self._done(outcome)

    def _attempt(self) -> None:
        client = self._client
        self._number += 1
        self._stop = nothing
        answered = partial(self._answered, self._number)
        if client.controller_id is None:
            if not self._repeats:
                self._stop = client.later(
                    0, partial(self.end, BrokerError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller"))
                )
            return  # until the controller is known, or the time has run out
        if client.controller_id == client.broker_id:
            self._stop = client.later(0, partial(client.own, self._message, self._version, answered))
            return
        left_ms = (self._attempts.deadline_ms or 0) - client.now_ms()
        self._stop = client.links.ask(
            Node(client.controller_id),
            self._message,
            answered,
            version=self._version,
            timeout_ms=max(min(client.response_timeout_ms, left_ms), 1),
            purpose=Purpose.CONTROL,
        )

    def _answered(self, number: int, outcome: Message | Exception) -> None:
        if self._is_over or number != self._number:
            return
        error = _not_controller(outcome) if isinstance(outcome, Message) else outcome
        if not isinstance(error, KafkaWireError) or not may_pass(error):
            self.end(outcome)
        elif not self._repeats:
            self.end(error)
        elif self._attempts.failed(error, now_ms := self._client.now_ms()):
            self._stop = self._client.later(self._attempts.not_before_ms - now_ms, self._attempt)
        else:
            self._expire()

    def _expire(self) -> None:
        cause = self._attempts.last_error
        api = self._message.SCHEMA.name.removesuffix("Request")
        reason = "no controller is known" if self._client.controller_id is None else "the controller has not responded"
        error = RequestTimedOut(f"{api} timed out: {cause or reason}")
        error.__cause__ = cause
        self.end(error)


def _not_controller(response: Message) -> BrokerError | None:
    """Return an error if the response is from a broker that is not the controller; None for any other response."""
    is_other = getattr(response, "error_code", ErrorCode.NONE) not in _NOT_CONTROLLER
    return None if is_other else BrokerError(ErrorCode.NOT_CONTROLLER, "the broker was not the controller")
