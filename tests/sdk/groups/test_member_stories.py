"""Soon after any trouble, a member has all its partitions again, and behaves like a new one.

Goal: after the next success, a refusal, an assignment change, a loss, a departure or a topic change leaves no trace in
    either kind of membership or in its parts: rebalances, assignment changes, heartbeats and reports.

Method: run stories about one member, about another that comes and goes, and about faults. Each commit must end in time,
and events must wait for each other. Once all faults are repaired, the member must read all existing partitions. Then
run one more story with the used member and a new one, alone in a new group, side by side; names and generations are not
compared.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.errors import ConnectionLost
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata
from tests.sdk.groups.classic_coordinator import ClassicCoordinator
from tests.sdk.groups.consumer_coordinator import ConsumerCoordinator
from tests.sdk.groups.members import Cluster, Member, refusal
from tests.sdk.simulation import SILENT, Later
from tests.sdk.stories import Kinds, Step, assert_alike, run_stories, steps

PROTOCOLS = {
    "range": lambda: Cluster.of_classic("range", topics={"t": 3, "u": 2}),
    "cooperative-sticky": lambda: Cluster.of_classic("cooperative-sticky", topics={"t": 3, "u": 2}),
    "consumer": lambda: Cluster.of_consumers({"t": 3, "u": 2}),
}
REQUESTS: dict[str, tuple[type[Message], ...]] = {
    "join": (JoinGroupRequest,),
    "sync": (SyncGroupRequest,),
    "heartbeat": (HeartbeatRequest, ConsumerGroupHeartbeatRequest),
    "commit": (OffsetCommitRequest,),
}
#: Errors after which a member joins again or retries.
CODES = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.FENCED_MEMBER_EPOCH,
)

#: A fault in which the request is carried out, but the response is lost with the connection.
HEARD = object()

#: The maximum difference between members' clocks; coarser than elsewhere, since stories are long.
STEP_MS = 25

#: The session timeout of a killed member of a classic group, plus the rebalance after it.
KILLED_MS = 8_000

#: The time that a departure may take.
LEAVE_MS = 2_000

#: The longest pause plus a rebalance in a group of one.
SETTLED_MS = 2_000


def kinds_of_steps(*requests: str) -> Kinds:
    """Return the kinds of steps in stories about a member that sends these requests."""
    some_requests = st.sampled_from(requests)
    return {
        "break": (),
        "commit": (st.sampled_from([100, 3_000]),),
        "coordinator": (st.sampled_from([1, 2, 3]),),
        "grow": (st.sampled_from(["t", "u"]),),
        "handle": (),
        **({"hold syncs": (st.booleans(),)} if "sync" in requests else {}),
        "hear": (some_requests,),
        "idle": (st.booleans(),),
        "lose": (some_requests,),
        "other comes": (),
        "other goes": (st.booleans(),),
        "pass": (st.sampled_from([25, 100, 600]),),
        "pass on": (st.sampled_from([25, 300, 1_500, 4_000]),),
        "raise": (),
        "read": (),
        "refuse": (some_requests, st.lists(st.sampled_from(CODES), min_size=1, max_size=2)),
        "silence": (some_requests,),
        "slow": (st.booleans(),),
        "subscribe": (st.sampled_from([("t",), ("t", "u"), ("u",)]),),
    }


class Scene:
    """A member, its group, and perhaps another member.

    Args:
        kind: the group's protocol, one of `PROTOCOLS`.
        now_ms: the start time.
        topics: the number of partitions, keyed by topic; None for the initial numbers.
        names: the topics that the member reads.
    """

    def __init__(
        self, kind: str, now_ms: int = 1_000, topics: dict[str, int] | None = None, names: tuple[str, ...] = ("t",)
    ) -> None:
        self.cluster = PROTOCOLS[kind]()
        self.cluster.step_ms = STEP_MS
        self.cluster.now_ms = now_ms
        kafka = self.cluster.kafka
        assert isinstance(kafka, ClassicCoordinator | ConsumerCoordinator)
        self.kafka = kafka
        if topics is not None:
            self.cluster.topics.update(topics)
            self._tell_of_topics()
        kafka.now_ms = now_ms
        self.cluster.fault = self._fault
        self.names = names
        self.faults: dict[type[Message], list[Any]] = {}
        self.holds_syncs = False
        self.held: list[tuple[Later, SyncGroupRequest]] = []
        self.commits: list[tuple[int, list[Any]]] = []
        self.member = self.cluster.member("a", Subscription(list(names)), auto_commit_interval_ms=None)
        self.others: list[Member] = []
        self._others = self._seen_sent = self._seen_events = self._seen_outcomes = 0

    def _tell_of_topics(self) -> None:
        if isinstance(self.kafka, ConsumerCoordinator):
            self.kafka.topics = dict(self.cluster.topics)
            self.kafka._bump()

    def _fault(self, node: int, request: Message) -> Any:
        faults = self.faults.get(type(request))
        if faults:
            fault = faults.pop(0)
            if fault is HEARD:
                answer = self.kafka.handlers[type(request)](request, 5)
                if isinstance(answer, Later):
                    answer.deliver = lambda response: None
                return ConnectionLost("reset by peer")
            return refusal(request, fault) if isinstance(fault, ErrorCode) else fault
        if self.holds_syncs and isinstance(request, SyncGroupRequest) and node == self.cluster.node:
            later = Later()
            self.held.append((later, request))
            return later
        return None

    def _let_syncs_go(self) -> None:
        self.holds_syncs = False
        held, self.held = self.held, []
        for later, request in held:
            assert isinstance(self.kafka, ClassicCoordinator)
            response = self.kafka.sync(request, 5)
            if isinstance(response, Later):
                response.deliver = later.deliver
            else:
                later.answer(response)

    def _queue(self, requests: str, faults: list[Any]) -> None:
        for kind in REQUESTS[requests]:
            codes = [] if kind is ConsumerGroupHeartbeatRequest else [ErrorCode.FENCED_MEMBER_EPOCH]
            self.faults[kind] = [fault for fault in faults if fault not in codes]

    def act(self, step: Step) -> None:
        cluster, member = self.cluster, self.member
        match step:
            case ("break",):
                member.simulation.break_connections(cluster.node)
            case ("commit", timeout_ms):
                self.commits.append((member.now_ms + timeout_ms, member.commit(timeout_ms=timeout_ms)))
            case ("coordinator", node):
                cluster.node = node
            case ("grow", topic):
                cluster.topics[topic] += 1
                self._tell_of_topics()
                for each in cluster.members:
                    each.router.metadata.invalidate()
            case ("handle",):
                member.listener.handle(member.now_ms)
            case ("hold syncs", True):
                self.holds_syncs = True
            case ("hold syncs", False):
                self._let_syncs_go()
            case ("hear", requests):
                self._queue(requests, [HEARD])
            case ("idle", is_idle):
                member.reader.last_handed_out_ms = member.now_ms - 40_000 if is_idle else None
            case ("lose", requests):
                self._queue(requests, [ConnectionLost("reset by peer")])
            case ("other comes",) if not self.others:
                self._others += 1
                self.others.append(cluster.member(f"b{self._others}", Subscription(["t", "u"])))
            case ("other goes", is_killed) if self.others:
                self._end_other(is_killed=is_killed)
            case ("pass" | "pass on", duration_ms):
                cluster.run(duration_ms)
            case ("raise",):
                member.reader.errors.clear()
            case ("read",):
                member.reader.read()
            case ("refuse", requests, codes):
                self._queue(requests, list(codes))
            case ("silence", requests):
                self._queue(requests, [SILENT])
            case ("slow", is_slow):
                member.listener.is_slow = is_slow
                if not is_slow:
                    member.listener.handle(member.now_ms)
            case ("subscribe", names):
                self.names = names
                member.group.subscribe(Subscription(list(names)), member.now_ms)
        cluster.run(STEP_MS)
        self.check()

    def _end_other(self, *, is_killed: bool) -> None:
        other = self.others.pop()
        if is_killed:
            other.simulation.close()
            self.cluster.members.remove(other)
        else:
            other.stop(1_000)

    def check(self) -> None:
        """Check that each commit ends once and in time, and that a member outside the group is assigned nothing."""
        for deadline_ms, outcomes in self.commits:
            assert len(outcomes) == 1 or (not outcomes and deadline_ms > self.cluster.now_ms)
        assert not self.member.failures
        if self.member.group.sign() is None and not self.member.listener.waiting:
            assert not self.member.reader.assigned

    def mend(self) -> None:
        """Repair all faults, and check that the member soon reads everything to which it has subscribed."""
        member = self.member
        for other in list(self.others):
            other.stop(1_000)
        self.others.clear()
        self._let_syncs_go()
        self.faults.clear()
        member.reader.last_handed_out_ms = None
        member.reader.errors.clear()
        member.listener.is_slow = False
        member.listener.handle(member.now_ms)
        self.await_all()

    def await_all(self) -> None:
        """Wait until the member is alone and reads all partitions of its topics for good."""
        end_ms = self.cluster.now_ms + 100_000  # the longest session timeout of a killed member, plus a silent request
        for _ in range(2):  # after KILLED_MS, the rebalance without the killed member has ended
            self.cluster.until(lambda: len(self.kafka.members) == 1 and self.reads_all(), end_ms - self.cluster.now_ms)
            self.cluster.run(KILLED_MS)
        assert self.reads_all(), "the member has lost partitions again"
        assert self.member.group.trouble is None
        self.check()

    def reads_all(self) -> bool:
        """Return whether the member reads all its topics' partitions."""
        read = self.member.reader.handed_out
        return sorted(read) == sorted(
            (name, number) for name in self.names for number in range(self.cluster.topics[name])
        ) and self.member.state in ("stable", "member")

    def settle(self) -> None:
        """Make the member join again, after which its requests coincide with those of any member that did the same."""
        first = ("t",) if self.names == ("t", "u") else ("t", "u")
        # Each subscription is a new one, so that the member joins, and is connected for joins, at every broker.
        for self.cluster.node, names in ((1, first), (3, ("u",)), (2, ("t",))):
            self.member.router.reach(self.cluster.node, self.member.now_ms)
            self.member.commit()
            self.cluster.run(1_500)  # by then, the member knows the coordinator
            self.names = names
            self.member.group.subscribe(Subscription(list(names)), self.member.now_ms)
            self.cluster.run(SETTLED_MS)
            assert self.reads_all()
        reader = self.member.reader
        reader.positions = dict.fromkeys(reader.positions, 10)
        reader.stored = {partition: OffsetAndMetadata(10, leader_epoch=1) for partition in reader.positions}
        self.kafka.offsets = dict(reader.stored)

    def leave(self) -> None:
        """Leave, whatever is in progress; `stop` must end within its limit, even if it is called twice."""
        first, second = self.member.stop(LEAVE_MS), self.member.stop(LEAVE_MS)
        self.cluster.run(LEAVE_MS + STEP_MS)
        assert first.done
        assert second.done
        assert not self.member.reader.assigned
        self.check()

    def news(self) -> tuple[object, ...]:
        member = self.member
        sent, events = member.simulation.sent[self._seen_sent :], member.listener.events[self._seen_events :]
        outcomes = [outcome for _, outcome in self.commits[self._seen_outcomes :]]
        self._seen_sent, self._seen_events = len(member.simulation.sent), len(member.listener.events)
        self._seen_outcomes = len(self.commits)
        return (
            [
                # Any broker may be asked for the coordinator; the order of earlier connections decides.
                (at, None if isinstance(request, FindCoordinatorRequest) else node, _without_names(request))
                for at, node, request, _ in sent
                if not isinstance(request, MetadataRequest)
            ],
            [(type(event).__name__, sorted(event.partitions)) for event in events],
            [type(outcome).__name__ for each in outcomes for outcome in each],
            (sorted(member.reader.handed_out), sorted(member.reader.assigned)),
            (member.state, member.group.sign() is None, [repr(error) for error in member.reader.errors]),
        )


