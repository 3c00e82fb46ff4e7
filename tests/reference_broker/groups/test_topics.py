"""What is known of topics."""

from __future__ import annotations

from kafkawire.reference_broker.groups.topics import TopicFacts, metadata_hash


def test_the_hash_changes_with_the_topics():
    topics = {"t": TopicFacts(b"t" * 16, 3), "u": TopicFacts(b"u" * 16, 1)}
    first = metadata_hash(["t", "u", "gone"], topics)
    assert first == metadata_hash({"u", "t"}, topics)
    assert metadata_hash(["gone"], topics) == metadata_hash([], topics) == 0
    assert first != metadata_hash(["t"], topics)
    topics["t"] = TopicFacts(b"t" * 16, 4)
    assert first != metadata_hash(["t", "u"], topics)
