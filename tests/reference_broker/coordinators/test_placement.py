"""A group's partition is the one that Kafka computes.

Method: values of Java's `String.hashCode`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.placement import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("\U0001f600", 1772899), ("ä", 228), ("polygenelubricants", -(2**31))],
)
def test_java_hash(text, code):
    assert java_hash(text) == code


@pytest.mark.parametrize(
    ("group_id", "partitions", "partition"), [("hello", 50, 22), ("polygenelubricants", 50, 0), ("a", 1, 0)]
)
def test_partition_of(group_id, partitions, partition):
    assert partition_of(group_id, partitions) == partition
