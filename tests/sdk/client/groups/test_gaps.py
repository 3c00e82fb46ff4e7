"""Records that are finished in any order are committed up to the first one that is not.

Method: random orders by seed, beside a model that counts.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.sdk.client.groups import gaps
from kafkawire.sdk.client.groups.gaps import Gaps
from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.errors import LocalProtocolError

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("seed", range(10))
def test_the_first_unfinished_record_is_the_limit(seed: int) -> None:
    chance = random.Random(seed)
    tracked = Gaps()
    offsets = sorted(chance.sample(range(1_000), 200))  # compaction leaves holes
    for offset in offsets:
        tracked.began(P, offset, offset // 100)
    unfinished = list(offsets)
    chance.shuffle(unfinished)
    while unfinished:
        tracked.finished(P, unfinished.pop())
        below = [offset for offset in offsets if offset < min(unfinished, default=1_000)]
        expected = {P: OffsetAndMetadata(below[-1] + 1, "", below[-1] // 100)} if below else {}
        assert tracked.to_commit() == expected
        assert tracked.unfinished(P) == len(offsets) - len(below)


def test_what_was_committed_is_not_committed_again() -> None:
    tracked = Gaps()
    for partition in (P, Q):
        tracked.began(partition, 5)
        tracked.finished(partition, 5)
    assert tracked.to_commit([P]) == {P: OffsetAndMetadata(6)}
    tracked.committed({P: OffsetAndMetadata(6), TopicPartition("u", 0): OffsetAndMetadata(1)})
    assert tracked.to_commit() == {Q: OffsetAndMetadata(6)}
    assert tracked.to_commit([P, TopicPartition("u", 0)]) == {}


def test_a_partition_that_was_given_up_is_forgotten() -> None:
    tracked = Gaps()
    tracked.began(P, 5)
    tracked.forget([P, Q])
    tracked.finished(P, 5)
    assert (tracked.to_commit(), tracked.unfinished(P)) == ({}, 0)
    tracked.began(P, 9)
    tracked.finished(P, 5)
    assert tracked.to_commit() == {}


def test_a_record_that_is_never_finished_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "MAX_UNFINISHED", 10)
    tracked = Gaps()
    for offset in range(10):
        tracked.began(P, offset)
        if offset:
            tracked.finished(P, offset)
    with pytest.raises(LocalProtocolError, match="t-0: 10 records wait for offset 0"):
        tracked.began(P, 10)
    tracked.finished(P, 0)
    tracked.began(P, 10)
    assert tracked.to_commit() == {P: OffsetAndMetadata(10)}
