"""Where a request's time went: each session measures it for the observers of the broker's requests.

    arrived ─ queue ─▶ begun ─ local ─▶ handled ─ remote ─▶ answered ─ response ─▶ sent

Without observers nothing is measured. The steps are those of Kafka's request log; the time in the socket's buffers
belongs to none of them. A quota limits something else, the event loop's own work on a request: see `HandlingTime`.

Source: `RequestChannel.Request.updateRequestMetrics` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message

__all__ = ["RequestObserver", "RequestTimes", "RequestWatch"]


class RequestTimes:
    """The times of one request, in nanoseconds of a clock that never runs backwards.

    Attributes:
        arrived_ns: when its last byte was received.
        begun_ns: when its handler was called; until then, it waited for earlier requests of its connection.
        handled_ns: when the handler had done its own work, including turns of other connections in a long request.
        answered_ns: when the response was known; until then, it was delayed: for records, replicas, or group members.
        sent_ns: when the response had been written out and joined the outgoing data.
    """

    __slots__ = ("answered_ns", "arrived_ns", "begun_ns", "handled_ns", "sent_ns")

    def __init__(self, arrived_ns: int, begun_ns: int) -> None:
        self.arrived_ns = arrived_ns
        self.begun_ns = begun_ns
        self.handled_ns = self.answered_ns = self.sent_ns = 0

    @property
    def queue_ns(self) -> int:
        """The time before the request's turn."""
        return self.begun_ns - self.arrived_ns

    @property
    def local_ns(self) -> int:
        """The time in the handler."""
        return self.handled_ns - self.begun_ns

    @property
    def remote_ns(self) -> int:
        """The time for which the response was delayed."""
        return self.answered_ns - self.handled_ns

    @property
    def response_ns(self) -> int:
        """The time for writing out the response."""
        return self.sent_ns - self.answered_ns

    @property
    def total_ns(self) -> int:
        """The whole time."""
        return self.sent_ns - self.arrived_ns


#: Called with each answered request, its context, the response (None if the client expects none) and the times.
RequestObserver = Callable[[Request, Call, Message | None, RequestTimes], None]


class RequestWatch:
    """Measures requests and tells the observers.

    Args:
        observers: called for each request, from within the session, so they only count.
        clock_ns: returns the time in nanoseconds, and never runs backwards.

    Attributes:
        clock_ns: see above.
    """

    def __init__(self, observers: Sequence[RequestObserver], clock_ns: Callable[[], int]) -> None:
        self._observers = tuple(observers)
        self.clock_ns = clock_ns

    def answered(self, times: RequestTimes) -> None:
        """Record that the response is known; without a delay, that is the end of the handler's work too."""
        times.answered_ns = self.clock_ns()
        if not times.handled_ns:
            times.handled_ns = times.answered_ns

    def sent(self, request: Request, call: Call, response: Message | None, times: RequestTimes) -> None:
        """Record the end of a request, and tell the observers."""
        times.sent_ns = self.clock_ns()
        for observer in self._observers:
            observer(request, call, response, times)
