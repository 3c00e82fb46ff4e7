"""Assignors: how the leader of a classic group assigns partitions to its members.

Each one is loaded on first use: a consumer rarely uses more than two of them, and many consumers use none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final, cast

from kafkawire.sdk.groups.assignor import (
    Assignment,
    Assignor,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
)

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "PartitionCounts", "ReplicaRacks", "Subscriptions"]

#: The module and class of each assignor.
_HOMES: Final = {
    "range": ("range", "RangeAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinAssignor"),
    "sticky": ("sticky", "StickyAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}


class _Assignors(Mapping[str, Assignor]):
    """The assignors, keyed by name."""

    def __getitem__(self, name: str) -> Assignor:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


@cache
def _load(name: str) -> Assignor:
    module, kind = _HOMES[name]
    return cast("Assignor", getattr(import_module(f"{__name__}.{module}"), kind)())


#: Every assignor, keyed by name. Each gives exactly the same results as its counterpart in Apache Kafka.
ASSIGNORS: Final[Mapping[str, Assignor]] = _Assignors()
