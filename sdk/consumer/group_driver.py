"""The two tasks of a group member: one takes its steps, one sends its heartbeats.

What a step means for the consumer (giving up partitions, dividing, taking over) is done by `GroupWork`; heartbeats go
on meanwhile, and while the application works between two awaits of its own.

Source: Apache Kafka, `AbstractCoordinator`, `ConsumerCoordinator`; KIP-62 (the application's own time limit).
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

#: A heartbeat that is late by this part of the session timeout is worth a warning: two more and the member may be dead.
_LATE_FRACTION = 0.25

#: What a coordinator may take beyond the rebalance timeout to answer a join request.
_JOIN_GRACE_MS = 5_000


class GroupWork(Protocol):
    """What the member of a group does at each step."""

    async def prepare(self, lost: bool) -> Sequence[tuple[str, bytes]]:
        """Give up what must be given up before a rebalance; return protocol names with this member's metadata."""
        ...

    async def divide(self, protocol_name: str, members: Mapping[str, MemberInfo]) -> Mapping[str, bytes]:
        """Return what each member gets."""
        ...

    async def take_over(self, protocol_name: str, assignment: bytes) -> str | None:
        """Take over an assignment; return why another round is needed, None if it is not."""
        ...

    async def lose(self) -> None:
        """Learn that the member is outside of the group now."""
        ...


class GroupDriver:
    """Drive one member.

    Args:
        cluster: asked for the coordinator.
        member: its state.
        work: what it does.
        reading_stopped_ms: when the application last came back from a read, by the monotonic clock; None while it
            reads.
        max_poll_interval_ms: after so long without a read the member leaves.
        on_failure: called with an error that no retry mends.
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
        """Enter the group."""
        self._member.rejoin("first join")
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._take_steps(), name="kafkawire group"),
            loop.create_task(self._send_heartbeats(), name="kafkawire heartbeats"),
        ]

    def rejoin(self, reason: str) -> None:
        """Take part in a new round."""
        self._member.rejoin(reason)
        self._changed.set()

    def rejoin_if_outside(self) -> None:
        """Enter the group again, after the member left because nobody read."""
        if self._member.step is Step.OUTSIDE:
            self.rejoin("the application reads again")

    def note_error(self, error_code: int, action: str) -> None:
        """Learn from the error code of a commit."""
        step = self._member.step
        self._member.receive_error(error_code, action)
        if self._member.step is not step:
            self._changed.set()

    async def stop(self) -> None:
        """Take no more steps and send no more heartbeats."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def leave(self, reason: str) -> None:
        """Tell the coordinator that the member goes, so that the others need not wait; errors do not matter then.

        A static member (`group_instance_id`) keeps its place.
        """
        _, member_id, group_instance_id = self._member.generation
        if member_id and group_instance_id is None:
            try:
                connection = await self._cluster.coordinator(self._group_id)
                version = connection.version_for(LeaveGroupRequest)
                request = leave_group(self._group_id, member_id, group_instance_id, reason, version)
                await connection.request(request, LeaveGroupResponse, version)
            except KafkaWireError as error:
                logger.info("group %s could not be told that %s leaves: %s", self._group_id, member_id, error)
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
            except Exception as error:  # from the application's listener: its reads must raise it
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
            case Step.DIVIDE:
                member.divided(await work.divide(member.protocol_name, member.members))
            case Step.SYNC:
                connection = await self._cluster.coordinator(self._group_id)
                timeout_ms = member.settings.rebalance_timeout_ms + _JOIN_GRACE_MS
                synced = await connection.request(member.sync_request(), SyncGroupResponse, timeout_ms=timeout_ms)
                member.receive_sync(synced, monotonic_ms())
            case Step.ASSIGN:
                again = await work.take_over(member.protocol_name, member.assignment)
                member.assigned(again)
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
        answer = await connection.request(self._member.heartbeat_request(monotonic_ms()), HeartbeatResponse)
        self._member.receive_heartbeat(answer)
        if self._member.step is not step:
            self._changed.set()

    async def _sleep(self, duration_ms: int) -> None:
        """Sleep, and warn if the event loop did not come back in time for a heartbeat."""
        due_ms = monotonic_ms() + duration_ms
        await asyncio.sleep(duration_ms / 1000)
        late_ms = monotonic_ms() - due_ms
        if late_ms > self._member.settings.session_timeout_ms * _LATE_FRACTION:
            logger.warning(
                "the event loop was busy for %d ms; with more than session_timeout_ms=%d the group takes this member "
                "for dead: move blocking work to asyncio.to_thread",
                late_ms,
                self._member.settings.session_timeout_ms,
            )

    def _goes_on(self, error: KafkaWireError) -> bool:
        """Return whether another attempt makes sense; if not, pass the error on."""
        self._cluster.note(error, self._group_id)
        if error.retriable:
            logger.info("group %s: %s", self._group_id, error)
            return True
        self._on_failure(error)
        return False
