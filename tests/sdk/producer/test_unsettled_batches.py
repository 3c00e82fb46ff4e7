"""Unsettled batches are found by outcome and, unless they have ended, by deadline."""

from __future__ import annotations

import gc

from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.sender import UnsettledBatches, outcome_of
from kafkawire.sdk.routing.partitions import TopicPartition


def held(deadline_ms: int) -> Held:
    record = Held("t", None, b"v", (), None, 0, 10)
    record.outcome = Outcome(TopicPartition("t", -1))
    record.deadline_ms = deadline_ms
    return record


def test_deadlines() -> None:
    unsettled = UnsettledBatches()
    late, early, ended = held(30), held(10), held(20)
    for item in (late, early, ended):
        unsettled.add(item)
    assert list(unsettled.items.values()) == [late, early, ended]
    unsettled.discard(outcome_of(ended))
    unsettled.discard(outcome_of(ended))
    assert unsettled.due_ms() == 10
    assert list(unsettled.overdue(9)) == []
    assert list(unsettled.overdue(10)) == [early]
    unsettled.discard(outcome_of(early))
    assert unsettled.due_ms() == 30
    assert list(unsettled.overdue(100)) == [late]
    assert unsettled.due_ms() is None


def test_what_has_ended_keeps_no_records() -> None:
    """The records are released even while an item with an earlier deadline is unsettled."""
    unsettled, early, ended = UnsettledBatches(), held(10), held(20)
    unsettled.add(early)
    unsettled.add(ended)
    unsettled.discard(outcome_of(ended))
    assert unsettled.due_ms() == 10
    assert not any(isinstance(each, tuple | dict) for each in gc.get_referrers(ended) if each is not globals())
