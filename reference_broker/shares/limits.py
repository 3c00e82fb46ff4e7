"""The limits of share groups and of their coordinators: those in the broker's options, and those of individual groups.

Options and configurations of groups may change while the broker runs; each use reads the current value.

Source: `ShareGroupConfig`, `ShareGroupConfigProvider`, `GroupConfig`, `ShareCoordinatorConfig` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.config.durations import parse_duration_ns
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.protocol.tables.configs import GROUP_CONFIGS
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp

__all__ = ["ShareLimits"]

_NANOSECONDS_PER_MS = 10**6


class ShareLimits:
    """The limits of share groups.

    Args:
        options: broker options; the current values count at each use.
        of_groups: validated configurations of individual groups, keyed by group id and then by Kafka's names.
    """

    def __init__(self, options: BrokerOptions, of_groups: Mapping[str, Mapping[str, str]]) -> None:
        self._options = options
        self._of_groups = of_groups

    # Of all groups.

    @property
    def updates_per_snapshot(self) -> int:
        """The number of updates of a share partition that are stored before the next snapshot."""
        return self._options.share_coordinator_snapshot_update_records_per_snapshot

    @property
    def sessions_max(self) -> int:
        """The maximum number of share sessions."""
        return self._options.group_share_max_share_sessions

    @property
    def size_max(self) -> int:
        """The maximum number of members of a group."""
        return self._options.group_share_max_size

    # Of one group.

    def session_timeout_ms(self, group_id: str) -> int:
        """Return how long a member may go without sending a heartbeat."""
        return self._number(group_id, "share.session.timeout.ms", self._options.group_share_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of the members."""
        return self._number(group_id, "share.heartbeat.interval.ms", self._options.group_share_heartbeat_interval_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return how long changes to a group are collected after an assignment."""
        return self._number(group_id, "share.assignment.interval.ms", self._options.group_share_assignment_interval_ms)

    def lock_duration_ms(self, group_id: str) -> int:
        """Return how long a record stays acquired."""
        return self._number(
            group_id, "share.record.lock.duration.ms", self._options.group_share_record_lock_duration_ms
        )

    def delivery_count_max(self, group_id: str) -> int:
        """Return the maximum number of deliveries of a record."""
        return self._number(group_id, "share.delivery.count.limit", self._options.group_share_delivery_count_limit)

    def record_locks_max(self, group_id: str) -> int:
        """Return how many offsets from the start of a share partition may be in delivery."""
        return self._number(
            group_id, "share.partition.max.record.locks", self._options.group_share_partition_max_record_locks
        )

    def may_renew(self, group_id: str) -> bool:
        """Return whether members may renew the locks of their records."""
        return self._text(group_id, "share.renew.acknowledge.enable").lower() == "true"

    def is_committed(self, group_id: str) -> bool:
        """Return whether the group gets only records of committed transactions."""
        return self._text(group_id, "share.isolation.level") == "read_committed"

    def start_timestamp(self, group_id: str, now_ms: int) -> int:
        """Return where the group begins in a new partition: a timestamp, or a special one of `OffsetTimestamp`."""
        kind, _, duration = self._text(group_id, "share.auto.offset.reset").partition(":")
        if duration:
            # The result is rounded down, as in Kafka, which subtracts nanoseconds.
            return now_ms + -(parse_duration_ns(duration) or 0) // _NANOSECONDS_PER_MS
        return OffsetTimestamp.EARLIEST if kind == "earliest" else OffsetTimestamp.LATEST

    def _number(self, group_id: str, name: str, default: int) -> int:
        own = self._of_groups.get(group_id)
        return default if own is None or name not in own else int(own[name])

    def _text(self, group_id: str, name: str) -> str:
        return self._of_groups.get(group_id, {}).get(name) or GROUP_CONFIGS[name].default or ""
