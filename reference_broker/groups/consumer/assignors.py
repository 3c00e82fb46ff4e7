"""The server-side assignors of KIP-848: `uniform` spreads partitions evenly and moves few, and `range` keeps partitions
with the same number together.

Source: KIP-848; `RangeAssignor` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.consumer.subscribers import Subscribers
from kafkawire.reference_broker.groups.consumer.uniform_assignor import uniform_assignment

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignor", "range_assignment"]


class Assignor(Protocol):
    """Computes the target assignment of each member."""

    def __call__(
        self, members: Subscribers, counts: Mapping[bytes, int], /, *, is_homogeneous: bool
    ) -> dict[str, Partitions]:
        """See `uniform_assignment`."""
        ...


def range_assignment(
    members: Subscribers, counts: Mapping[bytes, int], *, is_homogeneous: bool = False
) -> dict[str, Partitions]:
    """Assign each member a range of each of its topics, with the members in the same order for each topic.

    Args:
        members: the members, keyed by id; static members come first, ordered by instance id.
        counts: the number of partitions of each topic.
        is_homogeneous: has no effect.
    """
    order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))
    assignment: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, count in counts.items():
        wanting = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        start = 0
        for place, member_id in enumerate(wanting):
            end = start + count // len(wanting) + (place < count % len(wanting))
            if end > start:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignment)


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


#: The assignors, keyed by their names in requests.
ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform_assignment, "range": range_assignment}

DEFAULT_ASSIGNOR = "uniform"
