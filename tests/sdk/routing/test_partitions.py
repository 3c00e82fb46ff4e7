"""Partitions are printed as Kafka names their folders, and are sorted by topic, then by number."""

from __future__ import annotations

from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


def test_text_and_order() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 9)]
    assert [str(each) for each in sorted(partitions)] == ["a-9", "a-10", "b-1"]


def test_values() -> None:
    assert OffsetAndMetadata(5) == (5, "", -1)
    assert OffsetAndTimestamp(5, 7) == (5, 7, -1)
