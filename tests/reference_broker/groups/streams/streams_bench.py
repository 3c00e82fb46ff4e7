"""A coordinator of streams groups with an in-memory log, topologies, and shortcuts for heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.groups.streams.group import StreamsGroup, StreamsMember, Tasks
from kafkawire.reference_broker.groups.streams.requests import StreamsBeat, StreamsHeartbeat
from kafkawire.reference_broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.group_bench import REBALANCE_MS, STREAMS_OPTIONS, GroupBench, only

__all__ = ["WORD_COUNT", "StreamsBench", "copartition", "internal", "subtopology", "tasks"]


def internal(name: str, partitions: int = 0, replication_factor: int = 0, **configs: str) -> InternalTopic:
    """Return an internal topic."""
    return InternalTopic(name, partitions, replication_factor, tuple(configs.items()))


def copartition(sources: tuple[int, ...] = (), repartition_sources: tuple[int, ...] = ()) -> CopartitionGroup:
    """Return a copartition group."""
    return CopartitionGroup(sources, (), repartition_sources)


def subtopology(
    subtopology_id: str,
    *sources: str,
    changelogs: tuple[InternalTopic, ...] = (),
    sinks: tuple[str, ...] = (),
    repartition: tuple[InternalTopic, ...] = (),
    copartitioned: tuple[CopartitionGroup, ...] = (),
) -> Subtopology:
    """Return a subtopology."""
    return Subtopology(subtopology_id, sources, (), changelogs, sinks, repartition, copartitioned)


#: An application that counts words: the second subtopology has a state store.
WORD_COUNT = Topology(
    0,
    (
        subtopology("0", "t", sinks=("r",)),
        subtopology("1", changelogs=(internal("c"),), repartition=(internal("r"),)),
    ),
)


def tasks(
    active: Mapping[str, tuple[int, ...]] | None = None,
    standby: Mapping[str, tuple[int, ...]] | None = None,
    warmup: Mapping[str, tuple[int, ...]] | None = None,
) -> Tasks:
    """Return tasks, given the partition numbers of each subtopology."""
    return Tasks(
        *({key: frozenset(numbers) for key, numbers in (part or {}).items()} for part in (active, standby, warmup))
    )


class StreamsBench(GroupBench):
    """A coordinator with the topics of `WORD_COUNT`."""

    def __init__(self, log: MemoryLog | None = None, partitions: int = 2, *, is_complete: bool = True) -> None:
        super().__init__(log)
        for number, name in enumerate("trc" if is_complete else "t"):
            self.make_topic(name, partitions, number)

    def make_topic(self, name: str, partitions: int, number: int = 9) -> None:
        """Create a topic."""
        self.topics[name] = TopicFacts(bytes([number]) * 16, partitions)

    def loaded(self) -> StreamsBench:
        """Return a new coordinator that has loaded the log of this one."""
        again = StreamsBench(self.log)
        again.topics.clear()
        again.topics.update(self.topics)
        while again.groups.is_loading:
            again.timers.fire(0)
        return again

    def set_options(self, **options: int) -> None:
        """Change options of streams groups."""
        given = {f"group_streams_{name}": value for name, value in options.items()}
        self.streams_options.change(**vars(read_options({**STREAMS_OPTIONS, **given})))

    @property
    def streams(self) -> StreamsGroup:
        """The streams group."""
        return only(list(self.groups.streams_groups()))  # type: ignore[no-any-return]  # the type of the only group

    def member(self, member_id: str) -> StreamsMember:
        """Return a member."""
        return self.streams.members[member_id]

    def try_beat(self, member_id: str, epoch: int = 0, said: Tasks | None = None, now: int = 0, **changes: Any) -> Any:
        """Send a heartbeat; return its outcome, which is a `StreamsBeat` or a `BrokerError`."""
        joining = {"rebalance_timeout_ms": REBALANCE_MS, "topology": WORD_COUNT, "owned": Tasks(), "process_id": "p"}
        fields: dict[str, Any] = {"rack_id": None, "rebalance_timeout_ms": -1, "topology": None, "owned": said}
        fields |= {"process_id": None, "user_endpoint": None, "client_tags": None, "wants_shutdown": False}
        fields |= {"endpoint_epoch": 0, "client_id": "c", "client_host": "/h", "group_id": "g"}
        fields |= joining if epoch == 0 else {}
        request = StreamsHeartbeat(**{"member_id": member_id, "epoch": epoch, **fields, **changes})
        answers: list[StreamsBeat | BrokerError] = []
        self.groups.submit_streams(request.group_id, lambda streams: streams.beat(request, now), answers.append, now)
        return only(answers)

    def beat(self, member_id: str, epoch: int = 0, said: Tasks | None = None, now: int = 0, **changes: Any) -> Any:
        """Send a heartbeat that succeeds; return the response."""
        outcome = self.try_beat(member_id, epoch, said, now, **changes)
        assert isinstance(outcome, StreamsBeat), outcome
        return outcome.response

    def follow(self, member_id: str, now: int = 0) -> Any:
        """Send a heartbeat of a member that has revoked what it should; return the response."""
        member = self.member(member_id)
        return self.beat(member_id, member.epoch, member.assigned, now)

    def settle(self, now: int = 0) -> None:
        """Let members follow their assignments until the group is stable."""
        for _ in range(3 * len(self.streams.members) + 3):
            for member_id in list(self.streams.members):
                self.follow(member_id, now)
