"""The latest values of the metrics that one client has pushed.

Clients push sums as changes since their last push; these are added up here. The memory of all clients together is
limited: a value for which there is no room is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkawire.reference_broker.telemetry.otlp import Labels, MetricPoint

__all__ = ["KEPT_BYTES_MAX", "ClientSample", "LatestValues", "Room"]

#: Maximum memory for the values of all clients: those of a few hundred clients with some hundred metrics each.
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024

#: What a value takes in addition to its texts.
_VALUE_BYTES: Final = 400
_LABEL_BYTES: Final = 120


class ClientSample(NamedTuple):
    """The latest value of a client's metric.

    Attributes:
        name: the metric's name, such as `org.apache.kafka.producer.record.queue.time.avg`.
        labels: the attributes of the client and of the value, sorted by name.
        value: the value; of a sum, since the client's first push.
        is_counter: whether the value only increases.
        time_ms: the client's time of the value, in ms since the epoch; 0 if it is unknown.
    """

    name: str
    labels: Labels
    value: float
    is_counter: bool
    time_ms: int


class Room:
    """The memory that the values of all clients share.

    Attributes:
        left_bytes: the unused part of it.
    """

    def __init__(self, size_bytes: int = KEPT_BYTES_MAX) -> None:
        self.left_bytes = size_bytes


class LatestValues:
    """The latest values of a client.

    Args:
        room: the memory for the values of all clients.

    Attributes:
        dropped: the number of values for which there was no room.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held_bytes = 0
        self._samples: dict[tuple[str, Labels], ClientSample] = {}
        self.dropped = 0

    def take(self, point: MetricPoint) -> None:
        """Keep a value in place of the last one, or add it to that."""
        key = point.name, point.labels
        before = self._samples.get(key)
        if before is None:
            size_bytes = _size_bytes(point)
            if size_bytes > self._room.left_bytes:
                self.dropped += 1
                return
            self._room.left_bytes -= size_bytes
            self._held_bytes += size_bytes
        value = point.value + (before.value if before is not None and point.is_delta else 0)
        self._samples[key] = ClientSample(point.name, point.labels, value, point.is_counter, point.time_ms)

    def clear(self) -> None:
        """Drop all values, because the client is gone."""
        self._room.left_bytes += self._held_bytes
        self._held_bytes = 0
        self._samples.clear()

    def __iter__(self) -> Iterator[ClientSample]:
        return iter(self._samples.values())


def _size_bytes(point: MetricPoint) -> int:
    texts = sum(len(name) + len(value) + _LABEL_BYTES for name, value in point.labels)
    return _VALUE_BYTES + len(point.name) + texts
