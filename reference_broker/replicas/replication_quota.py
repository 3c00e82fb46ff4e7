"""Quotas for throttled replication: which replicas are throttled, how much they have moved, and whether to slow down.

A broker has one quota for fetching as a follower and one for sending as a leader. While a quota is exceeded, throttled
replicas that are not in sync get no records, so that moving replicas leaves bandwidth for others. Replicas that are in
sync count towards the quota but are not held back, so they stay in sync. A state machine without I/O.

Source: `ReplicationQuotaManager`, `SimpleRate`, `TopicConfigHandler`, `BrokerConfigHandler` in Apache Kafka; KIP-73.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

from kafkawire.reference_broker.config.config_values import parse_integer, trimmed
from kafkawire.sdk.protocol.tables.configs import RUNNING_BROKER_CONFIGS
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["ALL_PARTITIONS", "ReplicationQuota", "ReplicationQuotas", "throttled_partitions"]

_log = logging.getLogger("kafkawire.broker")

#: Stands for all partitions of a topic, in place of their numbers.
ALL_PARTITIONS: Final = None

#: The value that stands for all replicas of a topic.
_ALL_REPLICAS: Final = "*"

_NO_PARTITIONS: Final[frozenset[int]] = frozenset()


def throttled_partitions(value: str, broker_id: int) -> Collection[int] | None:
    """Return the partitions whose replicas on a broker are throttled, or `ALL_PARTITIONS`.

    Args:
        value: a valid value of `follower.replication.throttled.replicas`, or of `leader.…`: `*`, or the partition and
            the broker of each replica, as in `0:101,1:101`.
        broker_id: the broker.
    """
    if value.strip() == _ALL_REPLICAS:
        return ALL_PARTITIONS
    pairs = [each.split(":") for each in value.split(",") if each.strip()]
    return frozenset(int(number) for number, replica in pairs if int(replica) == broker_id)


class ReplicationQuota:
    """A quota in one direction.

    Args:
        samples: the number of samples over which the rate is measured, `replication.quota.window.num`.
        sample_ms: the duration of a sample, `replication.quota.window.size.seconds`.

    Attributes:
        bytes_per_second: the limit, such as `follower.replication.throttled.rate`; None for no limit.
        changes: how many times the set of throttled partitions has changed; fetchers compare it to notice changes.
    """

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.bytes_per_second: int | None = None
        self.changes = 0
        self._sample_ms = sample_ms
        self._lasts_ms = samples * sample_ms
        self._throttled: dict[str, Collection[int] | None] = {}
        #: The start of each sample and the number of bytes in it.
        self._samples: deque[tuple[int, int]] = deque()
        self._size_bytes = 0

    def throttle(self, topic: str, partitions: Collection[int] | None) -> None:
        """Set the throttled partitions of a topic.

        Args:
            topic: its name.
            partitions: the partition numbers, or `ALL_PARTITIONS`; empty for none.
        """
        after = None if partitions is None else frozenset(partitions)
        if after == self._throttled.get(topic, _NO_PARTITIONS):
            return
        if after == _NO_PARTITIONS:
            del self._throttled[topic]
        else:
            self._throttled[topic] = after
        self.changes += 1

    def is_throttled(self, partition: Partition) -> bool:
        """Return whether the replica of a partition on this broker is throttled."""
        topic, number = partition
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or number in partitions

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes moved for a throttled partition."""
        self._expire(now_ms)
        if self._samples and now_ms < self._samples[-1][0] + self._sample_ms:
            start_ms, before_bytes = self._samples.pop()
            self._samples.append((start_ms, before_bytes + size_bytes))
        else:
            self._samples.append((now_ms, size_bytes))
        self._size_bytes += size_bytes

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether throttled partitions have moved more bytes than the limit allows."""
        self._expire(now_ms)
        if self.bytes_per_second is None or not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0][0], self._sample_ms)
        return self._size_bytes * 1_000 > self.bytes_per_second * elapsed_ms

    def free_ms(self, now_ms: int) -> int:
        """Return when the quota will no longer be exceeded if no more bytes are counted."""
        if not self.is_exceeded(now_ms):
            return now_ms
        start_ms = self._samples[0][0]
        expires_ms = start_ms + self._lasts_ms
        if not self.bytes_per_second:
            return expires_ms
        return min(start_ms - (-self._size_bytes * 1_000 // self.bytes_per_second), expires_ms)

    def _expire(self, now_ms: int) -> None:
        while self._samples and now_ms >= self._samples[0][0] + self._lasts_ms:
            self._size_bytes -= self._samples.popleft()[1]


class ReplicationQuotas:
    """The quotas of a broker.

    Args:
        broker_id: the broker.
        samples: see `ReplicationQuota`.
        sample_ms: see `ReplicationQuota`.

    Attributes:
        leader: the quota on what this broker sends to followers.
        follower: the quota on what this broker fetches.
    """

    def __init__(self, broker_id: int, samples: int, sample_ms: int) -> None:
        self.leader = ReplicationQuota(samples, sample_ms)
        self.follower = ReplicationQuota(samples, sample_ms)
        self._broker_id = broker_id
        self._sides = {"leader": self.leader, "follower": self.follower}

    def configure_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set which partitions of a topic are throttled.

        Args:
            topic: its name.
            configs: the topic's configurations, keyed by Kafka's names; empty for a deleted topic.
        """
        for side, quota in self._sides.items():
            value = configs.get(f"{side}.replication.throttled.replicas", "")
            quota.throttle(topic, throttled_partitions(value, self._broker_id))

    def configure_broker(self, own: Mapping[str, str], of_all: Mapping[str, str]) -> None:
        """Set the rates; a broker's own rates take precedence. The startup configuration contains no rates.

        Args:
            own: the dynamic configurations of this broker, keyed by Kafka's names.
            of_all: the dynamic configurations that apply to all brokers.
        """
        for side, quota in self._sides.items():
            name = f"{side}.replication.throttled.rate"
            value = own.get(name, of_all.get(name, RUNNING_BROKER_CONFIGS[name].default or ""))
            rate = parse_integer(trimmed(value))
            if rate is None or rate < 0:
                _log.error(
                    "a configuration of the broker has no effect: %s must be an integer of 0 or higher, got %r",
                    name,
                    value,
                )
            else:
                quota.bytes_per_second = None if value == RUNNING_BROKER_CONFIGS[name].default else rate
