"""Cases in which a log rolls by age or index size; `test_rolling.py` checks them on Apache Kafka 4.3.0.

Method: list, for each topic configuration, the timestamps of the records in each batch and the resulting segments.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CASES", "START_MS", "Rolled"]

START_MS = 1_700_000_000_000

#: A configuration that allows any timestamp in the future.
_FUTURE = {"message.timestamp.after.max.ms": str(2**63 - 1)}
_BY_AGE = {"segment.ms": "100000", **_FUTURE}
_BY_APPEND_TIME = {**_BY_AGE, "message.timestamp.type": "LogAppendTime"}
_BY_INDEX = {"index.interval.bytes": "0", **_FUTURE}


class Rolled(NamedTuple):
    """Batches that arrive within a short time, and the resulting segments.

    Attributes:
        configs: the configurations of the topic.
        batches: the timestamps of the records in each batch.
        bases: the base offsets of the segments.
    """

    configs: dict[str, str]
    batches: tuple[tuple[int, ...], ...]
    bases: list[int]


def _at(*after_ms: int | tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return batches with times after the start: a number stands for a batch of one record, a tuple for more."""
    batches = (each if isinstance(each, tuple) else (each,) for each in after_ms)
    return tuple(tuple(START_MS + ms for ms in batch) for batch in batches)


CASES = [
    Rolled(_BY_AGE, _at(0, 100_000, 100_001), [0, 2]),
    Rolled(_BY_AGE, _at(0, -500_000, 100_001), [0, 2]),
    Rolled(_BY_AGE, _at(10**10, 0, 0), [0]),
    Rolled(_BY_AGE, ((START_MS,), (-1,), (-1,)), [0]),
    Rolled(_BY_AGE, ((-1,), *_at(0, 10**9, 0)), [0]),
    Rolled(_BY_AGE, _at((0, 100_001), 100_002, 200_002), [0, 3]),
    Rolled(_BY_AGE, _at((5000, 0), 100_001, 105_001), [0, 3]),
    Rolled(_BY_AGE, ((0,), (100_001,)), [0, 1]),
    Rolled(_BY_AGE, (*_at(0, 100_001, 0, 200_001, 200_002), (5,)), [0, 1, 4]),
    Rolled(_BY_APPEND_TIME, _at(0, 10**10, 0), [0]),
    Rolled({"segment.index.bytes": "40", **_BY_INDEX}, _at(*[0] * 12), [0, 6]),
    Rolled({"segment.index.bytes": "40", **_BY_INDEX}, _at(*range(12)), [0, 3, 6, 9]),
    Rolled({"segment.index.bytes": "40", **_BY_INDEX}, _at(*range(12, 0, -1)), [0, 6]),
    Rolled({"segment.index.bytes": "24", **_BY_INDEX}, _at(*range(12)), [0, 2, 4, 6, 8, 10]),
    Rolled({"segment.index.bytes": "12", **_BY_INDEX}, _at(*range(4)), [0, 1, 2, 3]),
]
