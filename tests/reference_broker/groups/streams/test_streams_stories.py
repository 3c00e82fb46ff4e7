"""No active task has two owners, every task is owned once a group is stable, and a loaded group equals the one in use.

Method: run random stories of members that join, revoke, ignore, leave and time out, of topics that change, and of
standby replicas. After each step, compare the coordinator with a new one that has loaded its log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.groups.streams.group import (
    STREAMS_GROUP_EDGES,
    StreamsGroupState,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import REBALANCE_MS
from tests.reference_broker.groups.streams.streams_bench import StreamsBench
from tests.sdk.stories import Kinds, Step, run_stories, steps

#: Members of the same process share its state directories.
PROCESSES = {"a": "p", "b": "p", "c": "q", "d": "r"}

#: The argument of each kind of step.
VALUES: dict[str, Sequence[Any]] = {
    "join": "abcd",
    "follow": "abcd",
    "follow again": "abcd",
    "follow once more": "abcd",
    "stay": "abcd",
    "repeat": "abcd",
    "leave": "abcd",
    "wait": (1_000, 20_000, REBALANCE_MS),
    "extend": (1, 2, 3, 4),
    "delete": "trc",
    "standby": (0, 1, 2),
    "collect": (0, 0, 500),
    "settle": (0,),
}

KINDS: Kinds = {name: (st.sampled_from(values),) for name, values in VALUES.items()}

#: As many random stories as are needed, and some more.
STORIES = 400

#: The errors that members may get; they then join again.
_REFUSALS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class Scene:
    """A coordinator, its group, and the members."""

    def __init__(self) -> None:
        self.bench = StreamsBench()
        self.now_ms = 0
        self.partitions = 2
        #: The epoch and the tasks that each member knows.
        self.known: dict[str, Any] = {}
        #: The changes of the group's state.
        self.edges: set[tuple[StreamsGroupState, StreamsGroupState]] = set()

    @property
    def group(self) -> Any:
        """The group, or None."""
        return next(iter(self.bench.groups.streams_groups()), None)

    def act(self, step: Step) -> None:
        """Take a step, then check the invariants."""
        before = StreamsGroupState.EMPTY if self.group is None else self.group.state
        name, *arguments = step
        getattr(self, f"_{name.split()[0]}")(*arguments)
        after = StreamsGroupState.EMPTY if self.group is None else self.group.state
        if before is not after:
            self.edges.add((before, after))
        self._check()

    def _beat(self, member_id: str, epoch: int, *arguments: Any, **changes: Any) -> None:
        outcome = self.bench.try_beat(member_id, epoch, *arguments, now=self.now_ms, **changes)
        if isinstance(outcome, BrokerError):
            assert outcome.code in _REFUSALS, outcome
            self.known.pop(member_id, None)
            return
        self.known[member_id] = outcome.response.member_epoch
        if outcome.missing:
            for number, name in enumerate("trc"):
                self.bench.make_topic(name, self.partitions, number)

    def _join(self, member_id: str) -> None:
        self._beat(member_id, 0, process_id=PROCESSES[member_id])

    def _member(self, member_id: str) -> Any:
        return None if self.group is None else self.group.members.get(member_id)

    def _follow(self, member_id: str) -> None:
        member = self._member(member_id)
        if member_id in self.known and member is not None:
            self._beat(member_id, self.known[member_id], member.assigned)

    def _stay(self, member_id: str) -> None:
        if member_id in self.known:
            self._beat(member_id, self.known[member_id])

    def _repeat(self, member_id: str) -> None:
        """Send a heartbeat with the epoch before, as if the response was lost."""
        member = self._member(member_id)
        if member is not None and member.previous_epoch > 0:
            self._beat(member_id, member.previous_epoch, member.assigned)

    def _leave(self, member_id: str) -> None:
        self._beat(member_id, -1)
        self.known.pop(member_id, None)

    def _wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        while (deadline := self.bench.timers.next_deadline_ms) is not None and deadline <= self.now_ms:
            self.bench.timers.fire(deadline)

    def _extend(self, partitions: int) -> None:
        self.partitions = max(partitions, self.partitions)
        for number, name in enumerate("trc"):
            self.bench.make_topic(name, self.partitions, number)

    def _delete(self, name: str) -> None:
        if name in self.bench.topics:
            del self.bench.topics[name]
        if name == "t":
            self.bench.make_topic("t", self.partitions, 0)

    def _standby(self, replicas: int) -> None:
        self.bench.of_groups.setdefault("g", {})["streams.num.standby.replicas"] = str(replicas)

    def _collect(self, duration_ms: int) -> None:
        """Change how long members and changes are collected before an assignment."""
        for name in ("streams.initial.rebalance.delay.ms", "streams.assignment.interval.ms"):
            self.bench.of_groups.setdefault("g", {})[name] = str(duration_ms)

    def _settle(self, duration_ms: int) -> None:
        self._collect(duration_ms)
        self._wait(1_000)
        if self.group is None or not self.group.members:
            return
        for name in list(self.group.members):
            self._join(name)
        for _ in range(12):
            for name in list(self.known):
                self._follow(name)
        assert self.group.state is StreamsGroupState.STABLE
        tasks = Counter(
            (key, number)
            for member in self.group.members.values()
            for key, numbers in member.assigned.active.items()
            for number in numbers
        )
        assert tasks == Counter((key, number) for key in "01" for number in range(self.partitions))
        counts = [sum(map(len, member.assigned.active.values())) for member in self.group.members.values()]
        assert max(counts) <= ceil(len(tasks) / len(counts)), counts
        replicas = int(self.group.assignment_configs["num.standby.replicas"])
        processes = {member.process_id for member in self.group.members.values()}
        standby = Counter(
            (key, number)
            for member in self.group.members.values()
            for key, numbers in member.assigned.standby.items()
            for number in numbers
        )
        expected = min(replicas, len(processes) - 1)
        assert standby == Counter({("1", number): expected for number in range(self.partitions) if expected})

    def _check(self) -> None:
        group = self.group
        if group is None:
            return
        active: Counter[tuple[str, int]] = Counter()
        by_process: Counter[tuple[str, str, int]] = Counter()
        for member in group.members.values():
            for owned in (member.assigned, member.revoking):
                for role, part in enumerate(owned):
                    for key, numbers in part.items():
                        active.update((key, number) for number in numbers if role == 0)
                        by_process.update((member.process_id, key, number) for number in numbers)
        assert all(count == 1 for count in active.values()), active
        assert all(count == 1 for count in by_process.values()), by_process
        loaded = self.bench.loaded()
        assert list(loaded.groups.streams_groups()) == list(self.bench.groups.streams_groups())


@run_stories(300)
@given(steps(KINDS, 40))
def test_stories(story: list[Step]) -> None:
    scene = Scene()
    for step in story:
        scene.act(step)
    assert scene.edges <= set(STREAMS_GROUP_EDGES)


def test_every_edge_is_reached() -> None:
    random = Random(1071)
    reached: set[tuple[StreamsGroupState, StreamsGroupState]] = set()
    for _ in range(STORIES):
        scene = Scene()
        for _ in range(30):
            name = random.choice(list(VALUES))
            scene.act((name, random.choice(VALUES[name])))
        reached |= scene.edges
        if reached == set(STREAMS_GROUP_EDGES):
            return
    raise AssertionError(set(STREAMS_GROUP_EDGES) - reached)
