"""Descriptions of share groups are plain values."""

from __future__ import annotations

from kafkawire import ShareGroupDescription, ShareMemberDescription, SharePartitionOffset, TopicPartition


def test_values() -> None:
    member = ShareMemberDescription("m", None, "me", "/127.0.0.1", ("t",), (TopicPartition("t", 0),), 3)
    group = ShareGroupDescription("g", "Stable", "simple", (member,), 3, 3)
    assert group.authorized_operations is None
    assert group.members[0].assignment == (TopicPartition("t", 0),)
    assert SharePartitionOffset(5, None, None) == (5, None, None)
