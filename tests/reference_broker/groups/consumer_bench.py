"""A coordinator of consumer groups with an in-memory log, and shortcuts for the requests of either protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.requests import ConsumerHeartbeat
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from tests.reference_broker.coordinators.counting_shard import MemoryLog
from tests.reference_broker.groups.group_bench import REBALANCE_MS, GroupBench, code_of, only

__all__ = ["ConsumerBench", "T", "assignment", "numbers", "parts_of", "subscription"]

#: The id of the topic.
T = b"t" * 16


class ConsumerBench(GroupBench):
    """A coordinator with a topic of four partitions."""

    def __init__(self, log: MemoryLog | None = None, **limits: Any) -> None:
        super().__init__(log, None, **limits)
        self.topics["t"] = TopicFacts(T, 4)

    def loaded(self) -> ConsumerBench:
        """Return a new coordinator that has loaded the log of this one."""
        again = ConsumerBench(self.log)
        again.topics.update(self.topics)
        while again.groups.is_loading:
            again.timers.fire(0)
        return again

    @property
    def consumers(self) -> ConsumerGroup:
        """The consumer group."""
        return only(list(self.groups.consumer_groups()))  # type: ignore[no-any-return]  # the type of the only group

    def beat(
        self,
        member_id: str = "",
        epoch: int = 0,
        said: tuple[int, ...] | None = None,
        now: int = 0,
        answers: list[Any] | None = None,
        texts: list[str] | None = None,
        **changes: Any,
    ) -> Any:
        """Send a heartbeat; return the response or an error's code, or return `answers` if given.

        Error messages are appended to `texts`.
        """
        joining = {"rebalance_timeout_ms": REBALANCE_MS, "topics": ["t"], "owned": {}}
        fields: dict[str, Any] = {"instance_id": None, "rack_id": None, "rebalance_timeout_ms": -1, "topics": None}
        fields |= {"assignor": None, "owned": None if said is None else {T: frozenset(said)}}
        fields |= {"client_id": "c", "client_host": "/h", "regex": None, "may_lack_id": True}
        fields |= joining if epoch == 0 else {}
        waiting: list[Any] = [] if answers is None else answers
        request = ConsumerHeartbeat(**{"group_id": "g", "member_id": member_id, "epoch": epoch, **fields, **changes})

        def done(outcome: object) -> None:
            if texts is not None and isinstance(outcome, BrokerError):
                texts.append(outcome.detail)
            waiting.append(code_of(outcome))

        self.groups.beat(request, done, now)
        return only(waiting) if answers is None else waiting

    def resolve(self, now: int = 0) -> None:
        """Run the pending resolution of regular expressions to its end."""
        while (deadline := self.timers.next_deadline_ms) is not None and deadline <= now:
            self.timers.fire(now)

    def join_classic(self, member_id: str = "", owned: tuple[int, ...] = (), now: int = 0, **changes: Any) -> list[Any]:
        """Join with the classic protocol, as a cooperative consumer of the topic would; return the answers."""
        names = changes.pop("names", ("cooperative-sticky",))
        topics = changes.pop("topics", ("t",))
        protocols = tuple((name, subscription(topics, {"t": owned})) for name in names)
        return self.join(member_id, now, **{"protocols": protocols, **changes})

    def sync_classic(self, member_id: str, generation: int, now: int = 0, **changes: Any) -> Any:
        """Send SyncGroup; return the assigned partitions of the topic, or an error's code."""
        response = only(self.sync(member_id, generation, None, now, **changes))
        return response.error_code or parts_of(response.assignment).get("t", [])

    def classic_group(self, *assigned: tuple[int, ...]) -> list[str]:
        """Form a stable classic group whose members have the given partitions; return the member ids."""
        for _ in assigned:
            self.join_classic()
            for known in list(self.group.members):
                if not self.group.members[known].awaiting_join and self.group.state != "CompletingRebalance":
                    self.join_classic(known)
        ids = list(self.group.members)
        generation = self.group.generation_id
        given = {name: assignment({"t": numbers}) for name, numbers in zip(ids, assigned, strict=True)}
        leader = self.group.leader_id or ""
        self.sync(leader, generation, given)
        for name in ids:
            self.sync(name, generation)
        return ids


def subscription(
    topics: tuple[str, ...],
    owned: Mapping[str, tuple[int, ...]] | None = None,
    version: int = 3,
    rack_id: str | None = None,
) -> bytes:
    """Return a subscription as consumers that use the classic protocol write it."""
    Part = ConsumerProtocolSubscription.TopicPartition
    parts = [Part(name, list(part)) for name, part in (owned or {}).items() if part]
    data = ConsumerProtocolSubscription(list(topics), None, parts, rack_id=rack_id)
    return version.to_bytes(2, "big") + program(ConsumerProtocolSubscription, version).encode(data)


def assignment(parts: Mapping[str, tuple[int, ...]], user_data: bytes | None = None, version: int = 3) -> bytes:
    """Return an assignment as the leader of a classic group writes it."""
    Part = ConsumerProtocolAssignment.TopicPartition
    data = ConsumerProtocolAssignment([Part(name, list(part)) for name, part in parts.items()], user_data)
    return version.to_bytes(2, "big") + program(ConsumerProtocolAssignment, version).encode(data)


def parts_of(data: bytes) -> dict[str, list[int]]:
    """Return the partitions in an assignment, keyed by topic."""
    version = int.from_bytes(data[:2], "big")
    message, _ = program(ConsumerProtocolAssignment, version).decode(bytes(data), 2)
    return {part.topic: list(part.partitions) for part in message.assigned_partitions}


def numbers(response: Any) -> list[int]:
    """Return the partitions that the response to a heartbeat assigns."""
    parts = [] if response.assignment is None else response.assignment.topic_partitions
    return [number for part in parts for number in part.partitions]
