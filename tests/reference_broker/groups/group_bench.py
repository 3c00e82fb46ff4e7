"""A group coordinator with an in-memory log, and shortcuts for requests, for group tests."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.groups.classic.group import ClassicGroup
from kafkawire.reference_broker.groups.coordinator import GroupCoordinator
from kafkawire.reference_broker.groups.records import Committed
from kafkawire.reference_broker.groups.requests import Commit, GroupLimits, Join, Sync, TransactionalCommit
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits
from kafkawire.reference_broker.groups.topics import TopicFacts, Topics
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.storage.producers.producers import Verification
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.coordinators.counting_shard import MemoryLog

__all__ = ["REBALANCE_MS", "SESSION_MS", "STREAMS_OPTIONS", "TOPIC_ID", "GroupBench", "form", "only"]

SESSION_MS = 10_000
REBALANCE_MS = 60_000
TOPIC_ID = bytes(range(16))

#: Changes to a KIP-848 or streams group are not batched unless a test sets these options.
STREAMS_OPTIONS = {"group_streams_assignment_interval_ms": 0, "group_streams_initial_rebalance_delay_ms": 0}
_DEFAULTS = GroupLimits.of(read_options({"group_consumer_assignment_interval_ms": 0}))


class ChangingTopics(UserDict[str, TopicFacts], Topics):
    """Topics that a test can create, extend and delete."""

    _came = 0
    _changes = 0

    @property
    def came(self) -> int:
        return self._came

    @property
    def changes(self) -> int:
        return self._changes

    def __setitem__(self, name: str, facts: TopicFacts) -> None:
        is_known = name in self and self[name].topic_id == facts.topic_id
        super().__setitem__(name, facts)
        self._came += not is_known
        self._changes += 1

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changes += 1


class GroupBench:
    """A group coordinator; the group is `g` unless a test specifies another.

    Args:
        log: the log that contains the records.
        logs: the logs of several partitions; empty for a topic that does not exist yet.
        limits: the limits for groups.

    Attributes:
        streams_options: broker options, for the limits of streams groups.
        of_groups: the configurations of single groups.
        refused: the error from the transaction coordinator; None if it agrees to the commit.
        next_ids: the random parts of the next member ids, in reverse order; generated ones follow.
    """

    def __init__(self, log: MemoryLog | None = None, logs: list[MemoryLog] | None = None, **limits: Any) -> None:
        self.log = log or MemoryLog()
        self.timers = Timers()
        numbers = count(1)
        self.next_ids: list[str] = []
        self.topics = ChangingTopics()
        self.refused: BrokerError | None = None
        self.logs = [self.log] if logs is None else logs
        self.of_groups: dict[str, dict[str, str]] = {}
        self.streams_options = read_options(STREAMS_OPTIONS)
        self.groups = GroupCoordinator(
            self.timers,
            lambda: self.next_ids.pop() if self.next_ids else f"id{next(numbers)}",
            replace(_DEFAULTS, **limits),
            lambda: len(self.logs),
            self.topics,
            self.verify_commit,
            Computations(self.timers),
            ShareLimits(read_options({}), {}),
            StreamsLimits(self.streams_options, self.of_groups),
        )
        self.elect()

    def elect(self, now: int = 0) -> None:
        """Elect the coordinator for all partitions."""
        for number, log in enumerate(self.logs):
            self.groups.elected(number, log, 0, now)

    def verify_commit(
        self,
        partition: Partition,
        transaction: TransactionalCommit,
        verified: Callable[[Verification | None], None],
        refused: Callable[[BrokerError], None],
        now_ms: int,
    ) -> None:
        """Answer in place of the transaction coordinator."""
        if self.refused is None:
            verified(None)
        else:
            refused(self.refused)

    def loaded(self) -> GroupBench:
        """Return a new coordinator that has loaded the log of this one."""
        again = GroupBench(self.log)
        again.topics.update(self.topics)
        while again.groups.is_loading:
            again.timers.fire(0)
        return again

    @property
    def group(self) -> ClassicGroup:
        """The group."""
        (found,) = (group for group in self.groups.classic_groups() if group.group_id == "g")
        return found

    def join(
        self,
        member_id: str = "",
        now: int = 0,
        *,
        instance: str | None = None,
        protocols: tuple[str | tuple[str, bytes], ...] = ("range",),
        needs_id: bool = False,
        skip: bool = True,
        answers: list[Any] | None = None,
        **changes: object,
    ) -> list[Any]:
        """Join; return the list of answers, which is empty while the join is delayed."""
        answers = [] if answers is None else answers
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": instance,
            "protocol_type": "consumer",
            "protocols": tuple((name, name.encode()) if isinstance(name, str) else name for name in protocols),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": "c",
            "client_host": "/h",
            "needs_member_id": needs_id,
            "may_skip_assignment": skip,
        }
        fields |= changes
        self.groups.join(Join(**fields), answers.append, now)
        return answers

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        now: int = 0,
        answers: list[Any] | None = None,
        **changes: str | None,
    ) -> list[Any]:
        """Send SyncGroup; return the answers."""
        answers = [] if answers is None else answers
        fields: dict[str, Any] = {"group_id": "g", "instance_id": None, "protocol_type": None, "protocol_name": None}
        fields |= changes
        request = Sync(generation_id=generation, member_id=member_id, assignments=assignments or {}, **fields)
        self.groups.sync(request, answers.append, now)
        return answers

    def heartbeat(self, member_id: str, generation: int, now: int = 0, instance: str | None = None) -> ErrorCode:
        """Send a heartbeat; return the code."""
        answers: list[ErrorCode] = []
        self.groups.heartbeat("g", generation, member_id, instance, answers.append, now)
        (code,) = answers
        return code

    def leave(self, member_id: str, now: int = 0, instance: str | None = None) -> ErrorCode:
        """Leave; return the code."""
        answers: list[Any] = []
        self.groups.leave("g", [(member_id, instance)], answers.append, now)
        ((code,),) = answers
        assert isinstance(code, ErrorCode)
        return code

    def commit(
        self,
        offset: int = 1,
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
        now: int = 0,
        *,
        group_id: str = "g",
        topic: str = "t",
        expires: int = -1,
        answers: list[Any] | None = None,
    ) -> list[Any]:
        """Commit an offset for the topic's first partition; return the answers, which are codes."""
        answers = [] if answers is None else answers
        entry = Committed(offset, 3, "meta", now, TOPIC_ID, expires)
        commit = Commit(group_id, generation, member_id, instance)
        self.groups.commit(commit, {(topic, 0): entry}, lambda outcome: answers.append(code_of(outcome)), now)
        return answers

    def commit_in_transaction(
        self, generation: int, member_id: str, instance: str | None = None, group_id: str = "g"
    ) -> list[Any]:
        """Commit an offset for the topic's first partition in a transaction; return the answers, which are codes."""
        answers: list[Any] = []
        self.groups.commit_in_transaction(
            Commit(group_id, generation, member_id, instance),
            TransactionalCommit("x", 1, 0, 2),
            {("t", 0): Committed(1, 3, "meta", 0, TOPIC_ID)},
            lambda outcome: answers.append(code_of(outcome)),
            0,
        )
        return answers

    def delete(self, group_id: str = "g", now: int = 0) -> list[Any]:
        """Delete a group; return the answers, which are codes."""
        answers: list[Any] = []
        self.groups.delete(group_id, lambda outcome: answers.append(code_of(outcome)), now)
        return answers


def code_of(outcome: object) -> object:
    """Return the code of an error, NONE for an empty outcome, or the outcome itself."""
    if outcome is None:
        return ErrorCode.NONE
    return outcome.code if isinstance(outcome, BrokerError) else outcome


def only(answers: list[Any]) -> Any:
    """Return the only answer."""
    (answer,) = answers
    return answer


def form(bench: GroupBench, *protocols_of_members: tuple[str, ...]) -> list[Any]:
    """Let members join an empty group together (an initial delay of 100 ms keeps it open); return their answers."""
    joined = [bench.join(protocols=protocols) for protocols in protocols_of_members]
    # The timer fires twice, since more than one member joined.
    bench.timers.fire(100)
    bench.timers.fire(200)
    return [only(answers) for answers in joined]
