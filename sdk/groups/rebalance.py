"""One member's part in a rebalance of a classic group: JoinGroup, the assignment if the member leads, and SyncGroup.

Both requests can take as long as the slowest member needs, so they use a separate connection. A cancelled rebalance has
no effect on the next one: its responses are dropped.

Source: Apache Kafka, `AbstractCoordinator`, `ConsumerCoordinator.onLeaderElected`; KIP-800 (reasons), KIP-814 (static
leaders), KIP-881 (racks).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.groups.classic_protocol import (
    AssignmentProtocol,
    ClusterView,
    GroupSubscriptions,
    Joining,
    MemberInfo,
)
from kafkawire.sdk.groups.protocol import GroupSettings
from kafkawire.sdk.groups.rebalance_metrics import RebalanceMetrics
from kafkawire.sdk.groups.refusal import refusal_of
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Coordinator, Purpose
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.user_code import contained

__all__ = ["Rebalance", "RebalanceMember"]

logger = logging.getLogger("kafkawire.group")

#: How long after the rebalance timeout a coordinator may still answer, as in Kafka's clients.
_GRACE_MS = 5_000

#: How long the leader waits for the metadata of topics that only other members read. Topics that are still unknown by
#: then are treated as missing, which keeps the other members from waiting.
_METADATA_WAIT_MS = 5_000

#: The maximum number of topics named in a log line.
_NAMED = 5

_NOBODY = GroupSubscriptions({}, {})

_Answer = TypeVar("_Answer", JoinGroupResponse, SyncGroupResponse)


class RebalanceMember(Protocol):
    """The member that takes part in the rebalance."""

    def joined(self, member_id: str, generation: int, now_ms: int) -> None:
        """Handle a join: the member belongs to a new generation."""
        ...

    def assigned(self, partitions: frozenset[TopicPartition], now_ms: int) -> None:
        """Adopt the assignment; the rebalance has ended."""
        ...

    def join_refused(self, error: KafkaWireError, member_id: str, now_ms: int) -> None:
        """Handle a rejected JoinGroup; `member_id` is the id that the coordinator assigned to the member, if any."""
        ...

    def sync_refused(self, error: KafkaWireError, now_ms: int) -> None:
        """Handle a rejected SyncGroup."""
        ...

    def assignor_failed(self, error: KafkaWireError, now_ms: int) -> None:
        """Leave and join again, because this member cannot create its subscription or the group's assignment."""
        ...

    def misassigned(self, error: KafkaWireError, now_ms: int) -> None:
        """Tell the application that the leader's assignment is unreadable, so this member gets no partitions."""
        ...


