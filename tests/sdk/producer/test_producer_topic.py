"""A topic begins unknown, with nothing of it kept."""

from __future__ import annotations

from kafkawire.sdk.producer.producer_topic import ProducerTopic


def test_a_new_topic() -> None:
    first, second = ProducerTopic("first"), ProducerTopic("second")
    assert (first.name, first.partitions, first.queues, list(first.held)) == ("first", 0, {}, [])
    assert [next(first.turns), next(first.turns), next(second.turns)] == [0, 1, 0]
    first.queues[0] = first.held  # type: ignore[assignment]  # each topic has its own
    assert second.queues == {}
