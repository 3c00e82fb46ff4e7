"""Soon after any fault, a router works again, and behaves like a new one.

Goal: after the next success, a failure, a refused login, a pause or a moved broker leaves no trace in the router or in
    its parts: metadata and its refresh, links, coordinators, and calls and their attempts.

Method: run stories of faults on a simulated cluster. After each step, no call may be overdue, and no call may have
ended with an error from before its turn. Once all faults are repaired, every broker must be reachable within the
longest pause. Then run one more story with the used router and a new one that has the same knowledge, side by side.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
)
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, CONTROLLER, Call, Coordinator, Node, Purpose, Target
from kafkawire.sdk.routing.refusals import REFUSED_PAUSE_MAX_MS
from kafkawire.sdk.routing.router import Router
from tests.sdk.simulation import (
    CONNECT_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Silent,
    Simulation,
    address,
    backoff,
    cluster,
    options,
)
from tests.sdk.stories import Kinds, Step, assert_alike, run_stories, steps

NODES = (1, 2, 3)
G, X = Coordinator(CoordinatorType.GROUP, "g"), Coordinator(CoordinatorType.TRANSACTION, "x")
TARGETS: dict[str, Target] = {
    **{f"node {node}": Node(node) for node in NODES},
    "any": ANY_BROKER,
    "controller": CONTROLLER,
    "g": G,
    "x": X,
}
PURPOSES = (Purpose.DATA, Purpose.GROUP)

#: A code with its own pause, so the test knows when the next attempt begins for a call that is refused with this code.
PAUSED, PAUSE_MS = ErrorCode.CONCURRENT_TRANSACTIONS, 700

#: The timeout for one response to a call; the router's own requests have a longer timeout.
TIMEOUT_MS = 2_000

#: The longest pause, the requests in flight around it, and a second attempt if the first began with stale metadata.
PROMPT_MS = 2_500

#: This long after a metadata refresh, the next reason to refresh takes effect immediately.
CALM_MS = 2_500

AGE_MS = 20_000

IDLE_MS = 15_000

KINDS: Kinds = {
    "break": (st.sampled_from(NODES),),
    "call": (st.sampled_from(sorted(TARGETS)), st.sampled_from([300, 3_000, 60_000]), st.booleans()),
    "call again": (st.sampled_from(sorted(TARGETS)), st.sampled_from([3_000, 60_000]), st.booleans()),
    "cancel": (),
    "codes": (st.lists(st.sampled_from([PAUSED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 42]), max_size=2),),
    "coordinator": (st.sampled_from(NODES),),
    "down": (st.sampled_from(NODES),),
    "find": (st.sampled_from([0, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.GROUP_AUTHORIZATION_FAILED]),),
    "leave": (st.sampled_from(NODES),),
    "metadata": (st.sampled_from(["good", "good", "without brokers", "rebootstrap", "other controller"]),),
    "outage": (),
    "pass": (st.sampled_from([1, 3, 60, 400, 1_000]),),
    "pass on": (st.sampled_from([1, 30, 300, 1_000, 5_000, 16_000]),),
    "reach": (st.sampled_from(NODES),),
    "refuse": (st.sampled_from(NODES),),
    "stall": (st.sampled_from(NODES),),
    "throttle": (st.sampled_from([0, 50, 900]),),
    "up": (st.sampled_from(NODES),),
    "want": (st.sampled_from(["t", "u", "missing"]),),
}


class Scene:
    """A router and its cluster.

    Args:
        now_ms: the start time.
        wanted: the topics.
    """

    def __init__(self, now_ms: int = 1_000, wanted: frozenset[str] = frozenset()) -> None:
        given = options(servers="node-1:9092,node-2:9092", metadata_max_age_ms=AGE_MS, connections_max_idle_ms=IDLE_MS)
        self.router = Router(given, backoff())
        self.router.metadata.wanted = set(wanted)
        self.simulation = Simulation(self.router)
        self.simulation.now_ms = now_ms
        self.refused: set[int] = set()
        self.gone: set[int] = set()
        self.codes: list[int] = []
        self.coordinator, self.find_code, self.controller, self.throttle_ms = 2, 0, 1, 0
        self.metadata = "good"
        self.has_stalled = self.has_refused = False
        self.open: dict[str, Call] = {}
        self.outcomes: list[tuple[int, str]] = []
        self.turns_ms: dict[str, int] = {}
        self._calls = self._seen_sent = self._seen_opened = self._seen_outcomes = 0
        handlers = self.simulation.handlers
        handlers[MetadataRequest] = self._metadata
        handlers[FindCoordinatorRequest] = self._find
        for node in NODES:
            handlers[node, HeartbeatRequest] = lambda request, version, node=node: self._beat(node, request)

        def refuse(address: Any, reason: str) -> ConnectFailed:
            kind = AuthenticationFailed if int(address.host.removeprefix("node-")) in self.refused else ConnectFailed
            return kind(address, f"at {self.simulation.now_ms}")

        self.simulation.refusal = refuse  # type: ignore[assignment]  # a function called like the class

    # The cluster.

    def _metadata(self, request: MetadataRequest, version: int) -> Message | Silent:
        if self.metadata == "without brokers":
            return MetadataResponse()
        listed = [node for node in NODES if node not in self.gone]
        controller = 3 if self.metadata == "other controller" else 1
        response = cluster(listed, {"t": [1, 2, 3], "u": [2]}, controller)(request, version)
        assert isinstance(response, MetadataResponse)
        if self.metadata == "rebootstrap":
            response.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
        return response

    def _find(self, request: FindCoordinatorRequest, version: int) -> Message:
        found = [
            FindCoordinatorResponse.Coordinator(key, self.coordinator, *address(self.coordinator), self.find_code)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _beat(self, node: int, request: HeartbeatRequest) -> Message:
        code = self.codes.pop(0) if self.codes else 0
        if request.group_id.startswith(("g ", "x ")) and node != self.coordinator:
            code = ErrorCode.NOT_COORDINATOR
        return HeartbeatResponse(self.throttle_ms, code)

    # Steps.

    def call(self, name: str, timeout_ms: int, *, retries: bool) -> None:
        """Submit a call."""
        self._calls += 1
        label = f"{name} {self._calls}"
        purpose = PURPOSES[self._calls % len(PURPOSES)]
        submitted_ms = self.simulation.now_ms
        self.turns_ms[label] = submitted_ms

        def check(response: Message) -> KafkaWireError | None:
            assert isinstance(response, HeartbeatResponse)
            self.turns_ms[label] = self.simulation.now_ms + (PAUSE_MS if response.error_code == PAUSED else 0)
            return BrokerError(response.error_code, "heartbeat") if response.error_code else None

        def done(call: Call, now_ms: int) -> None:
            del self.open[label]  # fails if the call has already ended
            assert now_ms == self.simulation.now_ms
            error = call.error
            if isinstance(error, ConnectFailed) and " at " in str(error) and ";" not in str(error):
                happened_ms = int(str(error).rpartition(" ")[2])
                assert happened_ms >= self.turns_ms[label], f"{label}: {error} is older than its turn"
            self.outcomes.append((now_ms, f"{label}: {error!r}"))

        self.open[label] = Call(
            TARGETS[name],
            lambda _: (HeartbeatRequest(label), None),
            HeartbeatResponse,
            submitted_ms + timeout_ms,
            done,
            check=check,
            retries=retries,
            pauses={PAUSED: PAUSE_MS},
            timeout_ms=TIMEOUT_MS,
            purpose=purpose,
        )
        self.router.submit(self.open[label], submitted_ms)

    def act(self, step: Step) -> None:
        match step:
            case ("break", node):
                self.simulation.break_connections(node, ConnectionLost(f"node {node}"))
            case ("call" | "call again", target, timeout_ms, retries):
                self.call(target, timeout_ms, retries=retries)
            case ("cancel",):
                for label in list(self.open)[:1]:
                    self.open.pop(label).cancel()
            case ("codes", codes):
                self.codes = list(codes)
            case ("coordinator", node):
                self.coordinator = node
            case ("down", node):
                self.simulation.down.add(node)
                self.simulation.break_connections(node)
            case ("find", code):
                self.find_code = code
            case ("leave", node):
                self.gone = {node}
            case ("metadata", kind):
                self.metadata = kind
            case ("outage",):
                self.outage()
            case ("pass" | "pass on", duration_ms):
                self.simulation.run(duration_ms)
            case ("reach", node):
                self.router.reach(node, self.simulation.now_ms)
            case ("refuse", node):
                self.refused.add(node)
                self.has_refused = True
                self.simulation.down.add(node)
                self.simulation.break_connections(node)
            case ("stall", node):
                self.simulation.stalled.add(node)
                self.has_stalled = True
            case ("throttle", throttle_ms):
                self.throttle_ms = throttle_ms
            case ("up", node):
                self.simulation.down.discard(node)
                self.refused.discard(node)
            case ("want", topic):
                wanted = self.router.metadata.wanted
                assert wanted is not None
                wanted.add(topic)
        self.simulation.run(0)
        self.check()

    def check(self) -> None:
        """Check that no call is overdue, and that the router keeps no more than it needs."""
        now_ms, router = self.simulation.now_ms, self.router
        for call in self.open.values():
            assert now_ms <= call.deadline_ms, f"{call} has not ended at its deadline"
        flights = list(router._in_flight.values())
        for link in router._links.all:
            assert link.in_flight == sum(entry.link is link for entry in flights)
        assert len(router._unsettled) <= len(router._deadlines) <= 2 * len(router._unsettled) + 200

    def outage(self) -> None:
        """Stop all brokers for as long as a refusal delays logins; soon after that, metadata is refreshed unasked."""
        self.metadata = "good"
        self.refused.clear()
        self.simulation.stalled.clear()
        for node in NODES:
            self.simulation.down.add(node)
            self.simulation.break_connections(node)
        self.simulation.run(REFUSED_PAUSE_MAX_MS + CONNECT_TIMEOUT_MS)
        self.simulation.down.clear()
        begun_ms = self.simulation.now_ms
        self.simulation.run(PROMPT_MS)
        assert self.router.metadata.refreshed_ms > begun_ms, "the metadata was not refreshed"

    def mend(self) -> None:
        """Repair all faults; a request to a stalled broker waits until it times out."""
        self.simulation.down.clear()
        self.simulation.stalled.clear()
        self.refused.clear()
        self.gone.clear()
        self.codes.clear()
        self.coordinator, self.find_code, self.controller, self.throttle_ms = 2, 0, 1, 0
        self.metadata = "good"
        self.router.metadata.drop("missing")
        if self.has_stalled:
            self.simulation.run(REQUEST_TIMEOUT_MS)
            self.has_stalled = False
        if self.has_refused:
            self.simulation.run(REFUSED_PAUSE_MAX_MS)
            self.has_refused = False
        self.simulation.run(900)  # a throttled client waits

    def greet(self) -> None:
        """Check that every broker is reached promptly through every connection."""
        errors: list[KafkaWireError | None] = []
        self.router.refresh(errors.append)
        for name in TARGETS:
            for _ in PURPOSES:
                self.call(name, PROMPT_MS, retries=True)
            self._calls += 1  # the next target begins with the other purpose
        greeted, seen = set(self.open), len(self.outcomes)
        self.simulation.run(PROMPT_MS)
        assert errors == [None], "the metadata was not refreshed in time"
        ends = {text for _, text in self.outcomes[seen:]}
        assert {f"{label}: None" for label in greeted if label not in self.open} <= ends
        assert not greeted & self.open.keys(), "a call to a reachable broker has not ended"
        self.check()

    def settle(self) -> None:
        """Reach a state where no requests are in flight and every broker is known."""
        for label in list(self.open):
            self.open.pop(label).cancel()
        self._calls = 0
        self.greet()
        self.simulation.run(CALM_MS)
        self.greet()
        assert not self.router._in_flight
        assert not self.router._buckets
        assert not self.router._unsettled

    def news(self) -> tuple[object, ...]:
        sent, opened = self.simulation.sent[self._seen_sent :], self.simulation.opened[self._seen_opened :]
        ended = self.outcomes[self._seen_outcomes :]
        self._seen_sent, self._seen_opened = len(self.simulation.sent), len(self.simulation.opened)
        self._seen_outcomes = len(self.outcomes)
        metadata = self.router.metadata
        return (
            sorted((at, node, repr(request)) for at, node, request, _ in sent),
            sorted(opened),
            sorted(ended),
            (sorted(metadata.brokers), sorted(metadata.topics), sorted(metadata.errors), metadata.controller_id),
            [self.router.knows(each) for each in (G, X)],
            [repr(self.router.trouble(node)) for node in (None, *NODES)],
            [repr(self.router.refusal(node)) for node in NODES],
            [repr(self.router.coordinator_trouble(each)) for each in (G, X)],
        )


@given(steps(KINDS, 30), steps(KINDS, 15))
@example([("want", "missing")], [])  # dropped while the router requested it from the broker
@example(  # an ordinary failure clears the mark left by a refused login
    [("pass", 400), *(("refuse", node) for node in (3, 2, 1)), ("pass on", 1_000), ("outage",)], []
)
@example(  # another call is refused during a call's pause; the call still makes its own attempt afterwards
    [
        *(("call", "node 3", 60_000, True), ("codes", [PAUSED]), ("pass", 60), ("refuse", 3)),
        *(("call", "node 3", 60_000, True), ("call", "node 3", 60_000, True), ("pass", 1_000)),
    ],
    [],
)
@run_stories(30)
def test_a_router_that_has_recovered_behaves_like_a_new_one(past: list[Step], future: list[Step]) -> None:
    old = Scene(wanted=frozenset({"t"}))
    for step in past:
        old.act(step)
    old.mend()
    assert old.router.metadata.wanted is not None
    new = Scene(old.simulation.now_ms, frozenset(old.router.metadata.wanted))
    for each in (old, new):
        each.settle()
        each.news()
    assert_alike(old, new, future)
