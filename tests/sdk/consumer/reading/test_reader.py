"""Fetched records are handed out once and in order; positions advance with them, and no record is lost.

Method: test the reading side alone; tests supply the contents of responses.
"""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from kafkawire.sdk.consumer.fetching.queue import Fetched
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, Closed, DecodeError, NoOffset
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import MessageSetBuilder
from kafkawire.sdk.records.crc import crc32c
from tests.sdk.consumer.batches import made, marker
from tests.sdk.consumer.user_side import T0, T1, UserSide


@pytest.fixture
def side() -> UserSide:
    """Two partitions, read from offset 0."""
    return UserSide(T0, T1)


def test_records_move_the_position_and_are_finished_by_the_next_read(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", epoch=4) + made(2, b"c", epoch=5))
    assert side.take() == 0
    assert (side.position(T0), side.finished(T0)) == (Position(1, 4), Position(0))
    assert side.take() == 1
    assert (side.position(T0), side.finished(T0)) == (Position(2, 4), Position(1, 4))
    assert side.take() == 2
    assert (side.position(T0), side.finished(T0)) == (Position(3, 5), Position(2, 4))
    assert side.take() is None
    assert (side.position(T0), side.finished(T0)) == (Position(3, 5), Position(3, 5))


def test_the_rest_of_a_batch_is_a_batch(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c") + made(3, b"d"))
    assert side.take() == 0
    rest = side.reader.next_batch()
    assert rest is not None
    assert [record.offset for record in rest] == [1, 2]
    assert (side.position(T0), side.finished(T0)) == (Position(3, 0), Position(1, 0))
    assert side.take() == 3
    assert side.finished(T0) == Position(3, 0)


def test_a_batch_is_finished_by_the_next_read(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b"))
    assert side.reader.next_batch() is not None
    assert (side.position(T0), side.finished(T0)) == (Position(2, 0), Position(0))
    assert side.reader.next_batch() is None
    assert side.finished(T0) == Position(2, 0)


def test_a_list_of_batches_is_finished_by_the_next_read(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b") + made(2, b"c"))
    assert [batch.start_offset for batch in side.reader.take_batches(1)] == [0]
    assert side.finished(T0) == Position(0)
    assert [batch.start_offset for batch in side.reader.take_batches(1)] == [2]
    assert (side.position(T0), side.finished(T0)) == (Position(3, 0), Position(2, 0))


@pytest.mark.parametrize(
    ("limit", "enough", "counts"), [(9, 1, [2]), (9, 2, [2]), (9, 3, [2, 1]), (1, 9, [2]), (9, 9, [2, 1, 3])]
)
def test_a_list_of_batches_ends_once_it_has_enough_records(
    side: UserSide, limit: int, enough: int, counts: list[int]
) -> None:
    side.put(T0, made(0, b"a", b"b") + made(2, b"c") + made(3, b"d", b"e", b"f"))
    assert [len(batch) for batch in side.reader.take_batches(limit, enough)] == counts


def test_of_a_batch_that_is_cut_only_what_is_handed_out_counts(side: UserSide) -> None:
    side.assignment.seek(T0, Position(2))
    side.put(T0, made(0, b"a", b"b", b"c") + made(3, b"d", b"e", b"f"))
    side.assignment.readings[T0].until = 5
    assert [len(batch) for batch in side.reader.take_batches(9, 2)] == [1, 2]


def test_records_of_old_formats_are_counted_by_their_offsets(side: UserSide) -> None:
    messages = MessageSetBuilder(1)
    for value in (b"a", b"b", b"c"):
        messages.append(5, None, value)
    side.put(T0, messages.build())
    assert [len(batch) for batch in side.reader.take_batches(9, 2)] == [1, 1]


def test_what_a_list_has_is_finished_by_the_next_read(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b") + made(2, b"c", b"d"))
    side.put(T1, made(0, b"x"))
    assert side.take() == 0
    found = side.reader.take_many(2)
    assert [record.offset for record in found[T0]] == [1, 2]
    assert (side.position(T0), side.finished(T0)) == (Position(3, 0), Position(1, 0))
    found = side.reader.take_many(10)
    assert {each: [record.offset for record in records] for each, records in found.items()} == {T0: [3], T1: [0]}
    assert side.finished(T0) == Position(3, 0)
    assert side.reader.take_many(10) == {}
    assert (side.finished(T0), side.finished(T1)) == (Position(4, 0), Position(1, 0))


def test_a_list_keeps_what_it_found_before_an_error(side: UserSide) -> None:
    damaged = bytearray(made(1, b"b"))
    damaged[-1] ^= 1
    side.put(T0, made(0, b"a") + bytes(damaged))
    found = side.reader.take_many(10)
    assert [record.offset for record in found[T0]] == [0]
    side.reader.finish()  # as for a commit or on close, neither of which is a read
    assert side.finished(T0) == Position(1, 0)
    with pytest.raises(DecodeError, match="checksum"):
        side.reader.take_many(10)
    assert side.position(T0) == Position(1, 0)
    assert side.reader.take_many(10) == {}


def test_a_list_of_batches_keeps_what_it_found_before_an_error(side: UserSide) -> None:
    damaged = bytearray(made(1, b"b"))
    damaged[-1] ^= 1
    side.put(T0, made(0, b"a") + bytes(damaged))
    assert [batch.start_offset for batch in side.reader.take_batches(10)] == [0]
    with pytest.raises(DecodeError, match="checksum"):
        side.reader.take_batches(10)
    assert side.finished(T0) == Position(1, 0)
    assert side.reader.take_batches(10) == []
    side.assignment.seek(T0, Position(1))
    side.put(T0, bytes(damaged))
    with pytest.raises(DecodeError, match="checksum"):
        side.reader.take_batches(10)


@pytest.mark.parametrize("tail", [marker(2, 7, is_commit=True), marker(2, 7, is_commit=False)])
def test_the_position_passes_control_batches_at_the_end(side: UserSide, tail: bytes) -> None:
    """Otherwise, a consumer that has read everything would lag by one forever."""
    side.put(T0, made(0, b"a", b"b", producer=7) + tail)
    side.reader.take_many(2)
    assert side.position(T0) == Position(3, 0)


def test_only_control_batches(side: UserSide) -> None:
    side.put(T0, marker(0, 7, is_commit=True, epoch=3))
    assert side.take() is None
    assert (side.position(T0), side.finished(T0)) == (Position(1, 3), Position(1, 3))


def test_a_list_of_batches_that_has_none_passes_control_batches(side: UserSide) -> None:
    side.put(T0, marker(0, 7, is_commit=True, epoch=3))
    assert side.reader.take_batches(5) == []
    assert side.finished(T0) == Position(1, 3)


def test_a_commit_finishes_what_was_handed_out_of_every_partition(side: UserSide) -> None:
    side.put(T0, made(0, b"a"))
    side.put(T1, made(0, b"x", b"y"))
    assert [side.take(), side.take()] == [0, 0]
    side.reader.finish()
    assert (side.finished(T0), side.finished(T1)) == (Position(1, 0), Position(1, 0))


def test_a_list_that_ends_with_a_batch(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", epoch=4) + made(2, b"c", epoch=5))
    side.assignment.readings[T0].until = 2
    assert len(side.reader.take_many(2)[T0]) == 2
    assert (side.position(T0), side.finished(T0)) == (Position(2, 4), Position(0))
    side.reader.finish()
    assert side.assignment[T0].is_at_end


def test_only_aborted_records(side: UserSide) -> None:
    side.put(T0, made(0, b"a", producer=7) + marker(1, 7, is_commit=False), aborted=((0, 7),))
    assert side.reader.take_many(10) == {}
    assert side.finished(T0) == Position(2, 0)


def test_a_seek_drops_what_was_fetched_before(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c"))
    side.put(T0, made(3, b"d"))
    assert side.take() == 0
    side.assignment.seek(T0, Position(7))
    assert side.take() is None
    assert (side.position(T0), side.finished(T0)) == (Position(7), Position(7))
    side.put(T0, made(6, b"x", b"y"), start=7)
    assert side.take_all() == [7]


def test_a_pause_keeps_what_was_fetched(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c"))
    side.put(T0, made(3, b"d"))
    side.put(T1, made(0, b"x"))
    assert side.take() == 0
    side.assignment.pause([T0])
    assert (side.position(T0), side.finished(T0)) == (Position(1, 0), Position(0))
    assert side.take() == 0  # from the other partition
    assert side.finished(T0) == Position(1, 0)
    assert side.take() is None
    side.assignment.resume([T0])
    assert side.take_all() == [1, 2, 3]


def test_a_pause_between_two_batches_leaves_no_empty_one(side: UserSide) -> None:
    side.put(T0, made(0, b"a", epoch=4) + made(1, b"b", epoch=5))
    assert side.take() == 0
    side.assignment.pause([T0])
    side.assignment.resume([T0])
    assert [[record.offset for record in batch] for batch in side.reader.take_batches(5)] == [[1]]


def test_a_partition_that_is_sought_while_it_is_paused(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c"))
    side.take()
    side.assignment.pause([T0])
    side.assignment.seek(T0, Position(2))
    side.assignment.resume([T0])
    assert side.take() is None
    assert side.position(T0) == Position(2)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_what_was_set_aside_of_a_partition_is_dropped_by_a_seek(side: UserSide, is_resumed: bool) -> None:
    class Data(bytearray):
        """Bytes that support weak references."""

    data = Data(made(0, b"a", b"b", b"c"))
    side.put(T0, data)  # type: ignore[arg-type]  # as good as bytes
    side.take()
    side.assignment.pause([T0])
    assert side.reader.next_batch() is None, "the rest must be set aside"
    side.assignment.seek(T0, Position(2))
    if is_resumed:
        side.assignment.resume([T0])
    assert side.reader.next_batch() is None
    left = ref(data)
    del data
    gc.collect()
    assert left() is None, "the data must no longer be kept"


def test_a_revocation_stops_at_once(side: UserSide) -> None:
    """The record in progress counts as finished if the application asks for the next one before the commit."""
    side.put(T0, made(0, b"a", b"b", b"c") + made(3, b"d"))
    assert [side.take(), side.take()] == [0, 1]
    side.assignment.withhold([T0])
    assert side.assignment.to_commit([T0])[T0].offset == 1
    assert side.take() is None
    assert side.assignment.to_commit([T0])[T0].offset == 2
    side.assignment.assign([T1])
    assert side.take() is None


def test_a_partition_that_is_assigned_again_goes_on_where_it_stopped(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c"))
    assert side.take() == 0
    side.assignment.withhold([T0])
    side.assignment.assign([T0, T1])
    assert side.told[-1] == ("assign", {T0: Position(1, 0), T1: Position(0)})
    assert side.take() is None
    side.put(T0, made(0, b"a", b"b", b"c"), start=1)
    assert side.take_all() == [1, 2]


def test_an_error_is_raised_once_and_stops_the_partition(side: UserSide) -> None:
    epoch = side.assignment.readings[T0].epoch
    error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "fetch from t-0")
    side.queue.put(Fetched(T0, epoch, 0, Position(0), error=error))
    side.put(T1, made(0, b"x"))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        side.take()
    assert side.take_all() == [0]
    side.told.clear()
    side.assignment.resume([T0])
    assert side.told[0] == ("seek", T0, Position(0))


def test_damage_stops_the_partition_before_it(side: UserSide) -> None:
    damaged = bytearray(made(1, b"b"))
    damaged[-1] ^= 1
    side.put(T0, made(0, b"a") + bytes(damaged) + made(2, b"c"))
    side.put(T0, made(3, b"d"))
    assert side.take() == 0
    for _ in range(2):
        with pytest.raises(DecodeError, match="checksum"):
            side.take()
        assert side.position(T0) == Position(1, 0)
        assert side.take() is None
        side.assignment.resume([T0])
        side.put(T0, bytes(damaged))
    side.assignment.seek(T0, Position(2))
    side.put(T0, made(2, b"c"))
    assert side.take_all() == [2]


def test_a_move_without_records(side: UserSide) -> None:
    """The position was out of range; records fetched earlier are handed out before the position moves."""
    side.put(T0, made(0, b"a"))
    side.queue.put(Fetched(T0, side.assignment.readings[T0].epoch, 50, Position(50, 2)))
    assert side.take() == 0
    assert side.take() is None
    assert side.finished(T0) == Position(50, 2)


def test_a_bounded_read_leaves_what_is_beyond(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c", b"d"))
    side.assignment.readings[T0].until = 2
    side.assignment.readings[T1].until = 0
    assert side.take_all() == [0, 1]
    assert side.assignment.readings[T0].is_at_end
    assert side.finished(T0) == Position(2, 0)


def test_a_bounded_read_passes_over_batches_beyond(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b") + made(2, b"c") + made(3, b"d"))
    side.assignment.readings[T0].until = 2
    side.assignment.readings[T1].until = 0
    assert [batch.start_offset for batch in side.reader.take_batches(10)] == [0]
    assert side.position(T0) == Position(2, 0)
    assert side.assignment.readings[T0].is_at_end


def test_the_end_of_the_client(side: UserSide) -> None:
    """The current batch is handed out, but later fetches are dropped, so a flood of records never hides the end."""
    side.put(T0, made(0, b"a", b"b"))
    assert side.take() == 0
    side.put(T0, made(2, b"c"))
    side.queue.fail(Closed("the consumer was closed"))
    assert side.take() == 1
    for _ in range(2):
        with pytest.raises(Closed):
            side.take()


def test_errors_come_in_the_order_in_which_they_were_met(side: UserSide) -> None:
    side.put(T0, made(0, b"a"))
    side.queue.put(Fetched(T0, side.assignment.readings[T0].epoch, 1, Position(1), error=NoOffset("first")))
    assert list(side.reader.take_many(5)) == [T0]
    side.queue.report(BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "second"))
    side.queue.fail(RuntimeError("third"))
    for kind in (NoOffset, BrokerError, RuntimeError, RuntimeError):
        with pytest.raises(kind):
            side.take()


@pytest.mark.parametrize("error", [RuntimeError("the listener's"), Closed("ours")])
def test_an_error_that_every_read_raises_does_not_grow(side: UserSide, error: Exception) -> None:
    side.queue.fail(error)
    lengths = set()
    for _ in range(50):
        with pytest.raises(type(error)) as caught:
            side.take()
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


def test_handed_out_records_are_counted(side: UserSide) -> None:
    """The count shows a group that the application is making progress, even with slow records in one large batch."""
    side.put(T0, made(0, b"a", b"b", b"c"))

    def seen(now_ms: int) -> int | None:
        side.now_ms = now_ms
        return side.assignment.last_handed_out_ms

    assert [seen(100), seen(200)] == [100, 100]
    side.take()
    assert seen(300) == 300
    side.take()
    assert [seen(400), seen(500)] == [400, 400]
    side.take()
    promise = side.queue.wait()
    assert seen(600) is None
    side.queue.cancel(promise)
    assert [seen(700), seen(800)] == [700, 700]


def test_each_record_and_each_batch_counts_once(side: UserSide) -> None:
    count = side.assignment.handed_out
    side.put(T0, made(0, b"a", epoch=4) + made(1, b"b", b"c", epoch=5))
    counts = []
    while side.take() is not None:
        counts.append(count())
    assert counts == [1, 2, 3]
    assert side.take() is None
    assert count() == 3, "a read that finds nothing must not count as progress"
    side.put(T1, made(0, b"x", b"y", b"z"))
    assert side.take() == 0
    assert side.reader.next_batch() is not None
    assert count() == 5
    side.put(T0, made(3, b"d", b"e", epoch=6) + made(5, b"f", epoch=7))
    side.reader.take_many(3)
    assert count() == 8


def test_what_an_interrupted_read_took_is_handed_out_again(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c", b"d"))
    side.put(T1, made(0, b"x"))
    assert side.reader.take_many(3).keys() == {T0}
    side.reader.finish()
    assert side.reader.take_many(2).keys() == {T0, T1}
    side.reader.rewind()
    assert sorted(told for told in side.told if told[0] == "seek") == [
        ("seek", T0, Position(3, 0)),
        ("seek", T1, Position(0)),
    ]
    assert side.take() is None, "data fetched earlier must be dropped"


def test_what_is_not_finished_stays_so_when_the_rest_is_fetched_again(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", b"c"))
    assert (side.take(), side.take()) == (0, 1)
    side.reader.fetch_again(side.assignment.readings[T0])
    assert side.told == [("seek", T0, Position(2, 0))]
    assert (side.position(T0), side.finished(T0)) == (Position(2, 0), Position(1, 0))
    assert side.take() is None
    assert side.finished(T0) == Position(2, 0)


def test_a_partition_that_an_error_has_halted_stays_halted(side: UserSide) -> None:
    side.assignment.halt(side.assignment[T0], NoOffset("stopped"))
    side.reader.rewind()
    assert side.assignment[T0].halted
    assert not side.assignment[T1].halted


def test_a_reader_that_is_abandoned_hands_out_nothing(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b") + made(2, b"c"))
    fetched = side.put(T1, made(0, b"x"))
    assert side.take() == 0
    left: list[int] = []
    side.queue.clear()
    side.queue.wait().add_done_callback(lambda: left.append(len(side.queue._items)))
    side.queue.put(fetched)  # this does not wake a reader yet
    side.reader.abandon(Closed("over"))
    assert left == [0], "a waiting reader must find nothing more"
    for read in (side.take, side.reader.next_batch):
        with pytest.raises(Closed, match="over"):
            read()


def _changed(data: bytes, at: int, *values: int) -> bytes:
    changed = bytearray(data)
    changed[at : at + len(values)] = values
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_changed(made(4, b"a"), 22, 5), "t-0 at offset 4: attributes at byte 0: compression 5 is not known"),
        (
            _changed(made(4, b"a"), 22, 4),
            "t-0 at offset 4: records at byte 61: zstd: the data does not start with a frame",
        ),
        (
            _changed(made(4, b"a"), 59, 9),
            "t-0 at offset 4: records_count at byte 0: 2305 records are counted in 8 bytes",
        ),
        (made(4, b"a")[:-1] + b"\xff", "t-0 at offset 4: crc at byte 0: the checksum"),
    ],
)
def test_a_batch_that_cannot_be_read_stops_its_own_partition_and_the_error_names_it(data: bytes, reason: str) -> None:
    side = UserSide(T0, T1, start=4)
    side.put(T0, data)  # type: ignore[arg-type]  # as good as bytes
    side.put(T1, made(4, b"x"))
    with pytest.raises(DecodeError, match=reason):
        side.take()
    assert side.take() == 4
    assert side.position(T0) == Position(4)
    assert side.take() is None
