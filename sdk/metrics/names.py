"""The names of metrics, and the type of functions that receive metrics."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["MetricName", "MetricsReporter", "Tags"]

Tags = tuple[tuple[str, str], ...]


class MetricName(NamedTuple):
    """The name of a metric.

    Attributes:
        group: as in Kafka's clients, for example `producer-metrics`.
        name: as in Kafka's clients, for example `record-send-rate`.
        tags: the subject, such as (("topic", "orders"),); empty for the client as a whole.
    """

    group: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()


#: Receives all metrics of a client.
MetricsReporter = Callable[[Mapping[MetricName, float]], object]
