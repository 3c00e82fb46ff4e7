"""Run state machines against brokers that are functions, on a clock that jumps from event to event.

`Simulation` does the work of the driver without sockets, tasks or waiting. Requests and responses pass through the real
codecs in the negotiated version, so a machine that sets a wrong field fails, and so does one that passes on a wrong
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from heapq import heappop, heappush
from typing import Any

from kafkawire.sdk.client.options import ClientOptions, read_options
from kafkawire.sdk.errors import (
    Closed,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    RequestTimedOut,
    UnsupportedVersion,
)
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.sensor import Sensor
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Machine, Open, Send, Shut
from kafkawire.sdk.transport.wire import Address

__all__ = ["SILENT", "Later", "Silent", "Simulation", "address", "backoff", "cluster", "options", "topic_id"]

#: The jitter takes its middle value, so pauses are 100, 200, 400, 800 and 1000 ms.
FRACTION = 0.5

#: The defaults of `ClientOptions`.
CONNECT_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 30_000


class Silent:
    """Returned by a handler if the broker does not answer."""


SILENT = Silent()


class Later:
    """Returned by a handler if the response comes later; requests behind it on the connection wait."""

    def __init__(self) -> None:
        self.deliver: Callable[[Message], None] | None = None

    def answer(self, message: Message) -> None:
        """Send the response."""
        assert self.deliver is not None
        self.deliver(message)


Handler = Callable[[Any, int], "Message | Exception | Silent | Later | None"]


def address(node_id: int) -> Address:
    """Return the address of a simulated broker."""
    return Address(f"node-{node_id}", 9092)


def options(kind: type[ClientOptions] = ClientOptions, servers: str = "node-1:9092", **given: object) -> Any:
    """Return options for a client of a simulated cluster."""
    return read_options(kind, servers, given)


def backoff(initial_ms: int = 100, longest_ms: int = 1_000) -> Backoff:
    """Return the pauses for a simulated client."""
    return Backoff(initial_ms, longest_ms, lambda: FRACTION)


def cluster(
    nodes: Iterable[int],
    topics: Mapping[str, Iterable[int | None]],
    controller: int = 1,
    lives: Mapping[str, int] | None = None,
) -> Handler:
    """Return a handler for Metadata requests.

    Args:
        nodes: the node ids of the brokers.
        topics: the leader of each partition, keyed by topic; None for a partition without a leader.
        controller: the node id of the controller.
        lives: how many times each topic was recreated; topics that are not listed were not.
    """
    brokers = [MetadataResponse.MetadataResponseBroker(node, *address(node)) for node in nodes]

    def answer(request: MetadataRequest, version: int) -> MetadataResponse:
        names = list(topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        found = []
        for name in names:
            partitions = [
                MetadataResponse.MetadataResponsePartition(
                    5 if leader is None else 0, number, -1 if leader is None else leader, 1
                )
                for number, leader in enumerate(topics.get(name, ()))
            ]
            code, identity = (0, topic_id(name, (lives or {}).get(name, 0))) if name in topics else (3, ZERO_UUID)
            found.append(MetadataResponse.MetadataResponseTopic(code, name, identity, False, partitions))
        return MetadataResponse(0, brokers, "simulated", controller, found)

    return answer


def topic_id(name: str, lives: int = 0) -> bytes:
    """Return the id of a simulated topic that was recreated this many times."""
    return name.encode().ljust(15, b"-")[:15] + bytes([ord("-") + lives])


class Connection:
    """The versions and features of a simulated broker.

    Args:
        newest: the newest version that the broker supports, keyed by API, if it differs from ours.
        features: the finalized level of each feature.
    """

    def __init__(self, newest: Mapping[ApiKey, int], features: Mapping[str, int] | None = None) -> None:
        self._newest = newest
        self._features = dict(features or {})

    def feature_level(self, name: str) -> int:
        return self._features.get(name, 0)

    def version_for(self, request: type[Message], carrying: tuple[type[Message], str] | None = None) -> int:
        assert request.SCHEMA.key is not None
        api = APIS[ApiKey(request.SCHEMA.key)]
        version = min(api.stable_versions.last, self._newest.get(ApiKey(api.key), api.stable_versions.last))
        if version < api.stable_versions.first:
            raise UnsupportedVersion(f"{api.name}: the broker knows version {version} at most")
        if carrying is None:
            return version
        structure, name = carrying
        return min(version, next(field.versions.last for field in structure.FIELDS if field.name == name))


class Simulation:
    """A client's router and machines, with simulated brokers.

    Args:
        router: the client's router.
        latency_ms: the time from a request to its response, and the time that connecting takes.

    Attributes:
        now_ms: the current time.
        handlers: the functions that answer requests, keyed by request class or `(node_id, class)`, which takes
            precedence.
        down: the node ids of the brokers that refuse connections.
        refusal: the error with which these brokers refuse connections.
        stalled: the node ids of the brokers that accept connections but never answer, not even the handshake.
        newest: the newest version that the brokers support, keyed by API, if it differs from ours.
        features: the finalized level of each feature, which brokers report on connections opened later.
        sent: (time, node id, request, version) for every request sent.
        opened: (time, node id) for every attempt to connect.
    """

    def __init__(self, router: Router, *machines: Machine, latency_ms: int = 1) -> None:
        self.router = router
        self.machines = list(machines)
        self.latency_ms = latency_ms
        self.now_ms = 1_000
        self.handlers: dict[Any, Handler] = {}
        self.down: set[int] = set()
        self.refusal: Callable[[Address, str], KafkaWireError] = ConnectFailed
        self.stalled: set[int] = set()
        self.newest: dict[ApiKey, int] = {}
        self.features: dict[str, int] = {}
        self.sent: list[tuple[int, int, Message, int]] = []
        self.opened: list[tuple[int, int]] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = 0
        self._open: dict[Link, list[Call]] = {}
        self._delayed: dict[Link, deque[tuple[Call, Message, int]]] = {}

    def check_time(self, now_ms: int) -> None:
        """Fail if a machine has passed on a time other than the current time."""
        assert now_ms == self.now_ms, f"expected now_ms={self.now_ms}, got {now_ms}"

    def at(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Schedule an event."""
        self._numbers += 1
        heappush(self._events, (self.now_ms + delay_ms, self._numbers, event))

    def run(self, duration_ms: int) -> None:
        """Let time pass; events and the machines' due work run in order."""
        _running.append(self)
        try:
            self._run(self.now_ms + duration_ms)
        finally:
            _running.pop()

    def _run(self, end_ms: int) -> None:
        while True:
            self._turn()
            times = [self._events[0][0]] if self._events else []
            times += [due for each in (self.router, *self.machines) if (due := each.due_ms(self.now_ms)) is not None]
            next_ms = max(min(times, default=end_ms + 1), self.now_ms)
            if next_ms > end_ms:
                break
            if next_ms == self.now_ms and not (self._events and self._events[0][0] <= next_ms):
                next_ms += 1  # due work waits for an event, so the clock advances, as it does under a driver
            self.now_ms = next_ms
            while self._events and self._events[0][0] <= self.now_ms:
                heappop(self._events)[2]()
        self.now_ms = end_ms

    def call(self, call: Call, duration_ms: int = 60_000) -> Message:
        """Submit a call, run until it has ended, and return its response or raise its error."""
        self.router.submit(call, self.now_ms)
        end_ms = self.now_ms + duration_ms
        while not call.done and self.now_ms < end_ms:
            self.run(1)
        assert call.done, f"{call} did not end within {duration_ms} ms"
        if call.error is not None:
            raise call.error
        assert call.result is not None
        return call.result

    def break_connections(self, node_id: int, error: KafkaWireError | None = None) -> None:
        """End all connections to a broker, as if it had been killed."""
        lost = error or ConnectionLost(f"connection to {address(node_id)} was lost: reset by peer")
        for link in [link for link in self._open if link.address == address(node_id)]:
            calls = self._open.pop(link)
            self._delayed.pop(link, None)
            self.router.closed(link, lost, self.now_ms)
            for call in calls:
                self.router.failed(call, lost, self.now_ms)

    def requests(self, kind: type[Message], node_id: int | None = None) -> list[Any]:
        """Return the requests of a class that were sent to one broker or to all brokers."""
        return [request for _, node, request, _ in self.sent if isinstance(request, kind) and node_id in (None, node)]

    def open_links(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def _turn(self) -> None:
        for machine in self.machines:
            machine.poll(self.now_ms)
        for action in self.router.poll(self.now_ms):
            match action:
                case Open(link):
                    self._connect(link)
                case Send(link, call):
                    self._send(link, call)
                case Shut(link):
                    self._delayed.pop(link, None)
                    for call in self._open.pop(link):
                        self.router.failed(call, ConnectionLost(f"connection to {link} was closed"), self.now_ms)

    def _connect(self, link: Link) -> None:
        node = _node(link)
        self.opened.append((self.now_ms, node))

        def end() -> None:
            if node in self.down:
                self.router.closed(link, self.refusal(link.address, "refused"), self.now_ms)
            elif node in self.stalled:
                self.at(
                    CONNECT_TIMEOUT_MS,
                    lambda: self.router.closed(link, ConnectFailed(link.address, "late"), self.now_ms),
                )
            else:
                self._open[link] = []
                self.router.opened(link, Connection(self.newest, self.features), self.now_ms)

        self.at(self.latency_ms, end)

    def _send(self, link: Link, call: Call) -> None:
        assert link in self._open, f"{call}: sent to {link}, which is not open"
        assert link.connection is not None
        node = _node(link)
        try:
            request, version = call.request(link.connection)
            version = link.connection.version_for(type(request)) if version is None else version
        except KafkaWireError as error:
            self.router.failed(call, error, self.now_ms)
            return
        request = _through_codec(request, version)
        self.sent.append((self.now_ms, node, request, version))
        if call.response is None:
            self.router.answered(call, None, self.now_ms)
        if call.response is None:
            self._handle(node, request, version)
            return
        self._open[link].append(call)
        if link in self._delayed:
            self._delayed[link].append((call, request, version))
            self._time_out(link, call)
        else:
            self._respond(link, call, request, version)

    def _handle(self, node: int, request: Message, version: int) -> Message | Exception | Silent | Later | None:
        handler = self.handlers.get((node, type(request))) or self.handlers.get(type(request))
        assert handler is not None, f"there is no handler for {type(request).__name__}"
        return SILENT if node in self.stalled else handler(request, version)

    def _respond(self, link: Link, call: Call, request: Message, version: int) -> None:
        answer = self._handle(_node(link), request, version)
        if isinstance(answer, Silent | Later):
            self._time_out(link, call)
            if isinstance(answer, Later):
                self._delayed.setdefault(link, deque())
                answer.deliver = lambda message: self._deliver(link, call, _through_codec(message, version))
            return
        assert answer is not None, f"{call} needs a response"
        response = answer if isinstance(answer, Exception) else _through_codec(answer, version)
        self.at(self.latency_ms, lambda: self._answer(link, call, response))

    def _deliver(self, link: Link, call: Call, response: Message) -> None:
        """Send a delayed response, then handle the requests that were waiting behind it."""
        if call not in self._open.get(link, ()):
            return  # the connection was lost
        self.at(self.latency_ms, lambda: self._answer(link, call, response))
        waiting = self._delayed.pop(link, None)
        while waiting:
            self._respond(link, *waiting.popleft())
            if link in self._delayed:
                self._delayed[link] = waiting
                return

    def _time_out(self, link: Link, call: Call) -> None:
        late = RequestTimedOut(f"{link} did not respond to {call}")
        self.at(call.timeout_ms or REQUEST_TIMEOUT_MS, lambda: self._answer(link, call, late))

    def _answer(self, link: Link, call: Call, response: Message | Exception) -> None:
        if call not in self._open.get(link, ()):
            return
        if isinstance(response, Message):
            self._open[link].remove(call)
            self.router.answered(call, response, self.now_ms)
        else:
            assert isinstance(response, KafkaWireError)
            self.break_connections(_node(link), response)

    def close(self) -> None:
        """End the client."""
        error = Closed("the client was closed")
        self.router.close(error, self.now_ms)
        for machine in self.machines:
            machine.fail(error, self.now_ms)


def _check_times(where: type, name: str, place: int) -> None:
    """Make a method check the time that it receives while a simulation is running."""
    method = getattr(where, name)

    @wraps(method)
    def checked(*arguments: Any, **named: Any) -> Any:
        if _running:
            _running[-1].check_time(arguments[place])
        return method(*arguments, **named)

    setattr(where, name, checked)


#: The running simulations, the innermost last.
_running: list[Simulation] = []

#: The methods that receive times, and the position of the time among their arguments, most of which are other numbers.
for _method in (
    (Attempts, "failed", 2),
    (Link, "moves_to", 2),
    (Link, "takes_calls", 1),
    (LogLimit, "_write", 3),
    (Router, "reach", 2),
    (Router, "submit", 2),
    (Sensor, "record", 2),
):
    _check_times(*_method)


def _node(link: Link) -> int:
    return int(link.address.host.removeprefix("node-"))


def _through_codec(message: Message, version: int) -> Message:
    code = program(type(message), version)
    return code.decode(code.encode(message))[0]
