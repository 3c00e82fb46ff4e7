"""Durations, counted in buckets; counting one takes a binary search among a few bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from kafkawire.reference_broker.metrics.exposition import Sample

__all__ = ["BOUNDS_SECONDS", "NS_PER_SECOND", "Histogram"]

NS_PER_SECOND: Final = 1_000_000_000

#: From a small request on an idle broker to a client's usual request timeout.
BOUNDS_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)

_BOUNDS_NS: Final = tuple(round(bound * NS_PER_SECOND) for bound in BOUNDS_SECONDS)


class Histogram:
    """The distribution of durations since the start.

    Attributes:
        sum_ns: the sum of all durations.
    """

    __slots__ = ("_buckets", "sum_ns")

    def __init__(self) -> None:
        self._buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def add(self, time_ns: int) -> None:
        """Count a duration."""
        self._buckets[bisect_left(_BOUNDS_NS, time_ns)] += 1
        self.sum_ns += time_ns

    def samples(self, *labels: str) -> Iterator[Sample]:
        """Yield the samples: each bucket counts the durations up to its bound."""
        count = 0
        for bound, found in zip((*BOUNDS_SECONDS, float("inf")), self._buckets, strict=True):
            count += found
            yield Sample(count, labels, "_bucket", bound)
        yield Sample(count, labels, "_count")
        yield Sample(self.sum_ns / NS_PER_SECOND, labels, "_sum")
