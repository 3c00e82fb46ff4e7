"""The limits for groups follow the broker's options; all but two of the defaults are Kafka's.

Only the limit on the size of a member's own data cannot be configured.

Method: set options to distinct values, and check each by name; add a member that just fits, and one that does not.
"""

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.groups.requests import PROTOCOLS_BYTES_MAX, GroupLimits
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import GroupBench, only


def test_limits_are_those_of_the_options():
    given = {
        "group.min.session.timeout.ms": 1,
        "group.max.session.timeout.ms": 2,
        "group.initial.rebalance.delay.ms": 3,
        "group.max.size": 4,
        "group.consumer.session.timeout.ms": 6,
        "group.consumer.heartbeat.interval.ms": 5,
        "group.consumer.max.size": 7,
        "group.consumer.migration.policy": "upgrade",
        "group.consumer.assignment.interval.ms": 8,
        "group.consumer.regex.refresh.interval.ms": 10_001,
        "offsets.retention.minutes": 9,
        "offsets.retention.check.interval.ms": 10,
    }
    assert GroupLimits.of(read_options(given)) == GroupLimits(1, 2, 3, 4, 6, 5, 7, "upgrade", 8, 10_001, 540_000, 10)


def test_defaults():
    most = 2**31 - 1
    times_ms = 600_000, 604_800_000, 600_000
    limits = GroupLimits(1_000, 1_800_000, 0, most, 45_000, 5_000, most, "bidirectional", 1_000, *times_ms)
    assert GroupLimits.of(read_options({})) == limits


def test_a_group_may_have_limits_of_its_own():
    groups = {"g": {"consumer.session.timeout.ms": "50000", "share.session.timeout.ms": "7"}}
    limits = GroupLimits.of(read_options({}), groups)
    assert (limits.consumer_session_timeout_ms("g"), limits.consumer_session_timeout_ms("h")) == (50_000, 45_000)
    assert (limits.consumer_heartbeat_interval_ms("g"), limits.consumer_assignment_interval_ms("g")) == (5_000, 1_000)
    groups["h"] = {"consumer.heartbeat.interval.ms": "6000", "consumer.assignment.interval.ms": "0"}
    assert (limits.consumer_heartbeat_interval_ms("h"), limits.consumer_assignment_interval_ms("h")) == (6_000, 0)


@pytest.mark.parametrize(("more", "code"), [(0, ErrorCode.NONE), (1, ErrorCode.MESSAGE_TOO_LARGE)])
def test_subscriptions_of_a_member_have_a_limit_together(more, code):
    protocols = ("a", b"x" * 1_000), ("b", b"x" * (PROTOCOLS_BYTES_MAX - 1_000 + more))
    assert only(GroupBench().join(protocols=protocols)).error_code == code
