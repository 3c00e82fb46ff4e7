"""The metrics of one client: sensors that record values, and gauges that are computed when they are read.

Recording a value takes up to a microsecond, so machines record values per batch and per request, never per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.metrics.catalogue import CLIENT, METRICS, NODE, Family, Stat
from kafkawire.sdk.metrics.names import MetricName, Tags
from kafkawire.sdk.metrics.sensor import Sensor

__all__ = ["SENSORS_MAX", "Registry"]

#: The maximum number of sensors of one client. It limits per-topic and per-broker metrics for a client that uses
#: thousands of topics or brokers; metrics without tags still count everything.
SENSORS_MAX: Final = 2_000

_HOUR_SECONDS: Final = 3_600

#: The beginnings of group names that differ from the kind of client. As in Kafka's clients, a share consumer's
#: connections and requests are counted under the names of a consumer's.
_PREFIXES: Final[Mapping[str, str]] = {"share-consumer": "consumer"}


class Registry:
    """The metrics of one client.

    Args:
        kind: the kind of client: `producer`, `consumer`, `share-consumer` or `admin-client`.
    """

    def __init__(self, kind: str) -> None:
        self._prefix = _PREFIXES.get(kind, kind)
        self._sensors: dict[tuple[str, str, Tags], Sensor] = {}
        self._gauges: dict[MetricName, Callable[[int], float]] = {}
        self._sources: list[Callable[[int], Iterable[tuple[MetricName, float]]]] = []

    def sensor(self, group: str, *stems: str, tags: Tags = ()) -> Sensor:
        """Return the sensor shared by some families; calls with the same arguments return the same sensor.

        Args:
            group: see `catalogue`.
            stems: the stems of the families.
            tags: the sensor's tags.
        """
        key = (group, stems[0], tags)
        sensor = self._sensors.get(key)
        if sensor is None:
            sensor = Sensor()
            if len(self._sensors) < SENSORS_MAX:
                self._sensors[key] = sensor
                for stem in stems:
                    self._show(METRICS[group, stem, tuple(name for name, _ in tags)], sensor, tags)
        return sensor

    def gauge(self, group: str, stem: str, read: Callable[[int], float]) -> None:
        """Register a value that is computed when it is read; `read` takes the time, and can run on any thread."""
        if METRICS[group, stem, ()].stats != (Stat.GAUGE,):
            raise LocalProtocolError(f"{stem} of {group} is not a gauge")
        self._gauges[MetricName(self._group(group), stem)] = read

    def source(self, read: Callable[[int], Iterable[tuple[MetricName, float]]]) -> None:
        """Register several values that are computed when they are read, for example one per partition."""
        self._sources.append(read)

    def read(self, now_ms: int) -> Mapping[MetricName, float]:
        """Return the current value of every metric."""
        found = {name: float(read(now_ms)) for name, read in list(self._gauges.items())}
        for source in self._sources:
            found.update((name, float(value)) for name, value in source(now_ms))
        return found

    def _group(self, group: str) -> str:
        return f"{self._prefix}{group}" if group in (CLIENT, NODE) else group

    def _show(self, family: Family, sensor: Sensor, tags: Tags) -> None:
        counted = family.counts
        readers: dict[Stat, Callable[[int], float]] = {
            Stat.RATE: sensor.count_rate if counted else sensor.rate,
            Stat.TOTAL: lambda _: sensor.count if counted else sensor.total,
            Stat.AVERAGE: sensor.average,
            Stat.MAXIMUM: sensor.maximum,
            Stat.PER_HOUR: lambda now_ms: sensor.count_rate(now_ms) * _HOUR_SECONDS,
        }
        for stat, name in family.names():
            self._gauges[MetricName(self._group(family.group), name, tags)] = readers[stat]
