"""The default limits of groups are Kafka's, apart from the initial delay.

Method: the values are named.
"""

from kafkawire.reference_broker.groups.requests import GroupLimits


def test_defaults():
    limits = GroupLimits()
    assert (limits.group_min_session_timeout_ms, limits.group_max_session_timeout_ms) == (6_000, 1_800_000)
    assert (limits.offsets_retention_ms, limits.offsets_retention_check_interval_ms) == (604_800_000, 600_000)
    assert (limits.group_initial_rebalance_delay_ms, limits.group_max_size) == (0, 2**31 - 1)
    assert (limits.group_consumer_session_timeout_ms, limits.group_consumer_heartbeat_interval_ms) == (45_000, 5_000)
    assert (limits.group_consumer_max_size, limits.group_consumer_migration_policy) == (2**31 - 1, "bidirectional")
    assert limits.group_consumer_assignment_interval_ms == 0
