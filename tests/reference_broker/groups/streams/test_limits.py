"""A group's own configurations take precedence over the broker's options.

Method: look up each limit with and without configurations.
"""

from __future__ import annotations

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits

NAMES = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "assignment.interval.ms",
    "initial.rebalance.delay.ms",
    "num.standby.replicas",
)


def test_limits() -> None:
    options = {f"group_streams_{name.replace('.', '_')}": number for number, name in enumerate(NAMES, 1)}
    own = {f"streams.{name}": str(number) for number, name in enumerate(NAMES, 11)}
    limits = StreamsLimits(read_options({**options, "group_streams_max_size": 7}), {"own": own, "other": {"x": "1"}})
    for group_id, first in (("own", 11), ("other", 1), ("none", 1)):
        found = (
            limits.session_timeout_ms(group_id),
            limits.heartbeat_interval_ms(group_id),
            limits.assignment_interval_ms(group_id),
            limits.initial_rebalance_delay_ms(group_id),
            limits.standby_replicas(group_id),
        )
        assert found == tuple(range(first, first + 5))
    assert limits.size_max == 7
