"""Records are taken from several batches at a time, and each is read once even if the way of reading changes.

Method: test the reading side alone; tests supply the contents of responses.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.completed_fetch import RECORDS_AHEAD
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder, stamp
from tests.sdk.consumer.batches import made, marker
from tests.sdk.consumer.user_side import T0, UserSide


@pytest.fixture
def side() -> UserSide:
    """One partition, read from offset 0."""
    return UserSide(T0)


def left(side: UserSide) -> int:
    """Return the number of records that are ready."""
    handout = side.reader.advance()
    return 0 if handout is None else handout.left


def packed(base_offset: int, *values: bytes) -> bytes:
    """Return a compressed batch."""
    builder = BatchBuilder(compression=Compression.GZIP)
    for value in values:
        builder.append(5, None, value)
    data = bytearray(builder.seal())
    stamp(data, base_offset, 0)
    return bytes(data)


def test_records_of_several_batches_are_ready_at_once(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b", epoch=4) + made(2, b"c", epoch=4) + made(5, b"d", epoch=4))
    handout = side.reader.advance()
    assert handout is not None
    positions = []
    while handout.left:
        handout.take()
        positions.append((side.position(T0), side.finished(T0)))
    assert positions == [
        (Position(1, 4), Position(0)),
        (Position(2, 4), Position(1, 4)),
        (Position(3, 4), Position(2, 4)),
        (Position(6, 4), Position(3, 4)),
    ]
    assert side.take() is None
    assert side.finished(T0) == Position(6, 4)


def test_a_batch_of_another_epoch_comes_later(side: UserSide) -> None:
    side.put(T0, made(0, b"a", epoch=4) + made(1, b"b", epoch=4) + made(2, b"c", epoch=5) + made(3, b"d", epoch=5))
    assert left(side) == 2
    assert side.take_all() == [0, 1, 2, 3]
    assert side.position(T0) == Position(4, 5)


def test_compressed_batches_come_alone(side: UserSide) -> None:
    side.put(T0, packed(0, b"a", b"b") + packed(2, b"c") + made(3, b"d") + made(4, b"e") + packed(5, b"f"))
    sizes, offsets = [], []
    while size := left(side):
        sizes.append(size)
        offsets += [side.take() for _ in range(size)]
    assert sizes == [2, 1, 2, 1]
    assert offsets == [0, 1, 2, 3, 4, 5]


def test_messages_of_old_formats_come_as_they_are(side: UserSide) -> None:
    messages = MessageSetBuilder(1, base_offset=1)
    messages.append(5, None, b"b")
    messages.append(5, None, b"c")
    side.put(T0, made(0, b"a") + messages.build() + made(3, b"d"))
    assert side.take_all() == [0, 1, 2, 3]
    assert side.position(T0) == Position(4, 0)


def test_no_more_is_opened_than_is_needed(side: UserSide) -> None:
    side.put(T0, b"".join(made(offset, b"a", b"b") for offset in range(0, 2 * RECORDS_AHEAD, 2)))
    assert left(side) == RECORDS_AHEAD
    assert side.take_all() == list(range(2 * RECORDS_AHEAD))


def test_damage_is_met_after_what_precedes_it(side: UserSide) -> None:
    damaged = bytearray(made(3, b"d"))
    damaged[-1] ^= 1
    side.put(T0, made(0, b"a") + made(1, b"b", b"c") + bytes(damaged) + made(4, b"e"))
    assert [side.take() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DecodeError, match="crc"):
        side.take()
    assert side.position(T0) == Position(3, 0)
    assert side.assignment[T0].halted


@pytest.mark.parametrize("taken", range(1, 8))
def test_batches_after_records_are_what_is_left(side: UserSide, taken: int) -> None:
    batches = made(0, b"a", b"b"), made(2, b"c", b"d", b"e"), made(5, b"f"), packed(6, b"g"), made(7, b"h")
    side.put(T0, b"".join(batches))
    assert [side.take() for _ in range(taken)] == list(range(taken))
    found = []
    while (batch := side.reader.next_batch()) is not None:
        found.append([record.offset for record in batch])
        assert side.position(T0) == Position(found[-1][-1] + 1, 0)
    assert [offset for offsets in found for offset in offsets] == list(range(taken, 8))
    assert all(found)
    assert len(found) == sum(end > taken for end in (2, 5, 6, 7, 8))
    assert side.finished(T0) == Position(8, 0)


def test_records_go_on_after_one_batch_of_many(side: UserSide) -> None:
    side.put(T0, made(0, b"a", b"b") + made(2, b"c", b"d") + made(4, b"e") + made(5, b"f"))
    assert side.take() == 0
    rest = side.reader.next_batch()
    assert rest is not None
    assert [record.offset for record in rest] == [1]
    assert side.take_all() == [2, 3, 4, 5]


def test_a_pause_among_several_batches_keeps_them(side: UserSide) -> None:
    side.put(T0, made(0, b"a") + made(1, b"b", b"c") + made(3, b"d") + made(4, b"e"))
    assert [side.take(), side.take()] == [0, 1]
    side.assignment.pause([T0])
    assert side.take() is None
    side.assignment.resume([T0])
    assert side.take_all() == [2, 3, 4]


def test_the_end_is_after_what_is_not_for_the_application(side: UserSide) -> None:
    side.put(T0, made(0, b"a") + made(1, b"b") + marker(2, 7, is_commit=True))
    assert left(side) == 2
    assert side.take_all() == [0, 1]
    assert side.position(T0) == Position(3, 0)


def test_batches_that_the_application_finishes_come_one_by_one() -> None:
    side = UserSide(T0, auto_finish=False)
    side.put(T0, made(0, b"a") + made(1, b"b"))
    assert left(side) == 1
    assert side.take_all() == [0, 1]
