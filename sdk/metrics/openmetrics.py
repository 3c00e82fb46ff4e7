"""Format the metrics of clients as OpenMetrics text, for Prometheus and similar tools.

`producer-metrics` / `record-send-total` becomes `kafka_producer_record_send_total{client_id="…"}`. Totals are counters;
everything else is a gauge.

Source: OpenMetrics 1.0, "Text format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol, runtime_checkable

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.metrics.catalogue import described
from kafkawire.sdk.metrics.names import MetricName

__all__ = ["CONTENT_TYPE", "Measured", "openmetrics"]

#: The content type for the headers of an HTTP response.
CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_TOTAL: Final = "_total"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


@runtime_checkable
class Measured(Protocol):
    """A started client."""

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        ...

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric."""
        ...


def openmetrics(*clients: Measured) -> str:
    """Return the metrics of clients as OpenMetrics text.

    Args:
        clients: started clients; those of the same kind need different values of `client_id`.

    Raises:
        LocalProtocolError: two clients of the same kind have the same `client_id`.
        Closed: a client is not started or is closed.
    """
    families: dict[str, tuple[MetricName, dict[str, float]]] = {}
    for client in clients:
        for metric, value in client.metrics().items():
            name = _family(metric)
            samples = families.setdefault(name, (metric, {}))[1]
            labels = _labels(client.client_id, metric)
            if labels in samples:
                raise LocalProtocolError(f"two clients report {name}{labels}: give each a different client_id")
            samples[labels] = value
    return "\n".join((*_lines(families), "# EOF\n"))


def _lines(families: Mapping[str, tuple[MetricName, Mapping[str, float]]]) -> Iterator[str]:
    for name, (metric, samples) in sorted(families.items()):
        is_counter = name.endswith(_TOTAL)
        family = name.removesuffix(_TOTAL)
        yield f"# TYPE {family} {'counter' if is_counter else 'gauge'}"
        if text := described(metric.group, metric.name):
            yield f"# HELP {family} {_escaped(text)}"
        for labels, value in samples.items():
            yield f"{name}{labels} {'NaN' if value != value else repr(value)}"


def _family(metric: MetricName) -> str:
    group = metric.group.removesuffix("-metrics")
    return _NOT_IN_NAMES.sub("_", f"kafka_{group}_{metric.name}")


def _labels(client_id: str, metric: MetricName) -> str:
    pairs = (("client_id", client_id), *metric.tags)
    written = (f'{_NOT_IN_NAMES.sub("_", key)}="{_escaped(value)}"' for key, value in pairs)
    return "{" + ",".join(written) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
