"""A group's members on simulated clocks, with one coordinator.

Each member is a complete client with its own connections; `Cluster.run` advances all of them and the coordinator in
steps of a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.assignments import ConsumerAssignments
from kafkawire.sdk.groups.classic_group import ClassicGroup
from kafkawire.sdk.groups.commit_outcome import Outcome
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets
from kafkawire.sdk.groups.consumer_group import ConsumerGroup
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import GroupProtocol, GroupSettings
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.groups.classic_coordinator import ClassicCoordinator
from tests.sdk.groups.consumer_coordinator import ConsumerCoordinator
from tests.sdk.groups.readers import Listener, MemoryReader
from tests.sdk.simulation import Silent, Simulation, address, backoff, cluster, options

__all__ = ["Cluster", "Kafka", "Member", "classic", "consumer", "refusal"]

#: A function that is called with the node and the request.
Fault = Callable[[int, Message], "Message | Exception | Silent | None"]


class Kafka(Protocol):
    """A simulated coordinator."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    commits: list[tuple[TopicPartition, int, str]]

    @property
    def handlers(self) -> dict[type, Any]: ...

    def tick(self, now_ms: int) -> None: ...


#: Creates a member's protocol.
Make = Callable[["Member", GroupSettings, Subscription], GroupProtocol]


def classic(*assignors: str) -> Make:
    """Return a factory for members of a classic group."""

    def make(member: Member, settings: GroupSettings, subscription: Subscription) -> GroupProtocol:
        return ClassicGroup(
            member.router,
            backoff(),
            settings,
            ConsumerAssignments(assignors or ("range",)),
            subscription,
            member.reader,
            member.offsets,
            member.listener,
            member.fails,
        )

    return make


def consumer() -> Make:
    """Return a factory for members of a KIP-848 group."""

    def make(member: Member, settings: GroupSettings, subscription: Subscription) -> GroupProtocol:
        return ConsumerGroup(
            member.router,
            backoff(),
            settings,
            member.name,
            subscription,
            member.reader,
            member.offsets,
            member.listener,
            member.fails,
        )

    return make


