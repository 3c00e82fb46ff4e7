"""Share groups with a log in memory, and a persister that answers at once or fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.reference_broker.groups.share.group import ShareGroup
from kafkawire.reference_broker.groups.share.requests import ShareHeartbeat
from kafkawire.reference_broker.groups.share.share_groups import ShareGroups
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.consumer_bench import ConsumerBench
from tests.reference_broker.groups.group_bench import only

__all__ = ["FakePersister", "ShareGroupBench", "T", "U"]

#: The ids of the topics.
T, U = b"t" * 16, b"u" * 16


class FakePersister:
    """Notes what it is asked; answers with the given outcomes, or with success.

    Attributes:
        asked: the names and arguments of the operations.
        outcomes: what later operations answer, in order; empty for success.
        held: the answers that wait, while `is_holding`.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.outcomes: list[Any] = []
        self.is_holding = False
        self.held: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def operation(*args: Any) -> None:
            *given, done = args
            self.asked.append((name, *given))
            outcome = self.outcomes.pop(0) if self.outcomes else None
            if self.is_holding:
                self.held.append(lambda: done(outcome))
            else:
                done(outcome)

        return operation


class ShareGroupBench(ConsumerBench):
    """A coordinator with the topic t, which has four partitions; the group is `g`."""

    def __init__(self, log: MemoryLog | None = None, **limits: Any) -> None:
        super().__init__(log, **limits)
        self.persister = FakePersister()
        self.shares = ShareGroups(self.groups, self.persister, self.timers)  # type: ignore[arg-type]  # see `FakePersister`
        self.now_ms = 0

    def loaded(self) -> ShareGroupBench:
        """Return a new coordinator that has loaded the log of this one."""
        again = ShareGroupBench(self.log)
        again.topics.update(self.topics)
        while again.groups.is_loading:
            again.timers.fire(0)
        return again

    @property
    def share(self) -> ShareGroup:
        """The only share group."""
        return only(list(self.groups.share_groups()))  # type: ignore[no-any-return]  # the type of the only group

    def add_topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        """Create a topic."""
        self.topics[name] = TopicFacts(topic_id, partitions)

    def advance(self, milliseconds: int = 0) -> None:
        """Let time pass."""
        self.now_ms += milliseconds
        for _ in range(5):
            self.timers.fire(self.now_ms)

    def share_beat(
        self,
        member_id: str = "m",
        epoch: int = 0,
        topics: Sequence[str] | None = None,
        group_id: str = "g",
        rack_id: str | None = None,
    ) -> Any:
        """Send a heartbeat; return the response, or the error."""
        answers: list[Any] = []
        request = ShareHeartbeat(group_id, member_id, epoch, rack_id, topics, "client", "/host")
        self.shares.beat(request, answers.append, self.now_ms)
        self.advance()
        return only(answers)

    def share_join(self, member_id: str = "m", *topics: str) -> int:
        """Join, and wait for partitions; return the member's epoch."""
        self.share_beat(member_id, 0, topics or ("t",))
        # The second heartbeat finds the states that the first one asked for, after the assignment interval.
        self.advance(1_000)
        told = self.share_beat(member_id, self.share.members[member_id].epoch)
        assert not isinstance(told, BrokerError), told
        return int(told.member_epoch)

    def outcome(self, operation: Callable[..., None], *args: Any) -> Any:
        """Run an operation of the service; return its outcome."""
        answers: list[Any] = []
        operation(*args, answers.append, self.now_ms)
        self.advance()
        return only(answers)
