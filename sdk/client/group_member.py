"""One member of a classic group: what it has to do next, without I/O.

The driver looks at `step`, carries it out and reports back; it also sends a heartbeat whenever `heartbeat_wait_ms` says
so. Subscriptions and assignments pass through as bytes. Only the leader performs the assignment:

    PREPARE ─> JOIN ─response─> [PERFORM_ASSIGNMENT ─>] SYNC ─response─> ADOPT ─> STABLE
       ^───────── a rebalance, a lost generation, or `adopted(again)` ─────────────┘

Source: Apache Kafka, `AbstractCoordinator`; KIP-345 (static members), KIP-394 (member id first), KIP-800 (reasons).
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.values import Buffer

__all__ = ["Generation", "GroupMember", "GroupSettings", "MemberInfo", "Step"]


class GroupSettings(NamedTuple):
    """How a member takes part in its group.

    Attributes:
        group_id: the group.
        group_instance_id: the id of a static member, which outlives the process; None for a dynamic one.
        protocol_type: what kind of group it is.
        session_timeout_ms: after this long without a heartbeat the coordinator removes the member.
        rebalance_timeout_ms: how long the others wait for this member to rejoin.
        heartbeat_interval_ms: time between heartbeats.
    """

    group_id: str
    group_instance_id: str | None
    protocol_type: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int


class Step(Enum):
    """What the driver has to do next."""

    #: Revoke what must be revoked before a rebalance, then call `prepared`.
    PREPARE = "prepare"
    #: Send `join_request()`, then call `receive_join`.
    JOIN = "join"
    #: Compute the assignments of all `members`, then call `assignment_performed`.
    PERFORM_ASSIGNMENT = "perform assignment"
    #: Send `sync_request()`, then call `receive_sync`.
    SYNC = "sync"
    #: Adopt `assignment`, then call `adopted`.
    ADOPT = "adopt"
    #: Nothing but heartbeats.
    STABLE = "stable"
    #: Nothing: not a member.
    OUTSIDE = "outside"


class Generation(NamedTuple):
    """What identifies a member in its commits.

    Attributes:
        generation_id: the group's generation; -1 outside a group.
        member_id: assigned by the coordinator; empty outside a group.
        group_instance_id: see `GroupSettings`.
    """

    generation_id: int
    member_id: str
    group_instance_id: str | None


class MemberInfo(NamedTuple):
    """A member of the group, as its leader sees it.

    Attributes:
        metadata: the encoded subscription it joined with.
        group_instance_id: see `GroupSettings`.
    """

    metadata: bytes
    group_instance_id: str | None


class GroupMember:
    """The state of one member.

    Args:
        settings: how it takes part.

    Attributes:
        step: what the driver has to do next.
        members: all members by id, while this one performs the assignment.
        protocol_name: the protocol that the group agreed on.
        assignment: this member's assignment, encoded.
        lost: whether the generation was lost: others may already own what this member owned.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.step = Step.OUTSIDE
        self.members: dict[str, MemberInfo] = {}
        self.protocol_name = ""
        self.assignment = b""
        self.lost = False
        self._member_id = UNKNOWN_MEMBER_ID
        self._generation_id = UNKNOWN_GENERATION_ID
        self._protocols: list[tuple[str, bytes]] = []
        self._assignments: dict[str, bytes] = {}
        self._reason = "first join"
        self._last_heartbeat_ms = 0

    @property
    def generation(self) -> Generation:
        """What identifies this member in its commits now."""
        return Generation(self._generation_id, self._member_id, self.settings.group_instance_id)

    def rejoin(self, reason: str) -> None:
        """Join the group, or rejoin it for a rebalance.

        Args:
            reason: for the broker's log.
        """
        self._reason = reason
        self.step = Step.PREPARE

    def left(self) -> None:
        """Note that the member has left the group."""
        self._reset()
        self.step = Step.OUTSIDE

    def prepared(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Continue after `PREPARE`.

        Args:
            protocols: (name, encoded subscription), the preferred protocol first.
        """
        self.lost = False
        self._protocols = list(protocols)
        self.step = Step.JOIN

    def join_request(self) -> "messages.JoinGroupRequest":
        """Return the request that joins the group; the response comes once all members have joined."""
        settings = self.settings
        return messages.JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=settings.protocol_type,
            protocols=[
                messages.JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in self._protocols
            ],
            reason=self._reason,
        )

    def receive_join(self, response: "messages.JoinGroupResponse", now_ms: int) -> None:
        """Handle the response to `join_request`.

        Raises:
            BrokerError: the group refuses this member, or the coordinator must be looked up again.
        """
        match response.error_code:
            case ErrorCode.NONE:
                self._member_id = response.member_id
                self._generation_id = response.generation_id
                self._last_heartbeat_ms = now_ms
                self.protocol_name = response.protocol_name or ""
                self._assignments = {}
                self.members = {
                    member.member_id: MemberInfo(bytes(member.metadata), member.group_instance_id)
                    for member in response.members
                }
                leads = response.leader == response.member_id and not response.skip_assignment
                self.step = Step.PERFORM_ASSIGNMENT if leads else Step.SYNC
            case ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case _:
                self._refused(response.error_code, "join")

    def assignment_performed(self, assignments: Mapping[str, bytes]) -> None:
        """Continue after `PERFORM_ASSIGNMENT`.

        Args:
            assignments: what each member gets, by member id.
        """
        self._assignments = dict(assignments)
        self.step = Step.SYNC

    def sync_request(self) -> "messages.SyncGroupRequest":
        """Return the request for this member's assignment; the leader's carries the assignments of all members."""
        settings = self.settings
        return messages.SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=settings.protocol_type,
            protocol_name=self.protocol_name,
            assignments=[
                messages.SyncGroupRequest.SyncGroupRequestAssignment(member, data)
                for member, data in self._assignments.items()
            ],
        )

    def receive_sync(self, response: "messages.SyncGroupResponse", now_ms: int) -> None:
        """Handle the response to `sync_request`.

        Raises:
            BrokerError: see `receive_join`.
        """
        self.members = {}
        if response.error_code != ErrorCode.NONE:
            self._refused(response.error_code, "sync")
            return
        self._last_heartbeat_ms = now_ms
        self.assignment = _bytes(response.assignment)
        self.step = Step.ADOPT

    def adopted(self, again: str | None = None) -> None:
        """Continue after `ADOPT`.

        Args:
            again: why another rebalance is needed, None if it is not.
        """
        if again is not None:
            self.rejoin(again)
        elif self.step is Step.ADOPT:
            self.step = Step.STABLE

    def heartbeat_wait_ms(self, now_ms: int) -> int | None:
        """Return how long until the next heartbeat, 0 if it is due; None while none is needed.

        The coordinator knows that a member with a pending join or sync request is alive.
        """
        if self._generation_id == UNKNOWN_GENERATION_ID or self.step in (Step.JOIN, Step.SYNC, Step.OUTSIDE):
            return None
        return max(0, self._last_heartbeat_ms + self.settings.heartbeat_interval_ms - now_ms)

    def heartbeat_request(self, now_ms: int) -> "messages.HeartbeatRequest":
        """Return a heartbeat; the next one is due `heartbeat_interval_ms` from now."""
        self._last_heartbeat_ms = now_ms
        return messages.HeartbeatRequest(
            self.settings.group_id, self._generation_id, self._member_id, self.settings.group_instance_id
        )

    def receive_heartbeat(self, response: "messages.HeartbeatResponse") -> None:
        """Handle the response to a heartbeat.

        Raises:
            BrokerError: see `receive_join`.
        """
        self.receive_error(response.error_code, "heartbeat")

    def receive_error(self, error_code: int, action: str) -> None:
        """Act on the error code of any response to this member, to a commit for example.

        Args:
            error_code: from the response.
            action: what was attempted.

        Raises:
            BrokerError: see `receive_join`.
        """
        # During a rebalance, a late response may still be about the former generation.
        if error_code != ErrorCode.NONE and self.step in (Step.STABLE, Step.ADOPT, Step.PERFORM_ASSIGNMENT):
            self._refused(error_code, action)

    def _refused(self, error_code: int, action: str) -> None:
        """Rejoin, as a new member if the coordinator no longer knows this one; raise other errors."""
        match error_code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin(f"a rebalance was in progress at {action}")
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self.lost = self.lost or self._generation_id != UNKNOWN_GENERATION_ID
                if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = UNKNOWN_MEMBER_ID
                self._generation_id = UNKNOWN_GENERATION_ID
                self.rejoin(f"the generation was lost at {action}")
            case _:
                raise BrokerError(error_code, f"{action} in group {self.settings.group_id}")

    def _reset(self) -> None:
        self._member_id = UNKNOWN_MEMBER_ID
        self._generation_id = UNKNOWN_GENERATION_ID
        self.assignment = b""
        self.members = {}


def _bytes(data: Buffer) -> bytes:
    return bytes(data)
