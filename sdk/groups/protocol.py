"""The interface between a client and its group.

A group protocol is a machine. It receives the assignment from the coordinator, tells a `MemberReader` what to read, and
reports each change as an event that the user's side acknowledges once the application's listener has run. The
implementations are classic groups (`classic_group.py`), KIP-848 groups (`consumer_group.py`), and groups in ZooKeeper
(`zookeeper_group.py`), which have no coordinator.
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
    "Reads",
    "Revoking",
    "Step",
]

#: A continuation, called with the time.
Step = Callable[[int], None]

#: Called with the error that ends a membership permanently, and with the time.
OnFailure = Callable[[KafkaWireError, int], None]


class GroupSettings(NamedTuple):
    """How a member takes part in its group.

    Attributes:
        group_id: the group.
        group_instance_id: the id of a static member, which outlives the process; None for a dynamic one.
        session_timeout_ms: after this time without a heartbeat, the coordinator removes the member; used only in
            classic groups, because the broker decides for other groups.
        heartbeat_interval_ms: the time between heartbeats; used only in classic groups.
        max_poll_interval_ms: after this time without a read, the member leaves; other members also wait for it this
            long in a rebalance.
        api_timeout_ms: how long a commit before a revocation may take.
        rack: this member's rack; None if unknown.
        auto_commit: whether finished records are committed before their partitions are revoked.
        server_assignor: the assignor that the coordinator should use; None for its default; used only in KIP-848
            groups.
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
    """The identity of a member in its commits.

    Attributes:
        group_id: the group.
        generation_id: the generation of a classic group, the member epoch of a KIP-848 group; -1 outside a group.
        member_id: empty outside a group.
        group_instance_id: the id of a static member; None for a dynamic one.
    """

    group_id: str
    generation_id: int = UNKNOWN_GENERATION_ID
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


class Event:
    """A change to a member's partitions that must be acknowledged.

    Args:
        partitions: the affected partitions.
        generation: the generation, or the member epoch, in which the change takes place.
    """

    __slots__ = ("generation", "partitions")

    def __init__(self, partitions: frozenset[TopicPartition], generation: int) -> None:
        self.partitions = partitions
        self.generation = generation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.partitions)}, {self.generation})"


class Assigned(Event):
    """Partitions were added; their records are handed out only once the event has been acknowledged."""

    __slots__ = ()


class Revoking(Event):
    """Partitions are about to be revoked; until the event is acknowledged, their offsets can be committed."""

    __slots__ = ()


class Lost(Event):
    """Partitions were lost: other members may already be reading them, and a commit would fail."""

    __slots__ = ()


#: Receives an event, on the driver's side; may acknowledge it immediately.
Notify = Callable[[Event, int], None]


class Reads(Protocol):
    """The application's reads, as seen by its group.

    Attributes:
        last_handed_out_ms: when the last record was handed out, or reading began; None while a read is waiting.
            Starting a read wakes the driver, so a member that left for lack of reads joins again.
    """

    @property
    def last_handed_out_ms(self) -> int | None: ...

    def report(self, error: KafkaWireError) -> None:
        """Make the next read raise an error, after which reading continues."""
        ...

    def is_unread(self, error: KafkaWireError) -> bool:
        """Return whether a reported error has yet to be raised by a read."""
        ...


class MemberReader(Reads, Protocol):
    """The reading half of a consumer, as seen by its group: `sdk/consumer/reading/assignment.py` implements it."""

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that are being read, including withheld ones."""
        ...

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions; assigned ones keep their positions, and withheld ones are handed out again."""
        ...

    def withhold(self, partitions: Collection[TopicPartition]) -> None:
        """Stop handing out records of these partitions until `assign` names them again."""
        ...

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the finished but uncommitted positions of all partitions, or of some."""
        ...

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record committed offsets."""
        ...


class GroupProtocol(Protocol):
    """A membership in a group, from `start` to `stop`; a `Machine`.

    Attributes:
        failure: why the membership has ended permanently; None if it has not.
        last_heartbeat_ms: when the coordinator last confirmed the membership; None if it has not done so yet.
        state: the member's state, as defined by its protocol.
        trouble: why the member could not join, or why its last heartbeat failed; None if all is well, or has failed
            only because of a rebalance. Any thread may ask.
    """

    @property
    def failure(self) -> KafkaWireError | None: ...

    @property
    def last_heartbeat_ms(self) -> int | None: ...

    @property
    def state(self) -> Enum: ...

    @property
    def trouble(self) -> KafkaWireError | None: ...

    def start(self, now_ms: int) -> None:
        """Join the group."""
        ...

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        """Change the subscription; allowed at any time. Records of abandoned topics are no longer handed out."""
        ...

    def acknowledge(self, event: Event, now_ms: int) -> None:
        """Continue after the listener has handled an event; an obsolete event is ignored."""
        ...

    def sign(self) -> GroupMetadata | None:
        """Return the member's current identity for a commit; None while it is not a member."""
        ...

    def is_current(self, generation: int) -> bool:
        """Return whether a generation, or a member epoch, is the current one."""
        ...

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        """Report that the coordinator rejected a commit because of its signature."""
        ...

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Revoke all partitions as in a rebalance, then leave; the promise is fulfilled no later than `deadline_ms`."""
        ...

    def poll(self, now_ms: int) -> None: ...

    def due_ms(self, now_ms: int) -> int | None: ...

    def fail(self, error: KafkaWireError, now_ms: int) -> None: ...