class Rebalance:
    """The rebalances of one member, one at a time.

    Args:
        router: sends the requests.
        settings: how the member takes part.
        protocol: the protocol between the members.
        member: receives the results.

    Attributes:
        view: the topics of all members when this member made the assignment; None if another member made it.
    """

    def __init__(
        self, router: Router, settings: GroupSettings, protocol: AssignmentProtocol, member: RebalanceMember
    ) -> None:
        self._router = router
        self._settings = settings
        self._protocol = protocol
        self._member = member
        self._call: Call | None = None
        self._member_id = UNKNOWN_MEMBER_ID
        self._generation = UNKNOWN_GENERATION_ID
        self._protocol_name = ""
        self._leader = ""
        self._group = _NOBODY
        self._skips_assignment = False
        self._lead_by_ms: int | None = None
        self._topics: frozenset[str] = frozenset()
        self.view: ClusterView | None = None
        self._lines = LogLimit(logger)
        self._metrics = RebalanceMetrics(router.metrics)

    def begin(self, member_id: str, joining: Joining, reason: str, now_ms: int) -> None:
        """Send a JoinGroup.

        Args:
            member_id: the member's id; empty the first time.
            joining: the data for the other members.
            reason: the reason, for the broker's log.
            now_ms: the time.
        """
        self.view = None
        self._metrics.begun(now_ms)
        settings = self._settings
        try:
            protocols = self._protocol.protocols(joining)
        except KafkaWireError as error:
            self._metrics.failed(now_ms)
            self._member.assignor_failed(error, now_ms)
            return
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=self._protocol.protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in protocols],
            reason=reason,
        )
        self._submit(request, JoinGroupResponse, self._joined, self._join_refused, now_ms)

    def cancel(self) -> None:
        """Forget the running rebalance."""
        self._lead_by_ms = None
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def left(self) -> None:
        """Record that the member has left the group, after its rebalance was cancelled."""
        self._metrics.left()

    def poll(self, now_ms: int) -> None:
        """Make the assignment if this member is the leader and the topics of all members are known."""
        if self._lead_by_ms is not None:
            self._lead(now_ms)

    def due_ms(self) -> int | None:
        """Return when to poll again."""
        return self._lead_by_ms

    def is_outdated(self) -> bool:
        """Return whether this member made an assignment and the topics have changed since.

        Rack changes matter only if the member has a rack; otherwise, a restarting broker would cause two rebalances.
        """
        if self.view is None:
            return False
        now = ClusterView.of(self._topics, self._router.metadata)
        if self._settings.rack is None:
            return self.view.partition_counts != now.partition_counts
        return self.view != now

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        self._member_id, self._generation = response.member_id, response.generation_id
        self._protocol_name, self._leader = response.protocol_name or "", response.leader
        count = len(response.members)
        role = f", leads {count} member{'s' if count != 1 else ''}" if response.leader == response.member_id else ""
        where = self._settings.group_id, response.generation_id
        logger.info("group %s, generation %d: joined as %s%s", *where, response.member_id, role)
        self._member.joined(response.member_id, response.generation_id, now_ms)
        if response.leader != response.member_id:
            self._sync({}, now_ms)
            return
        self._read_members(response, now_ms)
        # A returning static leader makes no assignment, but watches the topics of all members (KIP-814).
        self._skips_assignment = response.skip_assignment
        if not self._skips_assignment and response.member_id not in self._group.subscriptions:
            lonely = RemoteProtocolError(f"the leader {response.member_id} is not among the members of its group")
            self._assignor_failed(lonely, now_ms)
        else:
            self._lead_by_ms = now_ms + _METADATA_WAIT_MS
            self._lead(now_ms)

    def _read_members(self, response: JoinGroupResponse, now_ms: int) -> None:
        """Read the members' subscriptions, and log damaged ones."""
        self._group = self._protocol.read(
            {each.member_id: MemberInfo(bytes(each.metadata), each.group_instance_id) for each in response.members}
        )
        for member_id, wrong in self._group.damage.items():
            topics = self._group.subscriptions[member_id].topics
            gets = f"treated as a subscription to {', '.join(topics[:_NAMED])}" if topics else "it gets no partitions"
            text = "group %s: the subscription of member %s cannot be read (%s): %s"
            self._lines.warning(("damage", member_id), now_ms, text, self._settings.group_id, member_id, wrong, gets)

    def _join_refused(self, error: KafkaWireError, response: JoinGroupResponse | None, now_ms: int) -> None:
        if not isinstance(error, BrokerError) or error.code is not ErrorCode.MEMBER_ID_REQUIRED:
            self._metrics.failed(now_ms)
            self._lines.info("join", now_ms, "group %s: not joined: %s", self._settings.group_id, error)
        self._member.join_refused(error, UNKNOWN_MEMBER_ID if response is None else response.member_id, now_ms)

    def _lead(self, now_ms: int) -> None:
        assert self._lead_by_ms is not None
        metadata = self._router.metadata
        try:
            topics = self._group.topics
            if metadata.wanted is not None:
                metadata.wanted |= topics
            is_known = all(name in metadata.topics or name in metadata.errors for name in topics)
            if not is_known and now_ms < self._lead_by_ms:
                return
            self._lead_by_ms = None
            self._topics = topics
            self.view = view = ClusterView.of(topics, metadata)
            assignments: Mapping[str, bytes] = {}
            if not self._skips_assignment:
                assignments = self._protocol.assign(self._protocol_name, self._group.subscriptions, view)
        except BaseException as error:  # the assignor may be the application's
            self._assignor_failed(contained(error), now_ms)
            return
        self._sync(assignments, now_ms)

    def _assignor_failed(self, error: Exception, now_ms: int) -> None:
        self._lead_by_ms = None
        self._metrics.failed(now_ms)
        failure = KafkaWireError(f"group {self._settings.group_id}, assignor {self._protocol_name}: {error!r}")
        failure.__cause__ = error
        self._member.assignor_failed(failure, now_ms)

    def _sync(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        self._group = _NOBODY
        settings = self._settings
        request = SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=self._protocol.protocol_type,
            protocol_name=self._protocol_name,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member, data) for member, data in assignments.items()
            ],
        )
        self._submit(request, SyncGroupResponse, self._synced, self._sync_refused, now_ms)

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        try:
            partitions = self._protocol.assignment(bytes(response.assignment))
        except KafkaWireError as error:
            group_id, size_bytes = self._settings.group_id, len(response.assignment)
            where = f"group {group_id}, generation {self._generation}"
            text = f"{where}: the {size_bytes}-byte assignment from leader {self._leader} cannot be read: {error}"
            failure = KafkaWireError(text)
            failure.__cause__ = error
            self._member.misassigned(failure, now_ms)
            partitions = frozenset()
        self._metrics.ended(now_ms)
        self._member.assigned(partitions, now_ms)

    def _sync_refused(self, error: KafkaWireError, response: SyncGroupResponse | None, now_ms: int) -> None:
        self._metrics.failed(now_ms)
        self._lines.info("sync", now_ms, "group %s: no assignment arrived: %s", self._settings.group_id, error)
        self._member.sync_refused(error, now_ms)

    def _submit(
        self,
        request: Message,
        response: type[_Answer],
        succeeded: Callable[[_Answer, int], None],
        refused: Callable[[KafkaWireError, _Answer | None, int], None],
        now_ms: int,
    ) -> None:
        def answered(call: Call[_Answer], now_ms: int) -> None:
            self._call = None
            if call.error is not None:
                refused(call.error, call.result, now_ms)
            else:
                succeeded(call.answer, now_ms)

        timeout_ms = self._settings.max_poll_interval_ms + _GRACE_MS
        self._call = Call(
            Coordinator(CoordinatorType.GROUP, self._settings.group_id),
            lambda _: (request, None),
            response,
            now_ms + timeout_ms,
            answered,
            check=partial(refusal_of, self._settings.group_id),
            retries=False,
            timeout_ms=timeout_ms,
            purpose=Purpose.JOIN,
        )
        self._router.submit(self._call, now_ms)
