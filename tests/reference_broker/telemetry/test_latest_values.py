"""The latest values are kept, changes are added up, and all clients together take a limited amount of memory.

Method: store values of two clients in little memory.
"""

from __future__ import annotations

from typing import Any

from kafkawire.reference_broker.telemetry.latest_values import ClientSample, LatestValues, Room
from kafkawire.reference_broker.telemetry.otlp import MetricPoint


def point(
    name: str = "m", value: float = 1.0, time_ms: int = 1, *, is_delta: bool = False, **labels: str
) -> MetricPoint:
    return MetricPoint(name, tuple(sorted(labels.items())), value, is_delta, is_delta, time_ms)


def test_the_last_value_counts() -> None:
    values = LatestValues(Room())
    for value in (1.0, 5.0, 2.0):
        values.take(point(value=value, time_ms=int(value), topic="t"))
    values.take(point(value=9.0, topic="u"))
    assert [*values] == [
        ClientSample("m", (("topic", "t"),), 2.0, False, 2),
        ClientSample("m", (("topic", "u"),), 9.0, False, 1),
    ]


def test_changes_are_added_up() -> None:
    values = LatestValues(Room())
    for time_ms, value in enumerate((1.0, 5.0, 2.0)):
        values.take(point(value=value, time_ms=time_ms, is_delta=True))
    assert [*values] == [ClientSample("m", (), 8.0, True, 2)]


def test_clients_share_the_room() -> None:
    room = Room(2_000)
    one, other = LatestValues(room), LatestValues(room)
    for number in range(3):
        one.take(point(f"m{number}"))
        other.take(point(f"m{number}"))
    assert (len([*one]), len([*other])) == (2, 2)
    assert (one.dropped, other.dropped) == (1, 1)
    one.take(point("m0", 7.0))
    assert (next(iter(one)).value, one.dropped) == (7.0, 1), "a value that is known needs no more room"
    one.clear()
    assert [*one] == []
    other.take(point("m2"))
    assert len([*other]) == 3
    other.clear()
    other.clear()
    assert room.left_bytes == 2_000


def test_long_texts_take_more_room() -> None:
    room = Room(2_000)
    values = LatestValues(room)
    labels: dict[str, Any] = {f"l{number}": "" for number in range(20)}
    for each in (point("n" * 2_000), point(label="v" * 2_000), point(**labels)):
        values.take(each)
    assert ([*values], values.dropped, room.left_bytes) == ([], 3, 2_000)
