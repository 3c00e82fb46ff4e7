"""A follower truncates its log to the point from which it may differ from its leader's, and never more than necessary.

Method: check the cases in KIP-101 and KIP-279 as tables of epochs; then check all pairs of small logs, for which a
follower that truncates repeatedly must end with the common part.
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, takewhile

import pytest

from kafkawire.reference_broker.replicas.divergence import cut_for
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs


class Log:
    """A log, represented by the epoch of each record."""

    def __init__(self, *epochs: int, high_watermark: int = 0) -> None:
        self.records = list(epochs)
        self.high_watermark = high_watermark

    @property
    def next_offset(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        return self.records[-1] if self.records else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        starts: dict[int, int] = {}
        for offset, each in enumerate(self.records):
            starts.setdefault(each, offset)
        return LeaderEpochs(list(starts.items())).end_of(epoch, self.next_offset)


@pytest.mark.parametrize(
    ("log", "epoch", "end_offset", "expected"),
    [
        pytest.param(Log(0, 0, 0, high_watermark=1), 0, 2, 2, id="the leader's epoch ends earlier"),
        pytest.param(Log(0, 0, 1, 1), 0, 5, 2, id="ours ends earlier, KIP-279"),
        pytest.param(Log(0, 0, 0), 0, 9, 3, id="the leader's ends after this log"),
        pytest.param(Log(0, 0, 2, 2), 1, 3, 2, id="an epoch that this log lacks"),
        pytest.param(Log(2, 2), 1, 1, 0, id="all epochs of this log are later"),
        pytest.param(Log(0, 0, 0, high_watermark=2), 0, -1, 2, id="no end is known"),
        pytest.param(Log(0, 0, 0, high_watermark=2), -1, -1, 2, id="neither epoch nor end"),
        pytest.param(Log(0, 0, 0), -1, 2, 2, id="an end without an epoch"),
        pytest.param(Log(0, 0, 0), -1, 7, 3, id="a late end without an epoch"),
        pytest.param(Log(), 3, 7, 0, id="an empty log"),
        pytest.param(Log(0, 0), 4, 1, 1, id="an epoch after all of this log"),
    ],
)
def test_cut(log: Log, epoch: int, end_offset: int, expected: int) -> None:
    assert cut_for(log, epoch, end_offset) == expected


def histories(length: int) -> list[list[int]]:
    """Return all logs of up to a number of records, with ascending epochs below 4."""
    sizes = range(length + 1)
    return [[*epochs] for size in sizes for epochs in combinations_with_replacement(range(4), size)]


def test_repeated_cuts_end_with_the_common_part() -> None:
    """The leader compares logs as in Apache Kafka; two logs agree on all records written by the same leader."""
    compared = 0
    for ours, theirs in combinations(histories(4), 2):
        for own, other in ((ours, theirs), (theirs, ours)):
            if not _can_be(own, other):
                continue
            compared += 1
            follower, leader = Log(*own), Log(*other, 4)
            pairs = zip(own, other, strict=False)
            common = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
            for _ in range(9):
                found, end_offset = leader.end_of_epoch(follower.last_epoch)
                if not follower.records or (found == follower.last_epoch and end_offset >= follower.next_offset):
                    break
                cut = cut_for(follower, found, end_offset)
                assert cut < follower.next_offset, (own, other)
                del follower.records[cut:]
            assert follower.records == own[:common], (own, other)
    assert compared > 1_000


def _can_be(own: list[int], other: list[int]) -> bool:
    """Return whether two logs can share a history: a log with a leader's record has all that leader's earlier ones."""
    return all(own[: own.index(epoch)] == other[: other.index(epoch)] for epoch in {*own} & {*other})
