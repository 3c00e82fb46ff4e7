"""A consumer in its group: its subscription, and what a rebalance does to its partitions.

Eager members revoke everything before each rebalance. Cooperative ones revoke only what the new assignment takes away,
which needs a second rebalance. Offsets are committed before partitions are revoked, so that the next owner continues
from there.

Source: Apache Kafka, `ConsumerCoordinator`; KIP-429 (cooperative rebalancing).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.group_member import GroupMember, GroupSettings, MemberInfo
from kafkawire.sdk.client.offsets import commit_offsets
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.consumer.assignors import ASSIGNORS
from kafkawire.sdk.consumer.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkawire.sdk.consumer.fetch_loop import FetchLoop
from kafkawire.sdk.consumer.group_driver import GroupDriver
from kafkawire.sdk.consumer.positions import Positions
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE

__all__ = ["Membership", "RebalanceListener"]

logger = logging.getLogger("kafkawire.consumer")


class RebalanceListener(Protocol):
    """Called when partitions are assigned, revoked or lost; each method may be a coroutine function."""

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were added; none of their records were handed out yet, so `seek` takes effect."""
        ...

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are about to be revoked; their offsets can still be committed."""
        ...

    def on_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that were lost; other members may already read them, and a commit would fail."""
        ...


class Membership:
    """The consumer's membership in a group: reads what the group assigns to it.

    Args:
        options: the consumer's options.
        cluster: finds the coordinator.
        positions: the partitions to read; assigned and revoked here.
        topics: the member's subscription.
        listener: called when the assignment changes; None for none.
        loop: woken after changes.
        idle_since_ms: returns when the application's last read returned, None during a read.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: Cluster,
        positions: Positions,
        topics: Collection[str],
        listener: RebalanceListener | None,
        loop: FetchLoop,
        idle_since_ms: Callable[[], int | None],
    ) -> None:
        assert options.group_id is not None
        self._options = options
        self._group_id = options.group_id
        self._cluster = cluster
        self._positions = positions
        self._topics = frozenset(topics)
        self._listener = listener
        self._loop = loop
        # As in Kafka, a member is cooperative only if all of its assignors are.
        self._cooperative = all(ASSIGNORS[name].cooperative for name in options.assignors)
        settings = GroupSettings(
            options.group_id,
            options.group_instance_id,
            CONSUMER_PROTOCOL_TYPE,
            options.session_timeout_ms,
            options.max_poll_interval_ms,
            options.heartbeat_interval_ms,
        )
        self._member = GroupMember(settings)
        self._assigned_last: tuple[list[TopicPartition], int] = ([], self._member.generation.generation_id)
        self._driver = GroupDriver(cluster, self._member, self, idle_since_ms, options.max_poll_interval_ms, loop.fail)

    def start(self) -> None:
        """Join the group."""
        self._driver.start()

    async def close(self) -> None:
        """Revoke all partitions and leave the group."""
        await self._driver.stop()
        try:
            await self._revoke(self._positions.assigned)
        finally:
            await self._driver.leave("the consumer was closed")

    def subscribe(self, topics: Collection[str]) -> None:
        """Change the subscription; records of former topics are no longer handed out, even before the rebalance."""
        self._topics = frozenset(topics)
        for partition in self._positions:
            if partition.topic not in self._topics:
                self._positions[partition].pause()
        self._driver.rejoin("the subscription changed")

    def reading(self) -> None:
        """Rejoin the group if the member left because the application had stopped reading."""
        self._driver.rejoin_if_outside()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets as this member.

        Raises:
            BrokerError: see `Consumer.commit`.
        """
        try:
            await commit_offsets(self._cluster, self._group_id, offsets, self._member.generation)
        except BrokerError as error:
            if not error.retriable:
                self._driver.note_error(error.code, "commit")
            raise
        self._positions.committed({partition: position.offset for partition, position in offsets.items()})

    async def commit_finished(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit finished records, of all partitions or of some."""
        offsets = self._positions.to_commit(partitions)
        await self.commit({partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()})

    # GroupWork: the steps of the member.

    async def prepare(self, lost: bool) -> Sequence[tuple[str, bytes]]:
        owned = self._positions.assigned
        if lost:
            await self.lose()
        elif not self._cooperative:
            await self._revoke(owned)
        return [(name, encode_subscription(self._subscription(name))) for name in self._options.assignors]

    async def perform_assignment(self, protocol_name: str, members: Mapping[str, MemberInfo]) -> Mapping[str, bytes]:
        subscriptions = {
            member_id: decode_subscription(member.metadata)._replace(group_instance_id=member.group_instance_id)
            for member_id, member in members.items()
        }
        wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        await self._cluster.refresh(wanted)
        known = self._cluster.metadata.topics
        counts = {topic: len(known[topic].partitions) for topic in sorted(wanted) if topic in known}
        assignments = ASSIGNORS[protocol_name].assign(subscriptions, counts)
        return {member_id: encode_assignment(partitions) for member_id, partitions in assignments.items()}

    async def adopt(self, protocol_name: str, assignment: bytes) -> str | None:
        owned = self._positions.assigned
        assigned = frozenset(decode_assignment(assignment) if assignment else ())
        revoked, added = owned - assigned, assigned - owned
        logger.info("group %s, %s: assigned %s", self._group_id, protocol_name, ", ".join(map(str, sorted(assigned))))
        if revoked:
            await self._revoke(revoked)
        self._positions.assign(assigned)
        self._assigned_last = (sorted(assigned), self._member.generation.generation_id)
        self._cluster.topics = set(self._topics)
        await self._tell("on_assigned", added)
        self._loop.wake()
        return "partitions were revoked" if revoked else None

    async def lose(self) -> None:
        owned = self._positions.assigned
        self._positions.assign(())
        await self._tell("on_lost", owned)

    def _subscription(self, assignor: str) -> Subscription:
        """Return this member's subscription for one assignor."""
        generation_id = self._member.generation.generation_id
        user_data = ASSIGNORS[assignor].user_data(*self._assigned_last)
        return Subscription(tuple(self._topics), tuple(self._positions.assigned), generation_id, user_data=user_data)

    async def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Revoke partitions: commit their finished records, call the listener, stop reading them."""
        if not partitions:
            return
        if self._options.enable_auto_commit:
            try:
                await self.commit_finished(partitions)
            except KafkaWireError as error:
                logger.warning("offsets of group %s were not committed: %s", self._group_id, error)
        await self._tell("on_revoked", partitions)
        self._positions.assign(self._positions.assigned - partitions)

    async def _tell(self, event: str, partitions: frozenset[TopicPartition]) -> None:
        if self._listener is None or not partitions:
            return
        result = getattr(self._listener, event)(partitions)
        if inspect.isawaitable(result):
            await result
