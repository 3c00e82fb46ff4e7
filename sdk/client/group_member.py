"""One member of a classic group: what it has to do next, without I/O.

The driver asks `next_step`, does what the step says and reports back; beside that it sends a heartbeat whenever
`heartbeat_wait_ms` says so. What members tell each other (subscriptions, assignments) passes through as bytes.

    PREPARE ─prepared─> JOIN ─answer─> DIVIDE (leader only) ─divided─> SYNC ─answer─> ASSIGN ─assigned─> STABLE
       ^─────────── a rebalance, a lost generation, an answer that says "again" ──────────────────────────┘

Source: Apache Kafka, `AbstractCoordinator`; KIP-345 (static members), KIP-394 (member id first), KIP-800 (reasons).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Generation", "GroupMember", "GroupSettings", "MemberInfo", "Step"]

#: What a member is called, and where it stands, before the coordinator said so.
_NO_MEMBER_ID = ""
_NO_GENERATION = -1


class GroupSettings(NamedTuple):
    """How a member takes part.

    Attributes:
        group_id: the group.
        group_instance_id: a name that outlives the process, or None.
        protocol_type: what kind of group it is.
        session_timeout_ms: without a heartbeat for so long the member is taken for dead.
        rebalance_timeout_ms: how long the others wait for this member to join again.
        heartbeat_interval_ms: between heartbeats.
    """

    group_id: str
    group_instance_id: str | None
    protocol_type: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int


class Step(Enum):
    """What the driver has to do next."""

    #: Give up what must be given up before a rebalance, then call `prepared`.
    PREPARE = "prepare"
    #: Send `join_request()`, then call `receive_join`.
    JOIN = "join"
    #: Divide the work among `members`, then call `divided`.
    DIVIDE = "divide"
    #: Send `sync_request()`, then call `receive_sync`.
    SYNC = "sync"
    #: Take over `assignment`, then call `assigned`.
    ASSIGN = "assign"
    #: Nothing but heartbeats.
    STABLE = "stable"
    #: Nothing at all: not a member.
    OUTSIDE = "outside"


class Generation(NamedTuple):
    """What a member signs its commits with.

    Attributes:
        generation_id: of the group; -1 outside of one.
        member_id: as the coordinator calls the member.
        group_instance_id: see `GroupSettings`.
    """

    generation_id: int
    member_id: str
    group_instance_id: str | None


class MemberInfo(NamedTuple):
    """Another member, as the leader sees it.

    Attributes:
        metadata: what it said of itself when it joined.
        group_instance_id: see `GroupSettings`.
    """

    metadata: bytes
    group_instance_id: str | None


class GroupMember:
    """The state of one member.

    Args:
        settings: how it takes part.

    Attributes:
        step: what has to be done next.
        members: all members by id, while this one leads and divides.
        protocol_name: what the group agreed on.
        assignment: what this member got.
        lost: whether the generation was lost: others may own by now what this member had.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.step = Step.OUTSIDE
        self.members: dict[str, MemberInfo] = {}
        self.protocol_name = ""
        self.assignment = b""
        self.lost = False
        self._member_id = _NO_MEMBER_ID
        self._generation_id = _NO_GENERATION
        self._protocols: list[tuple[str, bytes]] = []
        self._division: dict[str, bytes] = {}
        self._reason = "first join"
        self._last_heartbeat_ms = 0

    @property
    def generation(self) -> Generation:
        """What commits are signed with now."""
        return Generation(self._generation_id, self._member_id, self.settings.group_instance_id)

    def rejoin(self, reason: str) -> None:
        """Enter the group, or take part in a new round of it.

        Args:
            reason: for the broker's log.
        """
        self._reason = reason
        self.step = Step.PREPARE

    def left(self) -> None:
        """Be outside of the group: the member has left, or nobody reads its records."""
        self._reset()
        self.step = Step.OUTSIDE

    def prepared(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Go on after `PREPARE`.

        Args:
            protocols: names and this member's metadata for each, the preferred one first.
        """
        self.lost = False
        self._protocols = list(protocols)
        self.step = Step.JOIN

    def join_request(self) -> JoinGroupRequest:
        """Return what enters the group; the answer comes when all members have sent theirs."""
        settings = self.settings
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=settings.protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in self._protocols],
            reason=self._reason,
        )

    def receive_join(self, response: JoinGroupResponse, now_ms: int) -> None:
        """Take the answer to `join_request`.

        Raises:
            BrokerError: the group does not take this member, or its coordinator must be looked for.
        """
        match response.error_code:
            case ErrorCode.NONE:
                self._member_id = response.member_id
                self._generation_id = response.generation_id
                self._last_heartbeat_ms = now_ms
                self.protocol_name = response.protocol_name or ""
                self._division = {}
                self.members = {
                    member.member_id: MemberInfo(bytes(member.metadata), member.group_instance_id)
                    for member in response.members
                }
                leads = response.leader == response.member_id and not response.skip_assignment
                self.step = Step.DIVIDE if leads else Step.SYNC
            case ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case _:
                self._refused(response.error_code, "join")

    def divided(self, division: Mapping[str, bytes]) -> None:
        """Go on after `DIVIDE`.

        Args:
            division: what each member gets, by member id.
        """
        self._division = dict(division)
        self.step = Step.SYNC

    def sync_request(self) -> SyncGroupRequest:
        """Return what asks for this member's part, and hands out the others' parts if this one leads."""
        settings = self.settings
        return SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=settings.protocol_type,
            protocol_name=self.protocol_name,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member, data) for member, data in self._division.items()
            ],
        )

    def receive_sync(self, response: SyncGroupResponse, now_ms: int) -> None:
        """Take the answer to `sync_request`.

        Raises:
            BrokerError: see `receive_join`.
        """
        self.members = {}
        if response.error_code != ErrorCode.NONE:
            self._refused(response.error_code, "sync")
            return
        self._last_heartbeat_ms = now_ms
        self.assignment = _bytes(response.assignment)
        self.step = Step.ASSIGN

    def assigned(self, again: str | None = None) -> None:
        """Go on after `ASSIGN`.

        Args:
            again: why another round is needed, None if it is not.
        """
        if again is not None:
            self.rejoin(again)
        elif self.step is Step.ASSIGN:
            self.step = Step.STABLE

    def heartbeat_wait_ms(self, now_ms: int) -> int | None:
        """Return how long until the next heartbeat, 0 if it is due; None while none is needed.

        A member that waits for the answer to a join or sync request is known to be alive.
        """
        if self._generation_id == _NO_GENERATION or self.step in (Step.JOIN, Step.SYNC, Step.OUTSIDE):
            return None
        return max(0, self._last_heartbeat_ms + self.settings.heartbeat_interval_ms - now_ms)

    def heartbeat_request(self, now_ms: int) -> HeartbeatRequest:
        """Return what says that this member is alive; the next one is due an interval from now."""
        self._last_heartbeat_ms = now_ms
        return HeartbeatRequest(
            self.settings.group_id, self._generation_id, self._member_id, self.settings.group_instance_id
        )

    def receive_heartbeat(self, response: HeartbeatResponse) -> None:
        """Take the answer to a heartbeat.

        Raises:
            BrokerError: see `receive_join`.
        """
        self.receive_error(response.error_code, "heartbeat")

    def receive_error(self, error_code: int, action: str) -> None:
        """Learn from the error code of any answer to this member, of a commit for example.

        Args:
            error_code: of the answer.
            action: what was tried.

        Raises:
            BrokerError: see `receive_join`.
        """
        # Between the rounds, an answer may still speak of the former generation.
        if error_code != ErrorCode.NONE and self.step in (Step.STABLE, Step.ASSIGN, Step.DIVIDE):
            self._refused(error_code, action)

    def _refused(self, error_code: int, action: str) -> None:
        """Begin a new round, as a new member if the group has forgotten this one; raise what no round can mend."""
        match error_code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin(f"a rebalance was found at {action}")
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self.lost = self.lost or self._generation_id != _NO_GENERATION
                if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = _NO_MEMBER_ID
                self._generation_id = _NO_GENERATION
                self.rejoin(f"the generation was lost at {action}")
            case _:
                raise BrokerError(error_code, f"{action} in group {self.settings.group_id}")

    def _reset(self) -> None:
        self._member_id = _NO_MEMBER_ID
        self._generation_id = _NO_GENERATION
        self.assignment = b""
        self.members = {}


def _bytes(data: Buffer) -> bytes:
    return bytes(data)
