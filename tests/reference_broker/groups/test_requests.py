"""The limits of groups are what the broker's options say; the defaults are Kafka's, apart from two.

Method: options that differ from each other, and the values by name.
"""

from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.options import read_options


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
