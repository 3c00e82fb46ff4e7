"""Online migration of groups between protocols: a classic group of consumers becomes a KIP-848 group when the first
consumer joins with the new protocol, and a classic group again once the last such consumer is gone.

Each conversion is one batch of records that deletes the old group and writes the new one.

Source: KIP-848; `GroupMetadataManager.convertToConsumerGroup`, `convertToClassicGroup`,
`ConsumerGroup.fromClassicGroup`, `ClassicGroup.fromConsumerGroup` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, Member
from kafkawire.reference_broker.groups.consumer.group import (
    NOTHING,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    Partitions,
)
from kafkawire.reference_broker.groups.consumer.records import (
    current_record,
    epoch_record,
    group_tombstones,
    group_value_record,
    member_record,
    target_record,
)
from kafkawire.reference_broker.groups.embedded_protocol import (
    read_assignment,
    read_subscription,
    readable_version,
    write_assignment,
)
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.records import group_record, group_tombstone
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.groups.topics import Topics, metadata_hash
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records.java_integers import INT32_MAX

__all__ = ["Downgraded", "Migration", "StaysConsumerGroup"]

#: The policies that allow a group to leave the classic protocol, and those that allow it to return.
_UPGRADING = ("upgrade", "bidirectional")
_DOWNGRADING = ("downgrade", "bidirectional")

_log = logging.getLogger("kafkawire.broker")


class StaysConsumerGroup(BrokerError):
    """A request's records were not written because the group cannot be written as a classic one.

    When the request is retried, the group stays a consumer group.
    """


class Downgraded(NamedTuple):
    """A classic group that replaces a consumer group once its record is in the log.

    Attributes:
        record: the record.
        group: the group.
        is_rebalancing: whether the group begins with a rebalance.
        now_ms: when the group was created.
    """

    record: CoordinatorRecord
    group: ClassicGroup
    is_rebalancing: bool
    now_ms: int


class Migration:
    """Converts groups between the two types.

    Args:
        outbox: receives the records.
        limits: see `GroupLimits`.
        topics: see `Topics`.
    """

    def __init__(self, outbox: Outbox, limits: GroupLimits, topics: Topics) -> None:
        self._outbox = outbox
        self._limits = limits
        self._topics = topics
        #: The latest downgrade of each group, which goes unused if its record never reaches the log.
        self._downgraded: dict[str, Downgraded] = {}
        #: The number of members with which writing a classic group last failed, keyed by group id.
        self._too_large: dict[str, int] = {}

    # From classic to consumer.

    def upgrade(self, classic: ClassicGroup) -> ConsumerGroup:
        """Write the conversion of a classic group; return the consumer group, which has the same members.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND if the conversion is not allowed or impossible.
        """
        self._check_upgrade(classic)
        try:
            group = self._upgraded(classic)
        except DecodeError:
            raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed.") from None
        group_id = group.group_id
        self._outbox.add(group_tombstone(group_id))
        for member in group.members.values():
            self._outbox.add(member_record(group_id, member))
        self._outbox.add(group_value_record(group_id, group.epoch, group.metadata_hash))
        for member_id in group.members:
            self._outbox.add(target_record(group_id, member_id, group.target[member_id]))
        self._outbox.add(epoch_record(group_id, group.assignment_epoch, group.assigned_ms))
        for member in group.members.values():
            self._outbox.add(current_record(group_id, member))
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        if self._limits.group_consumer_migration_policy not in _UPGRADING:
            raise _cannot_upgrade(classic, "online upgrade is disabled.")
        if not classic.uses_consumer_protocol:
            raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._limits.group_consumer_max_size:
            raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size.")

    def _upgraded(self, classic: ClassicGroup) -> ConsumerGroup:
        """Return the consumer group, whose members own the last assignment, except for partitions assigned twice."""
        epoch = classic.generation_id
        group = ConsumerGroup(classic.group_id, epoch, assignment_epoch=epoch)
        for member in classic.members.values():
            # While a group is joining, a new member may not support the selected protocol.
            data = member.metadata(classic.protocol_name) or member.protocols[0][1]
            subscription = read_subscription(data, self._topics)
            assignment = read_assignment(member.assignment, self._topics)
            if assignment.user_data:
                text = "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                raise _cannot_upgrade(classic, f"{text}default assignor before re-attempting the upgrade.")
            assigned = _not_owned(assignment.partitions, group)
            protocols = tuple((name, bytes(data)) for name, data in member.protocols)
            group.put(
                ConsumerMember(
                    member.member_id,
                    member.instance_id,
                    subscription.rack_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    tuple(sorted(set(subscription.topics))),
                    epoch=epoch,
                    previous_epoch=epoch,
                    assigned=assigned,
                    since={(topic_id, n): epoch for topic_id, numbers in assigned.items() for n in numbers},
                    classic=ClassicProtocol(member.session_timeout_ms, protocols),
                )
            )
            group.target[member.member_id] = assigned
        names = {name for member in group.members.values() for name in member.topics}
        group.metadata_hash = metadata_hash(names, self._topics)
        return group

    # From consumer to classic.

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[str], joining: int = 0) -> bool:
        """Return whether a group becomes a classic one when members leave and others replace them.

        A classic group is a single record. If the record is too large, the group stays a consumer group until it has
        fewer members.
        """
        staying = [member for member_id, member in group.members.items() if member_id not in leaving]
        size_max = min(self._limits.group_max_size, self._too_large.get(group.group_id, INT32_MAX) - 1)
        return (
            0 < len(staying) + joining <= size_max
            and self._limits.group_consumer_migration_policy in _DOWNGRADING
            and all(member.classic is not None for member in staying)
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        joining: ConsumerMember | None,
        now_ms: int,
        *,
        is_rebalancing: bool,
    ) -> None:
        """Write the conversion of a consumer group to a classic one.

        Args:
            group: the group; all remaining members use the classic protocol.
            leaving: the members that leave.
            joining: a member that replaces a leaving static member.
            now_ms: the current time.
            is_rebalancing: whether the classic group begins with a rebalance.

        If the record is too large, the step fails with `StaysConsumerGroup`.
        """
        classic = self._classic(group, leaving, joining, now_ms)
        ids = [*group.members] if joining is None else [*group.members, joining.member_id]
        self._outbox.add_all(group_tombstones(group.group_id, ids, group.resolved))
        record = group_record(classic)._replace(is_held=False)
        # After other errors, the group remains downgraded, since a record that was not written in time may be written
        # later.
        self._downgraded[group.group_id] = Downgraded(record, classic, is_rebalancing, now_ms)

        def committed(error: BrokerError | None) -> None:
            if error is not None and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                # The record itself is invalid, so it would never be written.
                self._downgraded.pop(group.group_id, None)
                count = self._too_large[group.group_id] = len(classic.members)
                text = "group %s stays a consumer group; cannot write a classic group of %d members: %s"
                _log.warning(text, group.group_id, count, error.detail)
                raise StaysConsumerGroup(error.code, error.detail)

        self._outbox.add(record, committed)

    def forget(self, group_id: str) -> None:
        """Drop the state of a removed consumer group."""
        self._too_large.pop(group_id, None)

    def take_downgraded(self, group_id: str, record: CoordinatorRecord) -> Downgraded | None:
        """Return the downgraded group for a replayed record, or None if it is not cached."""
        made = self._downgraded.pop(group_id, None)
        return made if made is not None and made.record is record else None

    def _classic(
        self, group: ConsumerGroup, leaving: Collection[str], joining: ConsumerMember | None, now_ms: int
    ) -> ClassicGroup:
        members = [member for member_id, member in group.members.items() if member_id not in leaving]
        targets = {member.member_id: group.target.get(member.member_id, NOTHING) for member in members}
        if joining is not None:
            holder = group.static_members[joining.instance_id or ""]
            members.append(joining)
            targets[joining.member_id] = group.target.get(holder, NOTHING)
        classic = ClassicGroup(
            group.group_id,
            GroupState.STABLE,
            group.epoch,
            CONSUMER_PROTOCOL_TYPE,
            state_changed_ms=now_ms,
        )
        for member in members:
            assert member.classic is not None
            classic.add(
                Member(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.classic.session_timeout_ms,
                    member.rebalance_timeout_ms,
                    member.classic.protocols,
                )
            )
        classic.protocol_name = classic.select_protocol()
        for member in members:
            data = classic.members[member.member_id].metadata(classic.protocol_name)
            version = readable_version(data)
            classic.members[member.member_id].assignment = write_assignment(
                version, targets[member.member_id], self._topics, self._topics
            )
        return classic


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> BrokerError:
    text = f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}"
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _not_owned(partitions: Partitions, group: ConsumerGroup) -> Partitions:
    """Return the partitions that no member owns, since a leader may have assigned a partition twice."""
    left = {
        topic_id: frozenset(number for number in numbers if (topic_id, number) not in group.owners)
        for topic_id, numbers in partitions.items()
    }
    return {topic_id: numbers for topic_id, numbers in left.items() if numbers}
