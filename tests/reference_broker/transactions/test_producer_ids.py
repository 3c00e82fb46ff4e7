"""Producer ids are assigned once, from blocks that are reserved in advance.

Method: reservations that the test completes or lets fail.
"""

from __future__ import annotations

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.transactions.producer_ids import BLOCK_IDS, ProducerIds
from tests.reference_broker.storage.held_work import HeldWork


class Bench:
    """Producer ids from a counter; background work waits for the test."""

    def __init__(self) -> None:
        self.next_id = 0
        self.work = HeldWork()
        self.is_broken = False
        self.given: list[int | OSError] = []
        self.ids = ProducerIds(self.reserve, LogServices(MemoryDisk(), self.work))

    def reserve(self, count: int) -> int:
        if self.is_broken:
            raise OSError("the disk is gone")
        first, self.next_id = self.next_id, self.next_id + count
        return first

    def take(self, count: int = 1) -> None:
        for _ in range(count):
            self.ids.take(self.given.append)


def test_ids_wait_for_the_first_block() -> None:
    bench = Bench()
    bench.take(3)
    assert (bench.given, len(bench.work.pending)) == ([], 1)
    bench.work.run(1)
    assert bench.given == [0, 1, 2]
    bench.take()
    assert bench.given[-1] == 3


def test_the_next_block_is_reserved_in_advance() -> None:
    bench = Bench()
    bench.take(BLOCK_IDS * 9 // 10)
    bench.work.run(1)
    assert not bench.work.pending, "100 are left"
    bench.take()
    assert len(bench.work.pending) == 1
    bench.take(99)
    assert len(bench.given) == BLOCK_IDS
    bench.take(2)
    assert len(bench.given) == BLOCK_IDS, "the second block is not there yet"
    assert len(bench.work.pending) == 1
    bench.work.run(1)
    assert bench.given == list(range(BLOCK_IDS + 2))


def test_more_wait_than_a_block_has() -> None:
    bench = Bench()
    bench.take(2 * BLOCK_IDS + 5)
    for _ in range(3):
        bench.work.run(1)
    assert bench.given == list(range(2 * BLOCK_IDS + 5))


def test_blocks_of_others_are_left_out() -> None:
    bench = Bench()
    bench.next_id = 5000
    bench.take()
    bench.work.run(1)
    assert bench.given == [5000]


def test_a_failure_is_reported_and_the_next_request_tries_again() -> None:
    bench = Bench()
    bench.is_broken = True
    bench.take(2)
    bench.work.run(1)
    assert [type(found) for found in bench.given] == [OSError, OSError]
    assert not bench.work.pending
    bench.is_broken = False
    bench.take()
    bench.work.run(1)
    assert bench.given[-1] == 0
