"""The two tasks of a group member: one carries out its steps, one sends its heartbeats.

`GroupWork` does what a step means for the consumer (revoking, assigning, adopting partitions). Heartbeats continue
meanwhile, as long as the application does not block the event loop.

Source: Apache Kafka, `AbstractCoordinator`, `ConsumerCoordinator`; KIP-62 (max.poll.interval.ms).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.group_member import GroupMember, MemberInfo, Step
from kafkawire.sdk.client.requests import leave_group
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse

__all__ = ["GroupDriver", "GroupWork"]

logger = logging.getLogger("kafkawire.consumer")

#: A heartbeat that is late by this fraction of the session timeout is worth a warning: a few more such delays and the
#: coordinator removes the member.
_LATE_FRACTION = 0.25

#: How much longer than the rebalance timeout a coordinator may take to answer a join request; as in Kafka's clients.
_JOIN_GRACE_MS = 5_000


class GroupWork(Protocol):
    """What a group member does at each step."""

    async def prepare(self, lost: bool) -> Sequence[tuple[str, bytes]]:
        """Revoke what must be revoked before a rebalance; return (protocol name, encoded subscription) pairs."""
        ...

    async def perform_assignment(self, protocol_name: str, members: Mapping[str, MemberInfo]) -> Mapping[str, bytes]:
        """Return each member's encoded assignment, by member id."""
        ...

    async def adopt(self, protocol_name: str, assignment: bytes) -> str | None:
        """Adopt an assignment; return why another rebalance is needed, None if it is not."""
        ...

    async def lose(self) -> None:
        """Drop all partitions: the member has lost its place in the group."""
        ...


