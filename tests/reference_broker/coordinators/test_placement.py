"""A group is placed in the same partition as in Kafka.

Method: place ids whose hash codes are positive, negative, and the smallest int32.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.placement import partition_of


@pytest.mark.parametrize(
    ("group_id", "partitions", "partition"),
    [("hello", 50, 22), ("my-group", 50, 12), ("polygenelubricants", 50, 0), ("a", 1, 0)],
)
def test_partition_of(group_id, partitions, partition):
    assert partition_of(group_id, partitions) == partition
