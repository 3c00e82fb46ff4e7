"""Which tests of the client's integration suite need what the reference broker lacks.

Every test that takes the fixture `either` runs on Apache Kafka and on the reference broker; those named here, by module
and function, run on Apache Kafka alone.
"""

from __future__ import annotations

__all__ = ["LACKING", "is_lacking"]

_PARTITIONS = "topics that grow (CreatePartitions)"

#: What each test needs.
LACKING = {
    "test_consumer_features.py::test_new_partitions_are_read": _PARTITIONS,
    "test_troubles.py::test_new_partitions_are_read": _PARTITIONS,
}


def is_lacking(node_id: str) -> bool:
    """Return whether the reference broker lacks what a test needs, given the test's id."""
    return node_id.rpartition("/")[2] in LACKING