class GroupDriver:
    """Drive one member.

    Args:
        cluster: finds the coordinator.
        member: the member's state.
        work: carries out its steps.
        reading_stopped_ms: returns when the application's last read returned, by the monotonic clock; None during a
            read.
        max_poll_interval_ms: after this long without a read the member leaves the group.
        on_failure: called with an error that no retry can fix.
    """

    def __init__(
        self,
        cluster: Cluster,
        member: GroupMember,
        work: GroupWork,
        reading_stopped_ms: Callable[[], int | None],
        max_poll_interval_ms: int,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._cluster = cluster
        self._member = member
        self._work = work
        self._reading_stopped_ms = reading_stopped_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._on_failure = on_failure
        self._group_id = member.settings.group_id
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Join the group."""
        self._member.rejoin("first join")
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._take_steps(), name="kafkawire group"),
            loop.create_task(self._send_heartbeats(), name="kafkawire heartbeats"),
        ]

    def rejoin(self, reason: str) -> None:
        """Rejoin the group, which starts a rebalance."""
        self._member.rejoin(reason)
        self._changed.set()

    def rejoin_if_outside(self) -> None:
        """Rejoin if the member left because the application had stopped reading."""
        if self._member.step is Step.OUTSIDE:
            self.rejoin("the application reads again")

    def note_error(self, error_code: int, action: str) -> None:
        """Act on the error code of a commit."""
        step = self._member.step
        self._member.receive_error(error_code, action)
        if self._member.step is not step:
            self._changed.set()

    async def stop(self) -> None:
        """Stop both tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def leave(self, reason: str) -> None:
        """Leave the group, so that the others need not wait for the session timeout; errors are logged.

        A static member (one with `group_instance_id`) sends nothing and keeps its place.
        """
        _, member_id, group_instance_id = self._member.generation
        if member_id and group_instance_id is None:
            try:
                connection = await self._cluster.coordinator(self._group_id)
                version = connection.version_for(LeaveGroupRequest)
                request = leave_group(self._group_id, member_id, group_instance_id, reason, version)
                await connection.request(request, LeaveGroupResponse, version)
            except KafkaWireError as error:
                logger.info("%s could not leave group %s: %s", member_id, self._group_id, error)
        self._member.left()

    async def _take_steps(self) -> None:
        failures = 0
        while True:
            try:
                await self._take_step()
                failures = 0
            except KafkaWireError as error:
                failures += 1
                if not self._goes_on(error):
                    return
                await asyncio.sleep(self._cluster.pause_ms(failures) / 1000)
            except Exception as error:  # from the application's listener: its next read raises it
                self._on_failure(error)
                return

    async def _take_step(self) -> None:
        member, work = self._member, self._work
        match member.step:
            case Step.PREPARE:
                member.prepared(await work.prepare(member.lost))
            case Step.JOIN:
                connection = await self._cluster.coordinator(self._group_id)
                timeout_ms = member.settings.rebalance_timeout_ms + _JOIN_GRACE_MS
                joined = await connection.request(member.join_request(), JoinGroupResponse, timeout_ms=timeout_ms)
                member.receive_join(joined, monotonic_ms())
            case Step.PERFORM_ASSIGNMENT:
                member.assignment_performed(await work.perform_assignment(member.protocol_name, member.members))
            case Step.SYNC:
                connection = await self._cluster.coordinator(self._group_id)
                timeout_ms = member.settings.rebalance_timeout_ms + _JOIN_GRACE_MS
                synced = await connection.request(member.sync_request(), SyncGroupResponse, timeout_ms=timeout_ms)
                member.receive_sync(synced, monotonic_ms())
            case Step.ADOPT:
                again = await work.adopt(member.protocol_name, member.assignment)
                member.adopted(again)
            case Step.STABLE | Step.OUTSIDE:
                await self._changed.wait()
        self._changed.clear()

    async def _send_heartbeats(self) -> None:
        interval_ms = self._member.settings.heartbeat_interval_ms
        failures = 0
        while True:
            wait_ms = self._member.heartbeat_wait_ms(monotonic_ms())
            if wait_ms is None or wait_ms > 0:
                await self._sleep(min(interval_ms, interval_ms if wait_ms is None else wait_ms))
                continue
            try:
                await self._send_heartbeat()
                failures = 0
            except KafkaWireError as error:
                failures += 1
                if not self._goes_on(error):
                    return
                await asyncio.sleep(self._cluster.pause_ms(failures) / 1000)

    async def _send_heartbeat(self) -> None:
        stopped_ms = self._reading_stopped_ms()
        if stopped_ms is not None and monotonic_ms() - stopped_ms > self._max_poll_interval_ms:
            logger.warning(
                "nothing was read for max_poll_interval_ms=%d: leaving group %s until the next read",
                self._max_poll_interval_ms,
                self._group_id,
            )
            await self.leave("nothing was read for max_poll_interval_ms")
            await self._work.lose()
            self._changed.set()
            return
        connection = await self._cluster.coordinator(self._group_id)
        step = self._member.step
        response = await connection.request(self._member.heartbeat_request(monotonic_ms()), HeartbeatResponse)
        self._member.receive_heartbeat(response)
        if self._member.step is not step:
            self._changed.set()

    async def _sleep(self, duration_ms: int) -> None:
        """Sleep, and warn if the event loop was blocked for so long that heartbeats are at risk."""
        due_ms = monotonic_ms() + duration_ms
        await asyncio.sleep(duration_ms / 1000)
        late_ms = monotonic_ms() - due_ms
        if late_ms > self._member.settings.session_timeout_ms * _LATE_FRACTION:
            logger.warning(
                "the event loop was blocked for %d ms; after session_timeout_ms=%d the coordinator removes this member "
                "from the group: move blocking work to asyncio.to_thread",
                late_ms,
                self._member.settings.session_timeout_ms,
            )

    def _goes_on(self, error: KafkaWireError) -> bool:
        """Return whether to try again; if not, report the error."""
        self._cluster.note(error, self._group_id)
        if error.retriable:
            logger.info("group %s: %s", self._group_id, error)
            return True
        self._on_failure(error)
        return False
