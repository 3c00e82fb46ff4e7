"""In a ZooKeeper group, a partition never has two readers, and has exactly one in the end; nothing is left behind.

Method: run random stories about members that come, go, stall, are killed, and lose connections, outcomes and sessions,
while topics and brokers change. After each step, only the session that owns a partition's node may hand out the
partition. The tree ends a session only after its timeout, as ZooKeeper does; everything else happens in any order.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.tables.znodes import BROKER, CONSUMER_OWNER, TOPIC
from tests.sdk.groups.zookeeper_members import SESSION_TIMEOUT_MS, Group, Member
from tests.sdk.stories import run_stories

_MEMBERS_MAX = 4
_SUBSCRIPTIONS = [("t",), ("t", "u"), ("u",)]
_PATTERNS = ["t|u", "u.*"]


class GroupStory(RuleBasedStateMachine):
    """A group whose members all use the same assignor."""

    assignor = "range"

    def __init__(self) -> None:
        super().__init__()
        self.group = Group({"t": 3, "u": 2})
        self.started = 0
        self.suspended_ms: dict[str, int] = {}

    @property
    def running(self) -> list[Member]:
        """The members that are not about to leave."""
        return [member for member in self.group.members if member.group._departure is None]

    def chosen(self, index: int) -> Member:
        """Return one of the members."""
        return self.group.members[index % len(self.group.members)]

    def gone(self, member: Member) -> None:
        self.group.members.remove(member)
        self.suspended_ms.pop(member.name, None)

    @precondition(lambda self: len(self.group.members) < _MEMBERS_MAX)
    @rule(topics=st.sampled_from(_SUBSCRIPTIONS), pattern=st.sampled_from([None, *_PATTERNS]))
    def join(self, topics: tuple[str, ...], pattern: str | None) -> None:
        self.started += 1
        names = () if pattern else topics
        settings = {"assignor": self.assignor}
        self.group.member(f"g_{self.started % 7}-{self.started}", *names, pattern=pattern, zookeeper=settings)

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3), steps=st.integers(1, 12), is_seen=st.booleans())
    def answer(self, index: int, steps: int, is_seen: bool) -> None:
        member = self.chosen(index)
        for _ in range(steps):
            member.registry.step()
            member.poll()
        if not is_seen and member.registry.is_connected:
            member.registry.step(is_seen=False)
            self.disconnect(index)

    @rule(duration_ms=st.sampled_from([0, 100, 700, 2_500]))
    def time_passes(self, duration_ms: int) -> None:
        self.group.advance(duration_ms)
        for member in self.group.members:
            since_ms = self.suspended_ms.get(member.name)
            if since_ms is not None and self.group.now_ms - since_ms >= SESSION_TIMEOUT_MS:
                self.group.tree.end_session(member.registry.session_id)

    @rule()
    def all_answers_come(self) -> None:
        self.group.run(0)

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3))
    def disconnect(self, index: int) -> None:
        member = self.chosen(index)
        if member.registry.is_connected:
            member.registry.disconnect()
            self.suspended_ms[member.name] = self.group.now_ms

    @precondition(lambda self: self.suspended_ms)
    @rule(index=st.integers(0, 3))
    def reconnect(self, index: int) -> None:
        member = self.chosen(index)
        member.registry.reconnect()
        self.suspended_ms.pop(member.name, None)
        member.poll()

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3))
    def session_expires(self, index: int) -> None:
        member = self.chosen(index)
        self.suspended_ms.pop(member.name, None)
        member.registry.expire()
        member.poll()

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3))
    def killed(self, index: int) -> None:
        member = self.chosen(index)
        self.group.tree.end_session(member.registry.session_id)
        self.gone(member)

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 3))
    def stop(self, index: int) -> None:
        self.running[index % len(self.running)].stop()

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 3), topics=st.sampled_from(_SUBSCRIPTIONS))
    def subscribe(self, index: int, topics: tuple[str, ...]) -> None:
        member = self.running[index % len(self.running)]
        member.group.subscribe(Subscription(topics), self.group.now_ms)

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3), is_slow=st.booleans())
    def listener(self, index: int, is_slow: bool) -> None:
        member = self.chosen(index)
        member.listener.is_slow = is_slow
        if not is_slow:
            member.listener.handle(self.group.now_ms)

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3))
    def read(self, index: int) -> None:
        self.chosen(index).reader.read()

    @rule(topic=st.sampled_from(["t", "u", "u2"]), count=st.integers(0, 4))
    def topic_changes(self, topic: str, count: int) -> None:
        if count:
            self.group.set_partitions(topic, count)
        elif TOPIC.path(topic) in self.group.tree.nodes:
            self.group.tree.remove(TOPIC.path(topic))

    @rule(broker_id=st.integers(1, 2), lives=st.booleans())
    def broker_changes(self, broker_id: int, lives: bool) -> None:
        if lives:
            self.group.add_broker(broker_id)
        elif BROKER.path(broker_id) in self.group.tree.nodes:
            self.group.tree.remove(BROKER.path(broker_id))

    @precondition(lambda self: self.group.members)
    @rule(index=st.integers(0, 3))
    def operator_deletes_a_registration(self, index: int) -> None:
        path = f"/consumers/g/ids/{self.chosen(index).name}"
        if path in self.group.tree.nodes:
            self.group.tree.remove(path)

    @rule()
    def quiet(self) -> None:
        """Repair everything, and check that each wanted partition then has exactly one reader, which owns it."""
        self.group.add_broker(1)
        for member in self.group.members:
            member.registry.reconnect()
            member.listener.is_slow = False
            member.listener.handle(self.group.now_ms)
        self.suspended_ms.clear()
        self.group.run(20_000)
        for member in list(self.group.members):
            if member.group._departure is not None:
                assert member.stopped.is_kept
                self.gone(member)
            else:
                assert (member.state, member.group.trouble) == ("stable", None)
        reading = self.group.reading()
        assert {place: f"{name}-0" for place, name in reading.items()} == self.group.tree.owners("g")
        wanted = {topic for member in self.group.members for topic in self.topics_of(member)}
        assert reading.keys() == {f"{topic}/{number}" for topic in wanted for number in self.partitions_of(topic)}
        assert set(self.group.tree.children("/consumers/g/ids")) == {member.name for member in self.group.members}
        assert not any(member.reader.errors or member.failures for member in self.group.members)

    def topics_of(self, member: Member) -> set[str]:
        chosen = member.group._filter
        if chosen is None:
            return set(member.group._subscription.names)
        return {topic for topic in self.group.tree.children("/brokers/topics") if chosen.accepts(topic)}

    def partitions_of(self, topic: str) -> range:
        node = self.group.tree.nodes.get(TOPIC.path(topic))
        return range(len(TOPIC.decode(node.data).partitions) if node is not None else 0)

    @invariant()
    def only_an_owner_hands_out(self) -> None:
        self.group.reading()
        for member in self.group.members:
            for partition in member.reader.handed_out:
                node = self.group.tree.nodes.get(CONSUMER_OWNER.path("g", *partition))
                assert node is not None, f"{member.name} reads {partition}, which has no owner"
                assert node.owner == member.registry.session_id, (
                    f"{member.name} reads {partition}, which has another owner"
                )

    def teardown(self) -> None:
        self.quiet()
        for member in self.group.members:
            member.stop()
        self.group.run(20_000)
        nodes = self.group.tree.nodes
        assert not [path for path, node in nodes.items() if node.owner], "members must leave no nodes behind"


class RoundRobinStory(GroupStory):
    """The same stories with the round-robin assignor."""

    assignor = "roundrobin"


TestRanges = GroupStory.TestCase
TestRanges.settings = settings(run_stories(50), stateful_step_count=40)
TestRoundRobin = RoundRobinStory.TestCase
TestRoundRobin.settings = settings(run_stories(25), stateful_step_count=40)
