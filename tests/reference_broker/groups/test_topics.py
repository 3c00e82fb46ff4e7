"""What is known of topics."""

from __future__ import annotations

from kafkawire.reference_broker.groups.topics import TopicFacts, Topics


def test_facts_are_an_id_and_a_count():
    topics: Topics = {"t": TopicFacts(b"t" * 16, 3)}
    assert topics["t"].partitions == 3