def _without_names(request: Message) -> str:
    """Return the text of a request without the values that differ between memberships."""
    text = repr(request)
    for field in ("generation_id", "generation_id_or_member_epoch", "member_epoch", "member_id", "reason", "metadata"):
        text = re.sub(rf"\b{field}=('[^']*'|b'[^']*'|-?\d+)", field, text)
    return re.sub(r"(committed_offset|data)=[^,)]*", r"\1", text)


GROWS_MEANWHILE = [
    *(("pass on", 1_500), ("subscribe", ("t", "u")), ("hold syncs", True), ("pass", 100), ("grow", "t")),
    *(("pass", 600), ("hold syncs", False), ("pass", 600)),
]

#: Before it is compared, the member has joined at a broker that the new member has not.
JOINS_ELSEWHERE = [("coordinator", 1), ("subscribe", ("t", "u"))]

#: Brokers are connected in another order than at a new member.
OTHER_ORDER = [
    ("break",),
    ("coordinator", 1),
    ("other comes",),
    ("break",),
    ("break",),
    ("silence", "join"),
    ("idle", True),
]

#: Commits fail, and none succeeds before the comparison, in which a commit fails and another one follows.
COMMITS_IN_VAIN = [("break",), ("commit", 100), ("read",), ("coordinator", 1), ("commit", 100), ("idle", True)]
COMMITS_AGAIN = [
    ("read",),
    ("pass", 25),
    ("coordinator", 1),
    ("commit", 100),
    ("pass", 25),
    ("break",),
    ("commit", 100),
]


