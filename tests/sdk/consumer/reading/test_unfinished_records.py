"""Everything before the first unfinished record may be committed, whatever the order in which records are finished.

Method: compare random orders with a plain list; run the other tests step by step, on a consumer's reading side.
"""

from __future__ import annotations

from random import Random
from threading import Thread

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading import unfinished_records as limits
from kafkawire.sdk.consumer.reading.unfinished_records import UnfinishedRecords
from kafkawire.sdk.errors import LocalProtocolError, NoOffset
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.batches import made
from tests.sdk.consumer.user_side import T0, UserSide


@pytest.mark.parametrize("seed", range(20))
def test_the_first_unfinished_record_is_the_limit(seed: int) -> None:
    random = Random(seed)
    left: list[int] = []
    before: dict[int, Position] = {}
    unfinished = UnfinishedRecords(T0)
    position = Position(0, -1)
    for _ in range(50):
        if random.random() < 0.5:
            offsets = sorted(random.sample(range(position.offset, position.offset + 20), random.randint(1, 5)))
            unfinished.began(position, offsets, 3)
            left += offsets
            for offset in offsets:
                before[offset], position = position, Position(offset + 1, 3)
        for offset in random.sample(left, min(len(left), random.randint(0, 4))):
            unfinished.finish(offset)
            left.remove(offset)
        assert unfinished.first == (before[left[0]] if left else None), f"seed {seed}"
        assert len(unfinished) == len(left)


def test_records_beside_a_batch_that_was_handed_out_whole() -> None:
    unfinished = UnfinishedRecords(T0)
    unfinished.began_batch(Position(5, 1), 10)
    unfinished.began(Position(10, 1), [10, 11], 1)
    for offset in (5, 9):
        with pytest.raises(LocalProtocolError, match=f"record {offset} of t-0 was handed out in a batch"):
            unfinished.finish(offset)
    unfinished.finish(10)
    unfinished.finish_batch(5, 10)
    assert unfinished.first == Position(11, 1)


def test_a_batch_that_is_handed_out_again_is_still_one() -> None:
    unfinished = UnfinishedRecords(T0)
    for _ in range(2):
        unfinished.began_batch(Position(5, 1), 10)
    with pytest.raises(LocalProtocolError, match="handed out in a batch"):
        unfinished.finish(7)


def test_the_leader_epoch_is_that_of_the_record_before() -> None:
    unfinished = UnfinishedRecords(T0)
    unfinished.began(Position(5, 1), [5, 7], 2)
    unfinished.began(Position(8, 2), [8], 3)
    found = []
    for offset in (5, 7, 8):
        found.append(unfinished.first)
        unfinished.finish(offset)
    assert found == [Position(5, 1), Position(6, 2), Position(8, 2)]
    assert unfinished.first is None


def test_what_is_handed_out_again_is_unfinished_again() -> None:
    unfinished = UnfinishedRecords(T0)
    unfinished.began(Position(0), [0, 1, 2, 3], 1)
    unfinished.finish(3)
    unfinished.began(Position(2, 1), [2, 3], 1)
    for offset in (0, 1, 2):
        unfinished.finish(offset)
    assert unfinished.first == Position(3, 1)
    unfinished.forget()
    assert (unfinished.first, len(unfinished)) == (None, 0)


def test_batches_are_finished_whole() -> None:
    unfinished = UnfinishedRecords(T0)
    unfinished.began_batch(Position(0), 10)
    unfinished.began_batch(Position(10, 1), 20)
    with pytest.raises(LocalProtocolError, match="record 12 of t-0 was handed out in a batch: finish the batch"):
        unfinished.finish(12)
    unfinished.finish_batch(10, 20)
    assert unfinished.first == Position(0)
    unfinished.finish_batch(0, 10)
    unfinished.finish_batch(0, 10)
    assert unfinished.first is None
    unfinished.began(Position(20, 1), [20, 21], 1)
    unfinished.finish_batch(20, 22)
    assert unfinished.first is None, "the batch's records may have been handed out one by one"


