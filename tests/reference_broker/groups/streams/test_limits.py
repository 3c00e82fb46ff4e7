"""A group's own configurations take precedence over the broker's options.

Method: look up each limit with and without configurations.
"""

from __future__ import annotations

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits

#: Values of the broker's options, and of a group's own configurations.
VALUES = {
    "session.timeout.ms": (30, 130),
    "heartbeat.interval.ms": (2, 102),
    "assignment.interval.ms": (3, 103),
    "initial.rebalance.delay.ms": (4, 104),
    "num.standby.replicas": (1, 2),
}


def test_limits() -> None:
    options = {f"group_streams_{name.replace('.', '_')}": value for name, (value, _) in VALUES.items()}
    own = {f"streams.{name}": str(value) for name, (_, value) in VALUES.items()}
    limits = StreamsLimits(read_options({**options, "group_streams_max_size": 7}), {"own": own, "other": {"x": "1"}})
    for group_id, place in (("own", 1), ("other", 0), ("none", 0)):
        found = (
            limits.session_timeout_ms(group_id),
            limits.heartbeat_interval_ms(group_id),
            limits.assignment_interval_ms(group_id),
            limits.initial_rebalance_delay_ms(group_id),
            limits.standby_replicas(group_id),
        )
        assert found == tuple(values[place] for values in VALUES.values())
    assert limits.size_max == 7