CLASSIC = kinds_of_steps("join", "sync", "heartbeat", "commit")
CONSUMER = kinds_of_steps("heartbeat", "commit")


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky"])
@given(past=steps(CLASSIC, 24), future=steps(CLASSIC, 16))
@example(GROWS_MEANWHILE, [])
@example(COMMITS_IN_VAIN, COMMITS_AGAIN)
@example(OTHER_ORDER, [("break",), ("break",)])
@example(JOINS_ELSEWHERE, [("handle",), ("coordinator", 1), ("grow", "t")])
@run_stories(10)
def test_a_recovered_member_of_a_classic_group_behaves_like_a_new_one(
    kind: str, past: list[Step], future: list[Step]
) -> None:
    _behaves_like_a_new_one(kind, past, future)


@given(past=steps(CONSUMER, 24), future=steps(CONSUMER, 16))
@run_stories(20)
def test_a_recovered_member_of_a_kip_848_group_behaves_like_a_new_one(past: list[Step], future: list[Step]) -> None:
    _behaves_like_a_new_one("consumer", past, future)


def _behaves_like_a_new_one(kind: str, past: list[Step], future: list[Step]) -> None:
    old = Scene(kind)
    for step in past:
        old.act(step)
    old.mend()
    new = Scene(kind, old.cluster.now_ms, dict(old.cluster.topics), old.names)
    new.await_all()
    old.cluster.run(new.cluster.now_ms - old.cluster.now_ms)
    for each in (old, new):
        each.settle()
        each.commits.clear()
        each._seen_outcomes = 0
        each.news()
    assert_alike(old, new, future)
    for each in (old, new):
        each.leave()
