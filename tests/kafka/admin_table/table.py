"""The table of administrators' cases, and the differences that are right."""

from __future__ import annotations

from typing import NamedTuple

from tests.kafka.admin_table import topics

__all__ = ["EXPLAINED", "SCENES", "Explained"]

SCENES = [*topics.SCENES]


class Explained(NamedTuple):
    """A difference that is right.

    Attributes:
        reason: why the reference broker does not do what Kafka does.
        theirs: what only Kafka's outcome has.
        ours: what only the reference broker's outcome has.
    """

    reason: str
    theirs: str
    ours: str


#: The differences, keyed by the names of the scene and the case.
EXPLAINED: dict[tuple[str, str], Explained] = {}