class Member:
    """One client.

    Args:
        name: the client's member id in a KIP-848 group.
        group: the cluster.
        make: the factory for its protocol.
        subscription: the topics that it reads.
        settings: its settings as a member.
        auto_commit_interval_ms: the time between automatic commits; None disables them.
    """

    def __init__(
        self,
        name: str,
        group: Cluster,
        make: Make,
        subscription: Subscription,
        settings: GroupSettings,
        auto_commit_interval_ms: int | None,
    ) -> None:
        self.name = name
        self.router = Router(options(), backoff())
        self.reader = MemoryReader(lambda partition: group.kafka.offsets.get(partition, OffsetAndMetadata(0)).offset)
        self.offsets = Offsets(
            self.router, backoff(), "g", self.reader, auto_commit_interval_ms, settings.api_timeout_ms
        )
        self.found = CommittedOffsets(self.router, backoff(), "g")
        self.listener = Listener()
        self.failures: list[KafkaWireError] = []
        self.group = make(self, settings, subscription)
        self.listener.acknowledge = self.group.acknowledge
        self.simulation = Simulation(self.router, self.group, self.offsets, self.found)
        self.listener.check_time = self.simulation.check_time
        self.stopped: Promise[None] | None = None

    @property
    def now_ms(self) -> int:
        return self.simulation.now_ms

    @property
    def state(self) -> str:
        return str(getattr(self.group, "state").value)  # noqa: B009  # each protocol has its own

    def fails(self, error: KafkaWireError, now_ms: int) -> None:
        self.simulation.check_time(now_ms)
        assert not self.reader.assigned, "the partitions must be given up first"
        self.failures.append(error)

    def commit(
        self, offsets: dict[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: int = 5_000
    ) -> list[Outcome | KafkaWireError]:
        """Commit; the outcome is appended to the list."""
        outcomes: list[Outcome | KafkaWireError] = []
        given = self.reader.to_commit() if offsets is None else offsets

        def ended(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            self.simulation.check_time(now_ms)
            outcomes.append(outcome)

        self.offsets.commit(given, self.now_ms + timeout_ms, ended, self.now_ms)
        return outcomes

    def stop(self, timeout_ms: int = 5_000) -> Promise[None]:
        """Begin to leave."""
        self.stopped = Promise()
        self.group.stop(self.now_ms + timeout_ms, self.stopped, self.now_ms)
        return self.stopped


class Cluster:
    """Three brokers, one of which coordinates the group.

    Args:
        kafka: the coordinator.
        make: the default factory for the members' protocols.
        topics: the number of partitions, keyed by topic.
        step_ms: the maximum difference between the members' clocks.

    Attributes:
        node: the coordinator's node; the other nodes refuse the coordinator's requests.
        members: the members started so far.
        checks: functions called after each step, to check what must always hold.
        fault: returns an answer that replaces the true one, or None for the true answer.
    """

    def __init__(self, kafka: Kafka, make: Make, topics: dict[str, int], step_ms: int = 5) -> None:
        self.step_ms = step_ms
        self.kafka = kafka
        self.make = make
        self.topics = topics
        self.node = 2
        self.now_ms = 1_000
        self.members: list[Member] = []
        self.checks: list[Callable[[], None]] = []
        self.fault: Fault = lambda node, request: None

    @staticmethod
    def of_classic(*assignors: str, topics: dict[str, int] | None = None) -> Cluster:
        return Cluster(ClassicCoordinator(), classic(*assignors), topics or {"t": 6})

    @staticmethod
    def of_consumers(topics: dict[str, int] | None = None) -> Cluster:
        topics = topics or {"t": 6}
        return Cluster(ConsumerCoordinator(topics), consumer(), topics)

    def member(
        self,
        name: str,
        subscription: Subscription | None = None,
        make: Make | None = None,
        auto_commit_interval_ms: int | None = 1_000,
        **settings: Any,
    ) -> Member:
        """Start a member."""
        given = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500, "max_poll_interval_ms": 30_000, **settings}
        member = Member(
            name,
            self,
            make or self.make,
            subscription or Subscription(["t"]),
            GroupSettings("g", **given),
            auto_commit_interval_ms,
        )
        simulation = member.simulation
        simulation.now_ms = self.now_ms
        simulation.handlers[MetadataRequest] = lambda request, version: cluster(
            [1, 2, 3], {topic: [1] * count for topic, count in self.topics.items()}
        )(request, version)
        simulation.handlers[FindCoordinatorRequest] = lambda request, version: FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator("g", self.node, *address(self.node))]
        )
        for kind, handler in self.kafka.handlers.items():
            for node in (1, 2, 3):
                simulation.handlers[node, kind] = partial(self._handle, node, handler)
        self.members.append(member)
        member.group.start(simulation.now_ms)
        return member

    def _handle(self, node: int, handler: Any, request: Message, version: int) -> Any:
        """Answer as the coordinator, as another broker, or with a test's fault."""
        fault = self.fault(node, request)
        if fault is None and node != self.node:
            fault = refusal(request, ErrorCode.NOT_COORDINATOR)
        return handler(request, version) if fault is None else fault

    def run(self, duration_ms: int) -> None:
        """Let time pass for all members."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += self.step_ms
            for member in list(self.members):
                member.simulation.run(self.now_ms - member.simulation.now_ms)
            self.kafka.tick(self.now_ms)
            for check in self.checks:
                check()

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> int:
        """Let time pass until a condition holds, and return the time taken."""
        begun_ms = self.now_ms
        while not condition():
            assert self.now_ms - begun_ms < limit_ms, f"the condition did not become true within {limit_ms} ms"
            self.run(self.step_ms)
        return self.now_ms - begun_ms

    def settle(self, *members: Member, count: int = 6, share: int | None = None) -> None:
        """Let time pass until these members share all partitions and nothing is in progress.

        Args:
            members: all members.
            count: the number of partitions.
            share: the minimum number for each member; None for an even share.
        """
        least = count // len(members) if share is None else share

        def is_settled() -> bool:
            parts = [member.reader.handed_out for member in members]
            even = all(len(part) >= least for part in parts)
            whole = sum(map(len, parts)) == count == len(frozenset().union(*parts))
            return whole and even and all(member.state in ("stable", "member") for member in members)

        self.until(is_settled)
        self.run(1_500)
        assert is_settled()


def refusal(request: Message, code: ErrorCode) -> Message:
    """Return an error response to a member's request."""
    match request:
        case OffsetCommitRequest():
            topics = [
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    topic.name,
                    topic.topic_id,
                    [
                        OffsetCommitResponse.OffsetCommitResponsePartition(partition.partition_index, code)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
            return OffsetCommitResponse(topics=topics)
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=code, protocol_name="")
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=code)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=code)
        case _:
            return ConsumerGroupHeartbeatResponse(error_code=code)
