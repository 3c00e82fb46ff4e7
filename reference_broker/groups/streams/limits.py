"""The limits of streams groups: those in the broker's options, and those of individual groups.

Source: `GroupCoordinatorConfig`, `GroupConfig` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.config.options import BrokerOptions

__all__ = ["StreamsLimits"]


class StreamsLimits:
    """The limits of streams groups.

    Args:
        options: broker options; the current values count at each use.
        of_groups: validated configurations of individual groups, keyed by group id and then by Kafka's names.
    """

    def __init__(self, options: BrokerOptions, of_groups: Mapping[str, Mapping[str, str]]) -> None:
        self._options = options
        self._of_groups = of_groups

    @property
    def size_max(self) -> int:
        """The maximum number of members of a group."""
        return self._options.group_streams_max_size

    def session_timeout_ms(self, group_id: str) -> int:
        """Return how long a member may go without sending a heartbeat."""
        return self._number(group_id, "streams.session.timeout.ms", self._options.group_streams_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of the members."""
        return self._number(
            group_id, "streams.heartbeat.interval.ms", self._options.group_streams_heartbeat_interval_ms
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return how long changes to a group are collected after an assignment."""
        return self._number(
            group_id, "streams.assignment.interval.ms", self._options.group_streams_assignment_interval_ms
        )

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        """Return how long the first assignment of an empty group waits for more members."""
        return self._number(
            group_id, "streams.initial.rebalance.delay.ms", self._options.group_streams_initial_rebalance_delay_ms
        )

    def standby_replicas(self, group_id: str) -> int:
        """Return how many standby tasks each stateful task has."""
        return self._number(group_id, "streams.num.standby.replicas", self._options.group_streams_num_standby_replicas)

    def _number(self, group_id: str, name: str, default: int) -> int:
        own = self._of_groups.get(group_id)
        return default if own is None or name not in own else int(own[name])
