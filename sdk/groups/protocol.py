"""The interface between a client and the group that it is a member of.

A group protocol is a machine. It learns what the coordinator assigns, tells a `MemberReader` what to read, and reports
each change as an event that the user's side acknowledges once the application's listener has run. Classic groups
(`classic_group.py`) and KIP-848 groups (`consumer_group.py`) implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.promise import Promise

__all__ = [
    "Assigned",
    "Event",
    "GroupMetadata",
    "GroupProtocol",
    "GroupSettings",
    "Lost",
    "MemberReader",
    "Notify",
    "OnFailure",
    "Revoking",
    "Step",
]

#: What follows once something has ended, given the time.
Step = Callable[[int], None]

#: Told of an error that ends a membership for good, and the time.
OnFailure = Callable[[KafkaWireError, int], None]


class GroupSettings(NamedTuple):
    """How a member takes part in its group.

    Attributes:
        group_id: the group.
        group_instance_id: the id of a static member, which outlives the process; None for a dynamic one.
        session_timeout_ms: after this long without a heartbeat the coordinator removes the member. Classic groups only:
            the broker decides for the others.
        heartbeat_interval_ms: time between heartbeats; classic groups only.
        max_poll_interval_ms: after this long without a read the member leaves; also how long the others wait for it in
            a rebalance.
        api_timeout_ms: the limit for a commit before partitions are revoked.
        rack: of this member, None if not known.
        auto_commit: whether finished records are committed before their partitions are revoked.
        server_assignor: the assignor that the coordinator is to use, None for its default; KIP-848 groups only.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    api_timeout_ms: int = 60_000
    rack: str | None = None
    auto_commit: bool = True
    server_assignor: str | None = None


class GroupMetadata(NamedTuple):
    """What identifies a member in its commits.

    Attributes:
        group_id: the group.
        generation_id: the generation of a classic group, the member epoch of a KIP-848 group; -1 outside a group.
        member_id: empty outside a group.
        group_instance_id: the id of a static member, None for a dynamic one.
    """

    group_id: str
    generation_id: int = UNKNOWN_GENERATION_ID
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


class Event:
    """A change of a member's partitions, to be acknowledged.

    Args:
        partitions: those that change.
        generation: the generation, or the member epoch, in which they do.
    """

    __slots__ = ("generation", "partitions")

    def __init__(self, partitions: frozenset[TopicPartition], generation: int) -> None:
        self.partitions = partitions
        self.generation = generation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.partitions)}, {self.generation})"


class Assigned(Event):
    """Partitions were added; no record of them is handed out before the event is acknowledged."""

    __slots__ = ()


class Revoking(Event):
    """Partitions are about to be revoked; until the event is acknowledged their offsets can be committed."""

    __slots__ = ()


class Lost(Event):
    """Partitions were lost: others may read them already, and a commit would fail."""

    __slots__ = ()


#: Takes an event, on the driver's side; may acknowledge it at once.
Notify = Callable[[Event, int], None]


class MemberReader(Protocol):
    """The reading half of a consumer, as its group sees it: `sdk/consumer/reading/assignment.py` implements it.

    Attributes:
        last_handed_out_ms: when the last record was handed out, or reading began; None while a read is waiting. A read
            that begins wakes the driver, so that a member that has left for lack of reads joins again.
    """

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that are read, also those that are withheld."""
        ...

    @property
    def last_handed_out_ms(self) -> int | None: ...

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these; those already assigned keep their positions, those withheld are handed out again."""
        ...

    def withhold(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no more records of these, from now on, until `assign` names them again."""
        ...

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what is finished but not committed, of all partitions or of some."""
        ...

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note what was committed."""
        ...

    def report(self, error: KafkaWireError) -> None:
        """Have the next read raise an error, and reading go on."""
        ...

    def is_unread(self, error: KafkaWireError) -> bool:
        """Return whether no read has raised a reported error yet."""
        ...


class GroupProtocol(Protocol):
    """A membership in a group, from `start` to `stop`; a `Machine`.

    Attributes:
        failure: why the membership has ended for good, None if it has not.
        last_heartbeat_ms: when the coordinator last confirmed the membership, None if it has not yet.
        state: how far the member is, in the protocol's own terms.
    """

    @property
    def failure(self) -> KafkaWireError | None: ...

    @property
    def last_heartbeat_ms(self) -> int | None: ...

    @property
    def state(self) -> Enum: ...

    def start(self, now_ms: int) -> None:
        """Join the group."""
        ...

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        """Change what the member wants to read, at any time; nothing else of former topics is handed out."""
        ...

    def acknowledge(self, event: Event, now_ms: int) -> None:
        """Go on after the listener has handled an event; an event that no longer matters is ignored."""
        ...

    def sign(self) -> GroupMetadata | None:
        """Return what identifies the member in a commit now, None while it is not a member."""
        ...

    def is_current(self, generation: int) -> bool:
        """Return whether a generation, or a member epoch, is the present one."""
        ...

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        """Report that the coordinator refused a commit because of its signature."""
        ...

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Revoke all partitions as in a rebalance, then leave; the promise is kept by `deadline_ms`, come what may."""
        ...

    def poll(self, now_ms: int) -> None: ...

    def due_ms(self, now_ms: int) -> int | None: ...

    def fail(self, error: KafkaWireError, now_ms: int) -> None: ...
