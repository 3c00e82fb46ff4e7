"""Whatever happens to a group, its members keep the promises of `GroupProtocol`.

Method: let members join, leave, die and read with a simulated coordinator, as a seed determines. The coordinator moves,
and every request may be refused or lose its connection. At no time may two members that the coordinator knows hand out
the same partition (unless members give up everything in a rebalance), a commit be accepted from a member that does not
own the partition, a committed offset decrease, or the listener get two events at once. In the end, every partition must
be read by one member, and every commit and every `stop` must have ended in time.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.errors import ConnectionLost, KafkaWireError
from kafkawire.sdk.groups.classic_group import ClassicGroup
from kafkawire.sdk.groups.commit_outcome import Outcome
from kafkawire.sdk.groups.consumer_group import ConsumerGroup
from kafkawire.sdk.groups.protocol import Assigned, Event, GroupSettings, Lost, Revoking
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.groups.classic_coordinator import ClassicCoordinator
from tests.sdk.groups.consumer_coordinator import ConsumerCoordinator
from tests.sdk.groups.members import Cluster, Member, refusal
from tests.thorough import sampled

KINDS: dict[str, Callable[[], Cluster]] = {
    "range": lambda: Cluster.of_classic("range"),
    "sticky": lambda: Cluster.of_classic("sticky"),
    "cooperative-sticky": lambda: Cluster.of_classic("cooperative-sticky"),
    "consumer": Cluster.of_consumers,
}

TRANSIENT = [
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
]
FATEFUL = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS]


class Story:
    """A run with one seed."""

    def __init__(self, kind: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = KINDS[kind]()
        self.cluster.step_ms = 20
        self.keeps_partitions = kind in ("cooperative-sticky", "consumer")
        self.outcomes: list[tuple[int, list[Outcome | KafkaWireError]]] = []
        self.joined = 0
        self.stops: list[tuple[int, Member]] = []
        self.gone: set[str] = set()
        self.faulty = True
        self.stored: dict[TopicPartition, int] = {}
        self.seen = 0
        self.cluster.fault = self.fault
        self.cluster.checks.append(self.check)

    def fault(self, node: int, request: Message) -> Message | Exception | None:
        if isinstance(request, OffsetCommitRequest):
            self.check_commit(request)
        if not self.faulty or self.chance.random() > 0.03:
            return None
        if self.chance.random() < 0.4:
            return ConnectionLost("reset by peer")
        codes = TRANSIENT
        if isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest | OffsetCommitRequest):
            codes = TRANSIENT + FATEFUL
        elif self.chance.random() < 0.3:
            codes = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]
        return refusal(request, self.chance.choice(codes))

    def check(self) -> None:
        alive = [member for member in self.cluster.members if member.name not in self.gone]
        kafka = self.cluster.kafka
        assert isinstance(kafka, ClassicCoordinator | ConsumerCoordinator)
        if self.keeps_partitions:
            read: set[TopicPartition] = set()
            for member in alive:
                signature = member.group.sign()
                if signature is not None and signature.member_id in kafka.members:
                    assert not read & member.reader.handed_out, "two members hand out one partition"
                    read |= member.reader.handed_out
        for partition, offset, _ in kafka.commits[self.seen :]:
            assert offset >= self.stored.get(partition, 0), f"the committed offset of {partition} decreases"
            self.stored[partition] = offset
        self.seen = len(kafka.commits)

    def check_commit(self, request: OffsetCommitRequest) -> None:
        """Check that a member signs commits with its current membership, and commits only for its own partitions."""
        for member in self.cluster.members:
            signature = member.group.sign()
            if signature is not None and signature.member_id == request.member_id:
                assert signature.generation_id == request.generation_id_or_member_epoch
                numbers = {each.partition_index for topic in request.topics for each in topic.partitions}
                assert numbers <= {partition.partition for partition in member.reader.assigned}
                return
        raise AssertionError("a commit without a member")

    def join(self) -> None:
        self.joined += 1
        member = self.cluster.member(f"m{self.joined}", auto_commit_interval_ms=self.chance.choice([None, 300, 1_000]))
        member.listener.is_slow = True

        def handle(event: Event, now_ms: int) -> None:
            delay_ms = self.chance.choice([0, 1, 20, 300])
            member.simulation.at(delay_ms, lambda: member.listener.handle(member.now_ms))
            if isinstance(event, Revoking) and self.chance.random() < 0.5:
                self.commit(member)

        member.listener.on_event = handle

    def commit(self, member: Member) -> None:
        timeout_ms = self.chance.choice([50, 1_000, 5_000])
        self.outcomes.append((self.cluster.now_ms + timeout_ms, member.commit(timeout_ms=timeout_ms)))

    def read(self) -> None:
        for member in self.cluster.members:
            member.reader.read()

    def leave(self, member: Member) -> None:
        timeout_ms = self.chance.choice([20, 1_000, 5_000])
        member.stop(timeout_ms)
        self.stops.append((self.cluster.now_ms + timeout_ms, member))
        self.gone.add(member.name)

    def die(self, member: Member) -> None:
        member.simulation.close()
        self.cluster.members.remove(member)
        self.gone.add(member.name)

    def act(self) -> None:
        alive = [member for member in self.cluster.members if member.name not in self.gone]
        if len(alive) < 2:
            self.join()
            return
        member = self.chance.choice(alive)
        actions: list[tuple[float, Callable[[], None]]] = [
            (1.0, self.join if len(alive) < 5 else lambda: self.leave(member)),
            (0.7, lambda: self.leave(member)),
            (0.3, lambda: self.die(member)),
            (4.0, lambda: self.commit(member)),
            (6.0, self.read),
            (0.5, lambda: setattr(self.cluster, "node", self.chance.choice([1, 2, 3]))),
            (0.7, lambda: member.simulation.break_connections(self.cluster.node)),
        ]
        self.chance.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()

    def run(self) -> None:
        for _ in range(120):
            self.act()
            self.cluster.run(self.chance.choice([20, 40, 100, 700]))
        self.faulty = False
        alive = [member for member in self.cluster.members if member.name not in self.gone]
        self.cluster.settle(*alive, share=0)
        for deadline_ms, outcomes in self.outcomes:
            assert len(outcomes) == 1 or deadline_ms > self.cluster.now_ms, "a commit has not ended, or ended twice"
        for member in alive:
            self.leave(member)
        self.cluster.run(6_000)
        assert all(member.stopped is not None and member.stopped.done for _, member in self.stops)
        for _, member in self.stops:
            assert member.reader.assigned == frozenset()
            assert not member.failures
        assert all(len(outcomes) == 1 for _, outcomes in self.outcomes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", sampled(range(4), 4))
def test_a_group_survives_everything(kind: str, seed: int) -> None:
    Story(kind, seed).run()


@pytest.mark.parametrize("kind", KINDS)
def test_events_tell_the_generation_and_are_acknowledged_in_turn(kind: str) -> None:
    cluster = KINDS[kind]()
    first = cluster.member("a")
    cluster.settle(first)
    second = cluster.member("b")
    cluster.settle(first, second)
    assert [type(event) for event in first.listener.events][:2] == [Assigned, Revoking]
    assert not any(isinstance(event, Lost) for event in first.listener.events)
    generations = [event.generation for event in first.listener.events]
    assert generations == sorted(generations)
    signature = second.group.sign()
    assert signature is not None
    assert second.group.is_current(signature.generation_id)
    assert not second.group.is_current(signature.generation_id - 1)


def test_defaults_of_a_membership_are_those_of_the_options() -> None:
    options = read_options(ConsumerOptions, "node-1:9092", {})
    for name, default in GroupSettings._field_defaults.items():
        if name in vars(options):
            assert getattr(options, name) == default, name


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_asks_for_nothing_before_it_is_started(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KINDS[kind]()
    with monkeypatch.context() as patch:
        for protocol in (ClassicGroup, ConsumerGroup):
            patch.setattr(protocol, "start", lambda group, now_ms: None)
        member = cluster.member("a")
    member.group.subscribe(Subscription(["t"]), member.now_ms)
    cluster.run(10_000)
    assert {type(request) for _, _, request, _ in member.simulation.sent} == {MetadataRequest}
    assert member.group.due_ms(member.now_ms) is None
    member.group.start(member.now_ms)
    cluster.settle(member)
