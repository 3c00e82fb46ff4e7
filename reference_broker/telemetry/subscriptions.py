"""The subscriptions of operators to metrics of clients: `client-metrics` configurations.

    kafka-client-metrics.sh --alter --name slow --metrics org.apache.kafka.producer. --interval 60000 \\
        --match client_id=shop-.*,client_software_name=librdkafka

A client pushes the metrics of all subscriptions that match it, at the shortest of their intervals. Expressions are
matched in time that is linear in the length of the client's attribute (`patterns/`), and in slices.

Source: KIP-714; Apache Kafka, `ClientMetricsConfigs`, `ClientMetricsManager`, `ClientMetricsInstanceMetadata`.
"""

from __future__ import annotations

import logging
import string
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.config_values import entries_of, parse_integer, trimmed
from kafkawire.reference_broker.patterns.pattern_characters import Characters
from kafkawire.reference_broker.patterns.topic_pattern import TopicPattern
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.java_order import java_order, string_hash
from kafkawire.sdk.protocol.tables.configs import CLIENT_METRICS_CONFIGS
from kafkawire.sdk.records import crc32c

__all__ = ["ALL_METRICS", "Attributes", "Subscriptions", "Wanted", "subscription_id"]

_log = logging.getLogger("kafkawire.broker")

#: The prefix that stands for all metrics.
ALL_METRICS: Final = "*"

#: The attributes of a client by the names that subscriptions use; None if an attribute is unknown.
Attributes = Mapping[str, str | None]

_METRICS, _INTERVAL, _MATCH = "metrics", "interval.ms", "match"

_INTERVAL_MS: Final = int(CLIENT_METRICS_CONFIGS[_INTERVAL].default or 0)

#: The characters of nearly all attributes; expressions for these are kept.
_USUAL: Final = frozenset(string.printable)
_USUAL_CHARACTERS: Final = Characters(_USUAL)

_INT32: Final = 0xFFFFFFFF


class Wanted(NamedTuple):
    """What a client is asked to push.

    Attributes:
        metrics: prefixes of the metrics' names, in the order of Kafka's hash tables.
        interval_ms: the time between two pushes.
    """

    metrics: tuple[str, ...]
    interval_ms: int


class _Subscription:
    """A subscription.

    Args:
        name: its name.
        configs: its configurations, which have been checked.
    """

    def __init__(self, name: str, configs: Mapping[str, str]) -> None:
        self._name = name
        self.metrics = frozenset(entries_of(configs.get(_METRICS, "")))
        interval_ms = parse_integer(trimmed(configs.get(_INTERVAL, "")))
        self.interval_ms = _INTERVAL_MS if interval_ms is None else interval_ms
        #: The expression for each attribute; of several for the same one, the last.
        self._expressions: dict[str, str] = {}
        for entry in entries_of(configs.get(_MATCH, "")):
            attribute, _, expression = entry.partition("=")
            self._expressions[trimmed(attribute)] = trimmed(expression)
        #: For each attribute, the expression for usual characters; None if it cannot be used.
        self._patterns = {
            attribute: self._pattern(expression, _USUAL_CHARACTERS)
            for attribute, expression in self._expressions.items()
        }

    def matches(self, attributes: Attributes) -> Work[bool]:
        """Return whether all expressions match a client."""
        for attribute, expression in self._expressions.items():
            value, pattern = attributes.get(attribute), self._patterns[attribute]
            if value is not None and not _USUAL.issuperset(value):
                pattern = self._pattern(expression, Characters(_USUAL | set(value)))
            if value is None or pattern is None or not (yield from pattern.matching((value,))):
                return False
        return True

    def _pattern(self, expression: str, characters: Characters) -> TopicPattern | None:
        try:
            return TopicPattern(expression, characters)
        except BrokerError:  # Java's expressions can do more than those that can be matched in linear time
            text = "the client metrics subscription %s matches no client: its expression %.100r is not supported"
            _log.warning(text, self._name, expression)
            return None


class Subscriptions:
    """All subscriptions.

    Args:
        configs: their configurations, keyed by name.

    Attributes:
        version: incremented by every change.
    """

    def __init__(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        self.version = 0
        self._subscriptions = {name: _Subscription(name, each) for name, each in configs.items()}

    def change(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configurations of a subscription; without any, the subscription ends."""
        self.version += 1
        if configs:
            self._subscriptions[name] = _Subscription(name, configs)
        else:
            self._subscriptions.pop(name, None)

    def wanted(self, attributes: Attributes) -> Work[Wanted]:
        """Return what a client is asked to push."""
        metrics: dict[str, None] = {}
        interval_ms = _INTERVAL_MS
        for subscription in [*self._subscriptions.values()]:
            if (yield from subscription.matches(attributes)):
                metrics.update(dict.fromkeys(_in_java_order(subscription.metrics)))
                interval_ms = min(interval_ms, subscription.interval_ms)
            yield
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS: None}
        return Wanted(tuple(_in_java_order(metrics)), interval_ms)


def subscription_id(wanted: Wanted, client_instance_id: bytes) -> int:
    """Return the id by which client and broker know that a subscription is still the same, as Kafka computes it."""
    text = f"[{', '.join(wanted.metrics)}]{wanted.interval_ms}"
    words = (int.from_bytes(client_instance_id[place : place + 4], "big") for place in range(0, 16, 4))
    found = crc32c(text.encode()) & _INT32
    for word in words:
        found ^= word
    return found - (1 << 32) if found >> 31 else found


def _in_java_order(names: Iterable[str]) -> list[str]:
    return java_order(list(names), string_hash)
