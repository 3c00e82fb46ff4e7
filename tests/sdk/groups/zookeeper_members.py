"""The members of a group in ZooKeeper, on one simulated clock and one tree of nodes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.protocol import GroupSettings
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.groups.zookeeper_group import ZookeeperGroup, ZookeeperSettings
from kafkawire.sdk.groups.zookeeper_offsets import ZookeeperOffsets
from kafkawire.sdk.protocol.tables.znodes import BROKER, CONSUMER_OFFSET, TOPIC, BrokerRegistration, TopicAssignment
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.groups.memory_registry import MemoryRegistry, Tree
from tests.sdk.groups.readers import Listener, MemoryReader
from tests.sdk.simulation import backoff, options

__all__ = ["SESSION_TIMEOUT_MS", "Group", "Member"]

SESSION_TIMEOUT_MS = 6_000

#: More iterations than any rebalance takes while no time passes.
_TURNS_MAX = 1_000


class Member:
    """One member.

    Args:
        name: the member's consumer id.
        group: the group.
        subscription: the topics that it reads.
        zookeeper: settings for ZooKeeper.
        given: any other settings.
    """

    def __init__(
        self, name: str, group: Group, subscription: Subscription, zookeeper: dict[str, Any], given: dict[str, Any]
    ) -> None:
        self.name = name
        self._group = group
        self.registry = MemoryRegistry(group.tree, SESSION_TIMEOUT_MS)
        self.reader = MemoryReader(group.committed)
        self.offsets = ZookeeperOffsets(self.registry, backoff(), "g", self.reader, None, 5_000)
        self.listener = Listener()
        self.failures: list[KafkaWireError] = []
        self.router = Router(options(), backoff())
        self.group = ZookeeperGroup(
            self.registry,
            self.router,
            backoff(),
            GroupSettings("g", **given),
            ZookeeperSettings(name, 1_795_881_573_196, **zookeeper),
            subscription,
            self.reader,
            self.offsets,
            self.listener,
            lambda error, now_ms: self.failures.append(error),
        )
        self.listener.acknowledge = self.group.acknowledge
        self.stopped: Promise[None] = Promise()
        self.group.start(group.now_ms)

    @property
    def state(self) -> str:
        return str(self.group.state.value)

    def poll(self) -> None:
        """Poll until nothing is due."""
        for _ in range(100):
            self.group.poll(self._group.now_ms)
            self.offsets.poll(self._group.now_ms)
            due = [each.due_ms(self._group.now_ms) for each in (self.group, self.offsets)]
            if not any(due_ms is not None and due_ms <= self._group.now_ms for due_ms in due):
                return
        raise AssertionError(f"{self.name} is {self.state}, and something is always due")

    def stop(self, timeout_ms: int = 5_000) -> None:
        """Begin to leave."""
        self.group.stop(self._group.now_ms + timeout_ms, self.stopped, self._group.now_ms)


class Group:
    """A group whose members read topics.

    Args:
        topics: the number of partitions, keyed by topic.

    Attributes:
        tree: the nodes.
        members: the running members.
    """

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        self.now_ms = 1_000
        self.tree = Tree("/brokers/ids", "/brokers/topics", "/consumers")
        self.members: list[Member] = []
        self.add_broker(1)
        for topic, partitions in (topics or {"t": 4}).items():
            self.set_partitions(topic, partitions)

    def add_broker(self, broker_id: int) -> None:
        """Register a live broker."""
        content = BrokerRegistration({}, {"PLAINTEXT": "PLAINTEXT"}, ("PLAINTEXT://b:9092",))
        self.tree.put(BROKER.path(broker_id), BROKER.encode(content))

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Create a topic, or add partitions to it."""
        self.tree.put(TOPIC.path(topic), TOPIC.encode(TopicAssignment(dict.fromkeys(range(partitions), (1,)))))

    def committed(self, partition: TopicPartition) -> int:
        """Return a partition's committed offset, or 0 if there is none."""
        node = self.tree.nodes.get(CONSUMER_OFFSET.path("g", *partition))
        return 0 if node is None else CONSUMER_OFFSET.decode(node.data)

    def member(
        self,
        name: str,
        *topics: str,
        pattern: str | None = None,
        excludes: bool = False,
        zookeeper: dict[str, Any] | None = None,
        **given: Any,
    ) -> Member:
        """Start a member; without topics or a pattern, it reads `t`."""
        names = topics or (() if pattern else ("t",))
        member = Member(name, self, Subscription(names, pattern, excludes=excludes), zookeeper or {}, given)
        self.members.append(member)
        return member

    def advance(self, duration_ms: int) -> None:
        """Let time pass without answers from the registry."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + 100)
            for member in self.members:
                member.poll()

    def run(self, duration_ms: int = 10_000, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass with all answers, and end early if a condition holds."""
        end_ms = self.now_ms + duration_ms
        while True:
            for turn in count():
                assert turn < _TURNS_MAX, (
                    f"the members did not settle: {[(each.name, each.state) for each in self.members]}"
                )
                for member in self.members:
                    member.poll()
                if all(member.registry.is_quiet for member in self.members):
                    break
                for member in self.members:
                    member.registry.step()
            if self.now_ms >= end_ms or until():
                return
            self.now_ms += 100

    def reading(self) -> dict[str, str]:
        """Return the reader of each partition, keyed by topic and number as in `t/0`; fail if there are two."""
        found: dict[str, str] = {}
        for member in self.members:
            for partition in member.reader.handed_out:
                place = f"{partition.topic}/{partition.partition}"
                assert place not in found, f"{place} is read by {found[place]} and {member.name}"
                found[place] = member.name
        return found
