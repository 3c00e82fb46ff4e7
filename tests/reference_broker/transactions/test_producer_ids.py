"""Producer ids are assigned once, from blocks that are reserved in advance.

Method: complete reservations, or make them fail.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.producer_id_blocks import BLOCK_IDS, BlockDone
from kafkawire.reference_broker.transactions.producer_ids import ProducerIds
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


class Bench:
    """Producer ids from a counter.

    Attributes:
        next_id: the first id of the next block.
        asked: the reservations that are waiting for the test.
        given: the ids and errors that callers were given.
    """

    def __init__(self, block_ids: int = BLOCK_IDS) -> None:
        self.next_id = 0
        self.asked: list[BlockDone] = []
        self.given: list[int | BrokerError] = []
        self.ids = ProducerIds(self)
        self._block_ids = block_ids

    def reserve(self, done: BlockDone) -> None:
        self.asked.append(done)

    def answer(self, error: BrokerError | None = None) -> None:
        """Answer the only waiting reservation."""
        (done,) = self.asked
        self.asked.clear()
        first, self.next_id = self.next_id, self.next_id + self._block_ids
        done(range(first, self.next_id) if error is None else error)

    def take(self, count: int = 1) -> None:
        for _ in range(count):
            self.ids.take(self.given.append)


def test_ids_wait_for_the_first_block() -> None:
    bench = Bench()
    bench.take(3)
    assert (bench.given, len(bench.asked)) == ([], 1)
    bench.answer()
    assert bench.given == [0, 1, 2]
    bench.take()
    assert bench.given[-1] == 3


@pytest.mark.parametrize("block_ids", [BLOCK_IDS, 20, 1])
def test_the_next_block_is_reserved_when_a_tenth_is_left(block_ids: int) -> None:
    bench = Bench(block_ids)
    bench.take(block_ids * 9 // 10 or 1)
    bench.answer()
    if block_ids > 1:
        assert not bench.asked, "a tenth of the block is left"
        bench.take()
    assert len(bench.asked) == 1
    bench.take(block_ids - len(bench.given))
    assert len(bench.given) == block_ids
    bench.take(1)
    assert len(bench.given) == block_ids, "the second block has not arrived yet"
    bench.answer()
    assert bench.given == list(range(block_ids + 1))


def test_more_wait_than_a_block_has() -> None:
    bench = Bench()
    bench.take(2 * BLOCK_IDS + 5)
    for _ in range(3):
        bench.answer()
    assert bench.given == list(range(2 * BLOCK_IDS + 5))


def test_blocks_of_others_are_left_out() -> None:
    bench = Bench()
    bench.next_id = 5000
    bench.take()
    bench.answer()
    assert bench.given == [5000]


def test_a_failure_is_reported_and_the_next_request_tries_again() -> None:
    bench = Bench()
    bench.take(2)
    bench.answer(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the disk is gone"))
    errors = [each for each in bench.given if isinstance(each, BrokerError)]
    assert [error.code for error in errors] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert errors[0] is not errors[1]
    assert not bench.asked
    bench.take()
    bench.answer()
    assert bench.given[-1] == BLOCK_IDS