def test_threads_finish_records() -> None:
    unfinished = UnfinishedRecords(T0)
    count = 20_000
    unfinished.began(Position(0), range(count), 1)

    def work(offsets: range) -> None:
        for offset in offsets:
            unfinished.finish(offset)

    threads = [Thread(target=work, args=(range(start, count, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (unfinished.first, len(unfinished)) == (None, 0)


@pytest.fixture
def side() -> UserSide:
    """A partition with six records in two batches, followed by a control batch."""
    side = UserSide(T0, auto_finish=False)
    side.put(T0, made(0, b"a", b"b", b"c") + made(3, b"d", b"e", b"f"))
    return side


def test_positions_pass_what_is_finished_alone(side: UserSide) -> None:
    assert [side.take() for _ in range(4)] == [0, 1, 2, 3]
    assert side.assignment.to_commit()[T0].offset == 0
    side.assignment.finish(T0, 1)
    side.assignment.finish(T0, 2)
    side.reader.finish()
    assert side.assignment.to_commit()[T0].offset == 0, "neither a commit nor the next read may finish records"
    side.assignment.finish(T0, 0)
    assert side.assignment.to_commit()[T0].offset == 3
    side.assignment.finish(T0, 3)
    assert side.assignment.to_commit()[T0].offset == 4, (
        "must be the position, because every record handed out is finished"
    )


def test_lists_and_batches(side: UserSide) -> None:
    side.reader.take_many(2)
    rest, other = side.reader.take_batches(2)
    side.assignment.finish(T0, other.start_offset, other.next_offset)
    side.assignment.finish(T0, rest.start_offset, rest.next_offset)
    assert side.assignment.to_commit()[T0].offset == 0
    for offset in (1, 0):
        side.assignment.finish(T0, offset)
    assert side.assignment.to_commit()[T0].offset == 6


def test_a_list_of_several_batches(side: UserSide) -> None:
    assert len(side.reader.take_many(10)[T0]) == 6
    for offset, committed in ((3, 0), (4, 0), (0, 1), (2, 1), (1, 5), (5, 6)):
        side.assignment.finish(T0, offset)
        assert side.assignment.to_commit()[T0].offset == committed


def test_a_seek_forgets_and_an_error_does_not(side: UserSide) -> None:
    side.take()
    side.take()
    side.assignment.halt(side.assignment[T0], NoOffset("stopped"))
    side.assignment.resume([T0])
    assert side.assignment.to_commit()[T0].offset == 0
    side.assignment.seek(T0, Position(5))
    assert side.assignment.to_commit()[T0].offset == 5
    side.assignment.finish(T0, 0)
    assert side.assignment.to_commit()[T0].offset == 5


def test_a_partition_that_was_given_up_is_ignored(side: UserSide) -> None:
    side.take()
    side.assignment.assign([])
    side.assignment.finish(T0, 0)
    side.assignment.finish(TopicPartition("x", 0), 0)
    assert side.assignment.to_commit() == {}
    side.assignment.assign([T0])
    assert side.assignment.to_commit().get(T0) is None, "records finished earlier must no longer count"


def test_it_is_asked_for() -> None:
    with pytest.raises(LocalProtocolError, match="requires enable_auto_finish=False"):
        UserSide(T0).assignment.finish(T0, 0)


def test_a_record_that_is_never_finished_stops_reading(side: UserSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_UNFINISHED", 3)
    assert [side.take() for _ in range(3)] == [0, 1, 2]
    side.assignment.finish(T0, 1)
    assert [side.take() for _ in range(3)] == [3, 4, 5], "only two records are unfinished, so there must be room"
    side.put(T0, made(6, b"g"))
    for _ in range(2):
        with pytest.raises(
            LocalProtocolError, match="t-0: 5 records starting at offset 0 are unfinished; the limit is 3"
        ):
            side.take()
    for offset in range(4):
        side.assignment.finish(T0, offset)
    assert side.take() == 6
