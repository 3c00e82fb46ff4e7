"""Write acknowledgements as the fewest batches: ranges of offsets with one type for all offsets, or one for each.

Source: Apache Kafka, `Acknowledgements.getAcknowledgementBatches`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

__all__ = ["AcknowledgementRange", "TypedRange", "acknowledgement_batches"]

#: A longer run of one type gets a batch of its own, which has a single type: it is shorter than a type per offset.
_SAME_TYPE_MAX: Final = 10


class TypedRange(Protocol):
    """Consecutive offsets that are acknowledged in the same way."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def type(self) -> int: ...


class AcknowledgementRange(NamedTuple):
    """A batch of acknowledgements.

    Attributes:
        first: the first offset.
        last: the last offset, inclusive.
        types: one type for all offsets, or one for each.
    """

    first: int
    last: int
    types: tuple[int, ...]


def acknowledgement_batches(given: Iterable[TypedRange]) -> list[AcknowledgementRange]:
    """Return acknowledgements as batches, in the order of their offsets.

    Args:
        given: the acknowledgements, in any order; their offsets do not overlap.
    """
    batches: list[AcknowledgementRange] = []
    first, types = 0, list[int]()

    def flush() -> None:
        if types:
            is_same = types.count(types[0]) == len(types)
            shown = (types[0],) if is_same else tuple(types)
            batches.append(AcknowledgementRange(first, first + len(types) - 1, shown))
            types.clear()

    for start, end, type in _runs(given):
        count = end - start + 1
        if count > _SAME_TYPE_MAX:
            flush()
            batches.append(AcknowledgementRange(start, end, (type,)))
            continue
        if start != first + len(types):
            flush()
        if not types:
            first = start
        types += [type] * count
    flush()
    return batches


def _runs(given: Iterable[TypedRange]) -> list[tuple[int, int, int]]:
    """Return (first, last, type) of each longest run of consecutive offsets with one type."""
    runs: list[tuple[int, int, int]] = []
    for each in sorted(given, key=lambda each: each.first):
        if runs and runs[-1][1] + 1 == each.first and runs[-1][2] == each.type:
            runs[-1] = (runs[-1][0], each.last, each.type)
        else:
            runs.append((each.first, each.last, each.type))
    return runs
