"""The limits of a group are those of the broker unless the group has its own.

Method: read limits with made-up options and configurations.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from tests.reference_broker.shares.share_partition_bench import new_limits


@pytest.mark.parametrize(
    ("name", "option", "config"),
    [
        (ShareLimits.session_timeout_ms, "group_share_session_timeout_ms", "share.session.timeout.ms"),
        (ShareLimits.heartbeat_interval_ms, "group_share_heartbeat_interval_ms", "share.heartbeat.interval.ms"),
        (ShareLimits.assignment_interval_ms, "group_share_assignment_interval_ms", "share.assignment.interval.ms"),
        (ShareLimits.lock_duration_ms, "group_share_record_lock_duration_ms", "share.record.lock.duration.ms"),
        (ShareLimits.delivery_count_max, "group_share_delivery_count_limit", "share.delivery.count.limit"),
        (ShareLimits.record_locks_max, "group_share_partition_max_record_locks", "share.partition.max.record.locks"),
    ],
)
def test_limits_of_groups(name, option, config):
    value = 7 if name is ShareLimits.delivery_count_max else 5_000
    limits = new_limits({config: "4321"}, **{option: value})
    assert (name(limits, "g"), name(limits, "other")) == (4321, value)


def test_limits_of_the_broker():
    limits = new_limits(
        group_share_max_size=17,
        group_share_max_share_sessions=18,
        share_coordinator_snapshot_update_records_per_snapshot=19,
    )
    assert (limits.size_max, limits.sessions_max, limits.updates_per_snapshot) == (17, 18, 19)


def test_choices_of_groups():
    limits = new_limits({"share.renew.acknowledge.enable": "False", "share.isolation.level": "read_committed"})
    assert (limits.may_renew("g"), limits.may_renew("other")) == (False, True)
    assert (limits.is_committed("g"), limits.is_committed("other")) == (True, False)


@pytest.mark.parametrize(
    ("reset", "timestamp"),
    [
        ("latest", OffsetTimestamp.LATEST),
        ("earliest", OffsetTimestamp.EARLIEST),
        ("by_duration:PT1H", 10**12 - 3_600_000),
        ("by_duration:PT1.001S", 10**12 - 1_001),
        ("by_duration:PT0.0001S", 10**12 - 1),
        ("by_duration:PT0S", 10**12),
    ],
)
def test_where_a_group_begins(reset, timestamp):
    assert new_limits({"share.auto.offset.reset": reset}).start_timestamp("g", 10**12) == timestamp
    assert new_limits().start_timestamp("g", 10**12) == OffsetTimestamp.LATEST
