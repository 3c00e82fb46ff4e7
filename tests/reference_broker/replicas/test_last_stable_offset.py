"""The last stable offset follows the high watermark up to the oldest open transaction, and notifies its watchers.

Method: move a high watermark; run random transactions, and compare the results with a computation over all batches.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.reference_broker.replicas.awaited_offset import COMPLETES_ANY_FETCH_BYTES, AwaitedOffset
from kafkawire.reference_broker.replicas.last_stable_offset import LastStableOffset
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.transacting_logs import TransactingLog


class Moving:
    """Both offsets of a partition, and the notifications of a watcher.

    Args:
        offset: the initial value of both offsets.
        unstable: the first offset of an earlier transaction.
    """

    def __init__(self, offset: int = 0, unstable: int | None = None) -> None:
        self.high = AwaitedOffset(offset)
        self.stable = LastStableOffset(self.high, unstable)
        self.end = offset
        self.told: list[int] = []
        self.stable.watch(self.told.append)

    def append(self, size_bytes: int, *, begins: bool = False) -> int:
        """Add a batch of one record; return its offset."""
        if begins:
            self.stable.begun(self.end)
        self.end += 1
        self.high.appended(self.end, size_bytes)
        return self.end - 1

    def advance(self, unstable: int | None = None, offset: int | None = None) -> list[int]:
        """Move the high watermark to an offset, or to the end if None; return the watcher's notifications."""
        self.high.advance(self.end if offset is None else offset)
        self.stable.advance(unstable)
        told, self.told[:] = self.told[:], []
        return told


def test_without_transactions_it_is_the_high_watermark() -> None:
    moving = Moving(7)
    assert moving.stable.offset == 7
    moving.append(100)
    moving.append(20)
    assert moving.advance(offset=8) == [100]
    assert moving.advance() == [20]
    assert moving.advance() == []
    assert moving.stable.offset == 9


def test_a_transaction_holds_it_back() -> None:
    moving = Moving()
    moving.append(1)
    first = moving.append(10, begins=True)
    moving.append(100)
    assert moving.advance(unstable=first) == [1]
    assert moving.stable.offset == first
    second = moving.append(1000, begins=True)
    assert moving.advance(unstable=first) == []
    moving.stable.decided(first)
    assert moving.advance(unstable=second) == [110]
    moving.stable.decided(second)
    assert moving.advance() == [1000]
    assert moving.stable.offset == 4
    assert not moving.stable._bytes_before, "nothing is left of either"


def test_what_an_older_transaction_held_back_completes_any_fetch() -> None:
    moving = Moving(50, unstable=20)
    assert moving.stable.offset == 20
    moving.append(5)
    assert moving.advance(unstable=20) == []
    assert moving.advance(unstable=30) == [COMPLETES_ANY_FETCH_BYTES]
    assert moving.advance() == [COMPLETES_ANY_FETCH_BYTES]
    moving.append(6)
    assert moving.advance() == [6]


def test_watchers_are_told_once_each_until_they_go() -> None:
    moving = Moving()
    others: list[int] = []
    watcher = others.append
    moving.stable.watch(watcher)
    assert moving.stable.is_watched
    moving.stable.unwatch(moving.told.append)
    moving.stable.unwatch(others.append)
    moving.stable.unwatch(others.append)
    moving.append(3)
    moving.advance()
    assert not moving.stable.is_watched
    assert others == []


def test_everybody_is_told_when_nothing_will_be_stable_any_more() -> None:
    moving = Moving()
    moving.stable.wake()
    assert moving.told == [COMPLETES_ANY_FETCH_BYTES]


@pytest.mark.parametrize("seed", range(30))
def test_random_transactions_beside_a_sum_over_all_batches(seed: int) -> None:
    chance = random.Random(seed)
    log = TransactingLog()
    sizes: list[int] = []
    told: list[int] = []
    replica = leading(log.log)
    replica.watch(told.append, is_committed=True)
    is_open: set[int] = set()
    for _ in range(150):
        producer = chance.randrange(4)
        before = log.log.size_bytes
        if producer in is_open and chance.random() < 0.4:
            log.end(producer, is_commit=chance.random() < 0.5)
            is_open.discard(producer)
        elif chance.random() < 0.5:
            log.append(producer, b"x" * chance.randrange(100))
            is_open.add(producer)
        else:
            log.plain(b"x" * chance.randrange(100))
        sizes.append(log.log.size_bytes - before)
        assert sum(told) == sum(sizes[: log.log.last_stable_offset]), f"seed {seed}"


def test_truncation():
    moving = Moving()
    moving.high.appended(2, 10)
    moving.stable.begun(2)
    moving.high.appended(4, 10)
    moving.high.advance(4)
    moving.stable.advance(2)
    assert moving.stable.offset == 2
    told: list[int] = []
    moving.stable.watch(told.append)
    # The transaction is first kept, and then removed.
    moving.high.truncate(3, 3, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))
    moving.stable.truncate(3, 2)
    assert (moving.stable.offset, told) == (2, [COMPLETES_ANY_FETCH_BYTES])
    moving.high.truncate(1, 1, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))
    moving.stable.truncate(1, None)
    assert moving.stable.offset == 1
    moving.high.appended(5, 10)
    moving.high.advance(5)
    moving.stable.advance(None)
    assert moving.stable.offset == 5


def test_bytes_that_are_not_known_complete_any_fetch() -> None:
    high = AwaitedOffset(3, end_offset=5)
    stable = LastStableOffset(high)
    told: list[int] = []
    stable.watch(told.append)
    for offset in (4, 5):
        high.advance(offset)
        stable.advance(None)
    high.appended(6, 10)
    high.advance(6)
    stable.advance(None)
    assert told == [COMPLETES_ANY_FETCH_BYTES, COMPLETES_ANY_FETCH_BYTES, 10]
