"""A simulated group with members of either protocol, which gets random requests; its log is slow, fails and is
reloaded, and topics are created, extended and deleted.

    python -m tests.reference_broker.groups.consumer_simulation SEQUENCES [SEED]

At every step, it checks that each partition has one owner, the epochs of a group never decrease, a member that has to
act has a deadline, and a group has only one type. At the end, it checks that the log agrees with the coordinator,
well-behaved members get all partitions within a limited number of rounds, silent clients are removed until the group is
empty, and each request has been answered once.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import fields
from random import Random
from types import SimpleNamespace
from typing import Any

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.reference_broker.groups.consumer.group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    Subscription,
    regexes_of,
    topics_of,
)
from kafkawire.reference_broker.groups.deadlines import Deadline, Deadlines
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups import consumer_sequences as sequences
from tests.reference_broker.groups.consumer_bench import ConsumerBench, assignment, parts_of, subscription
from tests.reference_broker.groups.consumer_sequences import Asked, Owned, Script
from tests.reference_broker.groups.group_bench import only
from tests.reference_broker.seeds import run_seeds

__all__ = ["ConsumerSimulation", "run"]

SIZES = {"a": 3, "b": 5, "c": 1}
IDS = ("m0", "m1", "m2", "m3")
REGEXES = ("[ab]", "b|d.*", ".*")

#: The timeouts of honest and of malicious clients.
SESSIONS_MS = (0, 1, 1_000, 10_000, 1_800_000)
REBALANCES_MS = (0, 1, 500, 10_000, 60_000, 2**31 - 1)
TIMES_MS = (0, 0, 0, 1, 99, 1_000, 10_001, 45_001, 300_000)

_STEPS = 40

#: The maximum number of timers that may fire until a group without clients is empty.
_QUIET_STEPS = 5_000

#: The number of rounds of heartbeats after which well-behaved members have all partitions: once the expressions have
#: been resolved again, each member revokes, joins and syncs in turn.
_ROUNDS = 24


class ConsumerSimulation:
    """One sequence.

    Args:
        seed: the seed for every choice.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        choice = self.random.choice
        self.bench = ConsumerBench(
            group_min_session_timeout_ms=0,
            group_initial_rebalance_delay_ms=choice((0, 0, 100)),
            group_consumer_assignment_interval_ms=choice((0, 0, 1_000)),
            group_consumer_max_size=choice((2, 2**31 - 1, 2**31 - 1)),
            group_max_size=choice((2, 2**31 - 1, 2**31 - 1)),
            group_consumer_migration_policy=choice(("bidirectional",) * 5 + ("upgrade", "downgrade", "disabled")),
        )
        self.sizes = dict(SIZES)
        self.topic_ids = 0
        self.bench.topics.clear()
        for name in SIZES:
            self.put_topic(name)
        self.script = Script(self.random, ("a", "b", "c", "d"), self.sizes, IDS, SESSIONS_MS, REBALANCES_MS, REGEXES)
        self.now = 0
        self.asked: list[tuple[Asked, list[Any]]] = []
        self.last: ConsumerGroup | None = None
        self.epochs = 0, 0
        self.first: tuple[int, set[tuple[bytes, int]]] | None = None

    def run(self) -> None:
        """Run to the end."""
        for _ in range(_STEPS):
            self.step()
            self.check()
        self.release()
        self.agree()
        self.converge()
        self.agree()
        self.fall_silent()

    # Steps.

    def step(self) -> None:
        """Do something at random."""
        log = self.bench.log
        kinds = ("ask", "time", "log", "fail", "reload", "topics")
        kind = self.random.choices(kinds, (24, 5, 2, 0.7, 0.4 if log.held is None else 0, 1))[0]
        if kind == "ask":
            self.ask(self.script.next())
        elif kind == "time":
            self.advance(self.random.choice(TIMES_MS))
        elif kind == "log":
            if log.held is not None or self.random.random() < 0.5:
                self.release()
            else:
                log.held = []
        elif kind == "fail":
            log.error = BrokerError(self.random.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)))
            self.ask(self.script.next())
            self.advance(self.random.choice((0, 1_000)))
            self.release()
            log.error = None
        elif kind == "reload":
            self.reload()
        else:
            self.change_topics()

    def change_topics(self) -> None:
        """Create, extend or delete a topic."""
        name = self.random.choice(("a", "b", "c", "d"))
        if name not in self.sizes:
            self.sizes[name] = self.random.randrange(1, 5)
            self.put_topic(name)
        elif self.random.random() < 0.5:
            self.sizes[name] += 1
            self.bench.topics[name] = self.bench.topics[name]._replace(partitions=self.sizes[name])
        else:
            del self.sizes[name]
            del self.bench.topics[name]

    def put_topic(self, name: str) -> None:
        self.topic_ids += 1
        self.bench.topics[name] = TopicFacts(self.topic_ids.to_bytes(16, "big"), self.sizes[name])

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at each deadline."""
        end = self.now + milliseconds
        for _ in range(_QUIET_STEPS):
            deadline = self.bench.timers.next_deadline_ms
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.bench.timers.fire(self.now)
        self.now = end

    def release(self) -> None:
        """Finish the held appends."""
        log = self.bench.log
        while log.held:
            log.release()
        log.held = None

    def reload(self) -> None:
        """Unload the coordinator and load it from its log; waiting requests are answered."""
        self.bench.groups.unload()
        assert all(answers for _, answers in self.asked), "unloading left a request unanswered"
        self.bench.elect(self.now)
        while self.bench.groups.is_loading:
            self.bench.timers.fire(self.now)
        self.last = None

    # Requests.

    def ask(self, asked: Asked) -> list[Any]:
        """Send a request; return its answers."""
        answers = _Learning(self, asked)
        self.asked.append((asked, answers))
        bench, now = self.bench, self.now
        if isinstance(asked, sequences.Beat):
            owned = None if asked.owned is None else self.by_id(asked.owned)
            changes = {"instance_id": asked.instance, "rebalance_timeout_ms": asked.rebalance_ms}
            changes |= {"topics": asked.topics, "regex": asked.regex, "assignor": asked.assignor}
            bench.beat(
                asked.member_id,
                asked.epoch,
                now=now,
                answers=answers,
                rack_id=asked.rack,
                owned=owned,
                may_lack_id=False,
                **changes,
            )
        elif isinstance(asked, sequences.Join):
            owned_parts = {name: tuple(part) for name, part in asked.owned.items()}
            data = subscription(asked.topics, owned_parts)
            bench.join(
                asked.member_id,
                now,
                instance=asked.instance,
                protocols=tuple((name, data) for name in asked.protocols),
                needs_id=asked.needs_id,
                answers=answers,
                session_timeout_ms=asked.session_ms,
                rebalance_timeout_ms=asked.rebalance_ms,
            )
        elif isinstance(asked, sequences.Sync):
            given = {
                name: assignment({topic: tuple(part) for topic, part in parts.items()}) for name, parts in asked.assigns
            }
            names = {"instance_id": asked.instance, "protocol_name": asked.protocol}
            bench.sync(asked.member_id, asked.generation, given, now, answers=answers, **names)
        elif isinstance(asked, sequences.Heartbeat):
            bench.groups.heartbeat("g", asked.generation, asked.member_id, asked.instance, answers.append, now)
        elif isinstance(asked, sequences.Leave):
            bench.groups.leave("g", asked.members, answers.append, now)
        else:
            bench.commit(1, asked.epoch, asked.member_id, asked.instance, now, answers=answers)
        return answers

    def by_id(self, owned: Owned) -> dict[bytes, frozenset[int]]:
        topics = self.bench.topics
        return {topics[name].topic_id: part for name, part in owned.items() if name in topics and part}

    def assigned(self, response: Any) -> Owned | None:
        """Return the assignment in a response, keyed by topic name."""
        names = {facts.topic_id: name for name, facts in self.bench.topics.items()}
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            if response.assignment is None:
                return None
            parts = response.assignment.topic_partitions
            return {names[part.topic_id]: frozenset(part.partitions) for part in parts if part.topic_id in names}
        data = bytes(getattr(response, "assignment", b""))
        return {name: frozenset(part) for name, part in parts_of(data).items()} if data else None

    # Invariants.

    def group(self) -> ConsumerGroup | None:
        """Return the consumer group, or None if there is none."""
        return next(iter(self.bench.groups.consumer_groups()), None)

    def classic(self) -> ClassicGroup | None:
        """Return the classic group, or None if there is none."""
        return next(iter(self.bench.groups.classic_groups()), None)

    def deadlines(self) -> Deadlines:
        (shard,) = self.bench.groups._runtime.shards()
        return shard._changes.deadlines

    def check(self) -> None:
        """Check the invariants."""
        assert all(len(answers) <= 1 for _, answers in self.asked), "a request was answered twice"
        group, classic = self.group(), self.classic()
        if group is None:
            self.last = self.first = None
            return
        if self.first is None:
            self.first = group.epoch, set(group.owners)
        assert classic is None or not (classic.members and group.members), "a group has two types"
        if group is self.last:
            assert (group.epoch, group.assignment_epoch) >= self.epochs, "an epoch has decreased"
        self.last, self.epochs = group, (group.epoch, group.assignment_epoch)
        assert group.assignment_epoch <= group.epoch
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in group.members.items():
            assert member.member_id == member_id
            assert member.epoch <= group.epoch
            for topic_id, numbers in member.owned.items():
                for number in numbers:
                    assert owners.setdefault((topic_id, number), member_id) == member_id, "a partition has two owners"
        assert owners == group.owners
        assert group.static_members == {
            member.instance_id: member_id
            for member_id, member in group.members.items()
            if member.instance_id is not None
        }
        assert set(group.target) <= set(group.members)
        assert set(group.resolved) <= regexes_of(group.subscriptions), "an expression has no subscribers"
        if self.bench.log.held is None:
            for member_id in group.members:
                assert self.deadlines().is_set(Deadline.SESSION, "g", member_id), "a member would stay forever"

    def agree(self) -> None:
        """Check that the log agrees with the coordinator."""
        again = self.bench.loaded()
        here, there = self.group(), next(iter(again.groups.consumer_groups()), None)
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            # A group's caches are not part of its state.
            for each in (each for each in fields(ConsumerGroup) if each.compare):
                assert getattr(here, each.name) == getattr(there, each.name), each.name
        assert again.groups.offsets("g") == self.bench.groups.offsets("g")

    def converge(self) -> None:
        """Let all members of a consumer group behave correctly until each has its target assignment."""
        group: ConsumerGroup | None = None
        for _ in range(_ROUNDS):
            self.now += 1_000
            group = self.group()
            if group is None or not group.members:
                return
            for member in list(group.members.values()):
                self.behave(group, member)
                if self.group() is not group:
                    return  # the group has become a classic one
            self.fire()
            if self.group() is not group:
                return
            self.check()
            # A new expression that matches no further topics also changes the assignment: it may have replaced another
            # expression.
            is_found = regexes_of(group.subscriptions) <= set(group.resolved) and all(
                self.group_topics(group, each) >= self.wanted_topics(each) for each in group.subscriptions
            )
            if is_found and group.state is ConsumerGroupState.STABLE and self.round_is_quiet(group):
                break
        assert group is not None
        if not group.members:
            return
        assert group.state is ConsumerGroupState.STABLE, f"the group is {group.state}: {group}"
        wanted = {
            (self.bench.topics[name].topic_id, number)
            for each in group.subscriptions
            for name in self.wanted_topics(each)
            if name in self.bench.topics
            for number in range(self.bench.topics[name].partitions)
        }
        # Until its epoch is raised, a former classic group keeps the assignment made by its leader, whatever that was.
        assert self.first is not None
        first_epoch, chosen = self.first
        is_chosen = group.epoch == first_epoch and set(group.owners) == chosen
        has_owners = set(group.owners) == wanted - self.orphans(group)
        assert is_chosen or has_owners, "a subscribed partition has no owner"

    def orphans(self, group: ConsumerGroup) -> set[tuple[bytes, int]]:
        """Return former targets of members whose expression does not match these topics.

        When the expression is resolved, the group's epoch is raised only if the expression matches a topic, or if the
        topics of the whole group change. Apache Kafka 4.3.0 also leaves such partitions unowned until the epoch is
        raised.
        """
        ids = {name: facts.topic_id for name, facts in self.bench.topics.items()}
        return {
            (topic_id, number)
            for member_id, target in group.target.items()
            if (member := group.members[member_id]).regex
            for topic_id, numbers in target.items()
            if topic_id not in {ids.get(name) for name in self.group_topics(group, member.subscription)}
            for number in numbers
        }

    def wanted_topics(self, subscription: Subscription) -> set[str]:
        """Return the topic names in a subscription; an expression stands for the existing topics that match."""
        names, regex = subscription
        return {*names, *(name for name in self.bench.topics if regex and re.fullmatch(regex, name))}

    def group_topics(self, group: ConsumerGroup, subscription: Subscription) -> Set[str]:
        """Return the names of a subscription as the group knows them."""
        return topics_of([subscription], group.resolved)

    def fire(self) -> None:
        """Fire all timers that are due."""
        for _ in range(_QUIET_STEPS):
            deadline = self.bench.timers.next_deadline_ms
            if deadline is None or deadline > self.now:
                return
            self.bench.timers.fire(self.now)
        raise AssertionError("timers never stop firing")

    def round_is_quiet(self, group: ConsumerGroup) -> bool:
        """Return whether another heartbeat from every member would change nothing."""
        before = self.bench.log.next_offset
        for member in list(group.members.values()):
            self.behave(group, member)
        return self.bench.log.next_offset == before

    def behave(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Send the next request of an honest client that has revoked the partitions it was asked to revoke."""
        name, instance = member.member_id, member.instance_id
        if member.epoch < 0:
            self.ask(sequences.Leave(((name, instance),)))
        elif member.classic is None:
            only(
                self.bench.beat(
                    name, member.epoch, now=self.now, owned=member.assigned, instance_id=instance, answers=[]
                )
            )
        else:
            code = self.bench.heartbeat(name, member.epoch, self.now, instance)
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                ids = {facts.topic_id: topic for topic, facts in self.bench.topics.items()}
                owned = {ids[topic_id]: tuple(part) for topic_id, part in member.assigned.items() if topic_id in ids}
                data = subscription(member.topics, owned)
                protocols = tuple((protocol, data) for protocol, _ in member.classic.protocols)
                times: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
                joined = only(self.bench.join(name, self.now, instance=instance, protocols=protocols, **times))
                assert not joined.error_code, joined
                code = only(
                    self.bench.sync(name, joined.generation_id, None, self.now, instance_id=instance)
                ).error_code
            assert not code or code == ErrorCode.REBALANCE_IN_PROGRESS, code

    def fall_silent(self) -> None:
        """Let all clients fall silent: eventually, the group must be empty and every request answered."""
        for _ in range(_QUIET_STEPS):
            group, classic = self.group(), self.classic()
            is_empty = classic is None or (classic.state is GroupState.EMPTY and not classic.pending_members)
            if (group is None or not group.members) and is_empty:
                break
            deadline = self.bench.timers.next_deadline_ms
            assert deadline is not None
            self.now = max(self.now, deadline)
            self.bench.timers.fire(self.now)
            self.check()
        else:
            raise AssertionError(f"a group without clients is not empty: {self.group()} {self.classic()}")
        assert all(len(answers) == 1 for _, answers in self.asked), "a request was not answered"
        self.agree()


class _Learning(list[Any]):
    """The answers to a request; they update the script."""

    def __init__(self, simulation: ConsumerSimulation, asked: Asked) -> None:
        super().__init__()
        self._simulation = simulation
        self._asked = asked

    def append(self, response: Any) -> None:
        super().append(response)
        if isinstance(response, ErrorCode):
            response = SimpleNamespace(error_code=response)
        if not isinstance(response, list | BrokerError | None):
            self._simulation.script.answered(self._asked, response, self._simulation.assigned(response))


def run(seed: int) -> None:
    """Run one sequence; a failure names its seed."""
    try:
        ConsumerSimulation(seed).run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


if __name__ == "__main__":
    run_seeds(run)
