"""Committed offsets and groups as records of `__consumer_offsets`: written on each change, read when the broker starts.

A key begins with an int16 record type, a value with an int16 version; a null value deletes. The last record of a key
counts. Only records of classic groups are known here; others are ignored.

Source: `GroupCoordinatorRecordHelpers`, `CoordinatorRecordSerde` in Apache Kafka; KIP-848.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kafkawire.reference_broker.groups.group import Group, GroupState, Member
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Buffer, Message

__all__ = ["Committed", "OffsetStore", "Partition", "java_hash", "offsets_partition"]

#: A partition: topic and number.
Partition = tuple[str, int]

#: Key and value of a record; the value None deletes.
KeyValue = tuple[bytes, bytes | None]

_PREFIX = struct.Struct(">h")

#: The version in which Kafka 4.3 writes groups: the newest that older releases can read.
_GROUP_VERSION = 3

M = TypeVar("M", bound=Message)


class Committed(NamedTuple):
    """A committed offset.

    Attributes:
        offset: of the next record to read.
        leader_epoch: of the last record read, -1 if not known.
        metadata: text that the consumer stores with it.
        commit_timestamp: when it was committed, in milliseconds since the epoch.
        topic_id: the topic's id, which differs from that of a later topic of the same name.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    topic_id: bytes


class OffsetStore:
    """The offsets of all groups, and the store of the groups themselves.

    Args:
        append: appends records of a group to its partition of the offsets topic; raises `BrokerError` if that fails.
    """

    def __init__(self, append: Callable[[str, Sequence[KeyValue], int], None]) -> None:
        self._append = append
        self._offsets: dict[str, dict[Partition, Committed]] = {}

    def of_group(self, group_id: str) -> Mapping[Partition, Committed]:
        """Return the committed offsets of a group by partition."""
        return self._offsets.get(group_id, {})

    def groups(self) -> Iterable[str]:
        """Return the ids of the groups that have committed offsets."""
        return self._offsets.keys()

    def commit(self, group_id: str, offsets: Mapping[Partition, Committed], now_ms: int) -> None:
        """Commit offsets.

        Raises:
            BrokerError: they could not be written; nothing is committed.
        """
        if not offsets:
            return
        records: list[KeyValue] = [
            (
                _key(OffsetCommitKey(group_id, topic, number)),
                _value(
                    OffsetCommitValue(
                        entry.offset,
                        entry.leader_epoch,
                        entry.metadata,
                        entry.commit_timestamp,
                        topic_id=entry.topic_id,
                    ),
                    OffsetCommitValue.SCHEMA.versions.last,
                ),
            )
            for (topic, number), entry in offsets.items()
        ]
        self._append(group_id, records, now_ms)
        self._offsets.setdefault(group_id, {}).update(offsets)

    def forget_topic(self, topic: str, now_ms: int) -> None:
        """Delete the offsets of a deleted topic, so that a new topic of the same name starts without any."""
        for group_id, offsets in self._offsets.items():
            gone = [partition for partition in offsets if partition[0] == topic]
            if gone:
                self._append(
                    group_id, [(_key(OffsetCommitKey(group_id, *partition)), None) for partition in gone], now_ms
                )
                for partition in gone:
                    del offsets[partition]

    # The store of groups, see `GroupStore`.

    def store_group(self, group: Group, now_ms: int) -> None:
        value = GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=group.state_changed_ms,
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name),
                    assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )
        self._append(group.group_id, [(_key(GroupMetadataKey(group.group_id)), _value(value, _GROUP_VERSION))], now_ms)

    def remove_group(self, group_id: str, now_ms: int) -> None:
        records: list[KeyValue] = [
            (_key(OffsetCommitKey(group_id, topic, number)), None) for topic, number in self.of_group(group_id)
        ]
        records.append((_key(GroupMetadataKey(group_id)), None))
        self._append(group_id, records, now_ms)
        self._offsets.pop(group_id, None)

    def load(self, records: Iterable[tuple[Buffer | None, Buffer | None]]) -> dict[str, Group]:
        """Load offsets and groups from the log.

        Args:
            records: keys and values of all partitions of the offsets topic, each partition in order.

        Returns:
            The groups that have a group record or offsets, by id.
        """
        groups: dict[str, Group] = {}
        for key, value in records:
            if key is None:
                continue
            (kind,) = _PREFIX.unpack_from(key)
            if kind == OffsetCommitKey.SCHEMA.key:
                self._load_offset(key, value)
            elif kind == GroupMetadataKey.SCHEMA.key:
                _load_group(groups, key, value)
        for group_id in [group_id for group_id, offsets in self._offsets.items() if not offsets]:
            del self._offsets[group_id]
        for group_id in self._offsets:
            groups.setdefault(group_id, Group(group_id))
        return groups

    def _load_offset(self, key: Buffer, value: Buffer | None) -> None:
        name = _read(OffsetCommitKey, key, OffsetCommitKey.SCHEMA.versions.last)
        offsets = self._offsets.setdefault(name.group, {})
        if value is None:
            offsets.pop((name.topic, name.partition), None)
            return
        entry = _read(OffsetCommitValue, value)
        offsets[name.topic, name.partition] = Committed(
            entry.offset, entry.leader_epoch, entry.metadata, entry.commit_timestamp, entry.topic_id
        )


def _load_group(groups: dict[str, Group], key: Buffer, value: Buffer | None) -> None:
    group_id = _read(GroupMetadataKey, key, GroupMetadataKey.SCHEMA.versions.last).group
    if value is None:
        groups.pop(group_id, None)
        return
    stored = _read(GroupMetadataValue, value)
    group = groups[group_id] = Group(
        group_id,
        state=GroupState.STABLE if stored.members else GroupState.EMPTY,
        generation_id=stored.generation,
        protocol_type=stored.protocol_type or None,
        protocol_name=stored.protocol,
        leader_id=stored.leader,
        state_changed_ms=stored.current_state_timestamp,
    )
    for member in stored.members:
        group.add(
            Member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout,
                member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout,
                ((stored.protocol or "", bytes(member.subscription)),),
                bytes(member.assignment),
            )
        )


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`, signed 32 bits over UTF-16 units; it decides the partition of a group."""
    result = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def offsets_partition(group_id: str, partitions: int) -> int:
    """Return the partition of the offsets topic that stores a group."""
    code = java_hash(group_id)
    # Java's absolute value of the smallest int32 is itself; Kafka takes 0 instead.
    return (0 if code == -(1 << 31) else abs(code)) % partitions


def _key(key: Message) -> bytes:
    return _PREFIX.pack(key.SCHEMA.key or 0) + program(type(key), key.SCHEMA.versions.last).encode(key)


def _value(value: Message, version: int) -> bytes:
    return _PREFIX.pack(version) + program(type(value), version).encode(value)


def _read(cls: type[M], data: Buffer, version: int | None = None) -> M:
    """Read a key, or a value in the version that it begins with."""
    (prefix,) = _PREFIX.unpack_from(data)
    return program(cls, prefix if version is None else version).decode(data, _PREFIX.size)[0]
