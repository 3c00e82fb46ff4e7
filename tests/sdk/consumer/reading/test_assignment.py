"""Partitions keep their positions across assignments; finished offsets are passed to the group with their leader epoch.

Method: use an assignment whose I/O side only records its calls.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.assignment import Assignment
from kafkawire.sdk.errors import BrokerError, LocalProtocolError, NoOffset
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata
from tests.sdk.consumer.batches import made, marker
from tests.sdk.consumer.user_side import T0, T1, T2, UserSide
from tests.sdk.instructions import interrupted_at


def test_partitions_that_stay_keep_their_position() -> None:
    side = UserSide(T0, T1)
    kept = side.assignment[T1]
    side.assignment.assign([T1, T2])
    assert side.assignment.assigned == {T1, T2}
    assert side.assignment[T1] is kept
    assert side.told == [("assign", {T1: Position(0), T2: None})]


def test_a_partition_that_comes_back_does_not_take_what_was_fetched_before() -> None:
    side = UserSide(T0)
    fetched = side.put(T0, made(0, b"a"))
    side.assignment.assign([])
    side.assignment.assign([T0])
    assert side.assignment[T0].epoch != fetched.epoch
    assert side.take() is None


def test_what_to_commit() -> None:
    side = UserSide(T0, T1)
    assert side.assignment.to_commit() == {T0: OffsetAndMetadata(0), T1: OffsetAndMetadata(0)}
    side.put(T0, made(0, b"a", b"b", epoch=6))
    side.take_all()
    assert side.assignment.to_commit([T0]) == {T0: OffsetAndMetadata(2, "", 6)}
    side.assignment.committed({T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(0), T2: OffsetAndMetadata(1)})
    assert side.assignment.to_commit() == {}
    assert side.assignment.to_commit([T2]) == {}


def test_a_position_that_was_sought_back_is_committed() -> None:
    side = UserSide(T0, start=10)
    side.assignment.committed({T0: OffsetAndMetadata(10)})
    assert side.assignment.to_commit() == {}
    side.assignment.seek(T0, Position(5))
    assert side.assignment.to_commit() == {T0: OffsetAndMetadata(5)}


def test_a_position_that_was_looked_up() -> None:
    side = UserSide(T0, start=None)
    reading = side.assignment[T0]
    assert side.position(T0) is None
    assert side.assignment.to_commit() == {}
    assert not side.assignment.located(T0, reading.epoch + 1, Position(4))
    assert not side.assignment.located(T1, reading.epoch, Position(4))
    assert side.assignment.located(T0, reading.epoch, Position(4, 2))
    assert not side.assignment.located(T0, reading.epoch, Position(9))
    assert (side.position(T0), side.finished(T0)) == (Position(4, 2), Position(4, 2))


def test_the_end_of_a_partition() -> None:
    side = UserSide(T0)
    side.assignment.observed(T0, side.assignment[T0].epoch, 50)
    side.assignment.observed(T0, side.assignment[T0].epoch - 1, 90)
    side.assignment.observed(T1, 1, 90)
    assert side.assignment[T0].end_offset == 50


def test_seek_to_a_place_that_must_be_looked_up() -> None:
    side = UserSide(T0)
    side.assignment.seek(T0, OffsetTimestamp.LATEST)
    assert side.position(T0) is None
    assert side.told == [("seek", T0, OffsetTimestamp.LATEST)]


def test_pause_is_told_and_kept_over_an_assignment() -> None:
    side = UserSide(T0, T1)
    side.assignment.pause([T0])
    side.assignment.assign([T0, T2])
    assert side.told[-1] == ("pause", T0)
    side.assignment.resume([T0])
    assert side.told[-1] == ("resume", T0)


def test_resume_before_a_read_has_raised_the_error_that_stopped_a_partition() -> None:
    side = UserSide(T0)
    side.put(T0, made(0, b"a", b"b"))
    assert side.take() == 0
    side.stop(T0)
    side.assignment.resume([T0])
    assert side.told == [("seek", T0, Position(1, 0)), ("resume", T0)]
    assert (side.position(T0), side.finished(T0)) == (Position(1, 0), Position(0))
    assert side.take() is None
    assert side.finished(T0) == Position(1, 0)


def test_resume_before_a_position_was_found() -> None:
    side = UserSide(T0, start=None)
    side.assignment.seek(T0, OffsetTimestamp.LATEST)
    side.stop(T0)
    side.told.clear()
    side.assignment.resume([T0])
    assert side.told == [("seek", T0, OffsetTimestamp.LATEST), ("resume", T0)]
    assert side.take() is None


def test_an_error_is_raised_even_if_the_application_pauses_and_resumes_around_each_batch() -> None:
    side = UserSide(T0)
    side.assignment.pause([T0])
    side.stop(T0)
    assert side.take() is None
    side.assignment.resume([T0])
    with pytest.raises(NoOffset, match="stopped"):
        side.take()
    assert ("seek", T0, Position(0)) not in side.told
    side.assignment.resume([T0])
    assert ("seek", T0, Position(0)) in side.told


@pytest.mark.parametrize("call", ["pause", "resume"])
def test_partitions_that_are_not_assigned(call: str) -> None:
    with pytest.raises(LocalProtocolError, match="partition t-1 is not assigned"):
        getattr(UserSide(T0).assignment, call)([T1])


def test_nothing_of_a_new_partition_is_handed_out_before_the_application_knows_of_it() -> None:
    """The group assigns and withholds the partition, calls the listener, which may seek, and releases the partition."""
    side = UserSide(T0)
    side.assignment.assign([T0, T1], Position(0))
    side.assignment.withhold([T1])
    side.put(T1, made(0, b"a"))
    side.put(T0, made(0, b"b"))
    assert side.take_all() == [0]
    side.assignment.seek(T1, Position(5))
    assert side.take() is None
    side.assignment.assign([T0, T1])
    assert side.told[-1] == ("assign", {T0: Position(0), T1: Position(5)})
    side.put(T1, made(5, b"a"))
    assert side.take_all() == [5]


@pytest.mark.parametrize("call", ["withhold", "assign"])
def test_nothing_follows_what_is_cut_off_in_the_middle(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may take the next records as soon as the current ones are cut off."""
    side = UserSide(T0)
    side.put(T0, made(0, b"a", b"b"))
    side.take()
    reading = side.assignment[T0]
    held: list[bool] = []
    monkeypatch.setattr(Assignment, "_cut", lambda self, cut: held.append(cut.is_held))
    getattr(side.assignment, call)([T0] if call == "withhold" else [])
    assert held == [True]
    assert reading.withheld


def test_a_withheld_partition_is_not_fetched() -> None:
    side = UserSide(T0, T1)
    side.assignment.withhold([T0, T2])
    assert side.told == [("pause", T0)]
    assert side.assignment[T0].is_held


def test_a_reported_error_is_raised_by_one_read() -> None:
    side = UserSide(T0)
    error = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    side.assignment.report(error)
    side.put(T0, made(0, b"a"))
    assert side.assignment.is_unread(error)
    assert not side.assignment.is_unread(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        side.take()
    assert not side.assignment.is_unread(error)
    assert side.take_all() == [0]


def _unfinished() -> Position | None:
    side = _with_a_hole(auto_finish=False)
    assert side.take() == 0
    side.assignment.finish(T0, 0)
    assert side.take() == 2
    return side.finished(T0)


def _batch_after_a_hole() -> Position | None:
    side = _with_a_hole(auto_finish=False)
    side.assignment.finish(T0, 0, side.reader.take_batches(1)[0].next_offset)
    side.reader.take_batches(1)
    return side.finished(T0)


def _at_the_end_of_a_bounded_read() -> Position | None:
    side = _with_a_hole()
    side.assignment[T0].until = 2
    assert side.take_all() == [0]
    return side.position(T0)


def _skipped() -> Position | None:
    side = _with_a_hole()
    assert side.take() == 0
    side.assignment.halt(side.assignment[T0], NoOffset("stopped"))
    side.assignment.skip(T0, 2)
    return side.position(T0)


def _with_a_hole(*, auto_finish: bool = True) -> UserSide:
    """Return a partition with a control record at offset 1, where the second leader epoch begins."""
    side = UserSide(T0, auto_finish=auto_finish)
    transaction = made(0, b"a", producer=7, epoch=1)
    side.put(T0, transaction + marker(1, 7, is_commit=True, epoch=2) + made(2, b"b", b"c", epoch=2))
    return side


@pytest.mark.parametrize("position", [_unfinished, _batch_after_a_hole, _at_the_end_of_a_bounded_read, _skipped])
def test_no_position_is_behind_the_end_of_its_leader_epoch(position: Callable[[], Position | None]) -> None:
    """Otherwise, the leader would seem to have lost records; the consumer would go back, or stop without a policy."""
    ends = {1: 1, 2: 4, -1: 4}
    found = position()
    assert found is not None
    assert found.offset <= ends[found.leader_epoch]


#: The files in which the two sides meet.
SHARED = ("kafkawire/sdk/consumer/reading/assignment.py", "kafkawire/sdk/consumer/reading/unfinished_records.py")

#: Longer than any step of these tests takes unless it is blocked.
LIMIT_SECONDS = 10

CALLS: dict[str, Callable[[UserSide], object]] = {
    "seek": lambda side: side.assignment.seek(T0, Position(5)),
    "finish": lambda side: side.assignment.finish(T0, 0),
    "assign": lambda side: side.assignment.assign([T1, T0]),
    "withhold": lambda side: side.assignment.withhold([T0]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_interrupted_anywhere_does_not_hold_up_the_other_side(call: Callable[[UserSide], object]) -> None:
    """The effect is that of a signal handler that interrupts this thread at that point and waits for the I/O thread."""
    place = 0
    while True:
        side = UserSide(T0, auto_finish=False)
        side.put(T0, made(0, b"a", b"b"))
        side.take_all()
        steps: list[Callable[[int], None]] = []
        side.assignment._run = steps.append

        def other_side(side: UserSide = side) -> None:
            side.assignment.located(T0, side.assignment[T0].epoch, Position(9))
            side.assignment.renewed(T0, side.assignment[T0].epoch, Position(1))
            side.assignment.assign([T0])

        def handler(other_side: Callable[[], None] = other_side) -> None:
            thread = Thread(target=other_side, daemon=True)
            thread.start()
            thread.join(LIMIT_SECONDS)
            assert not thread.is_alive()

        if not interrupted_at([place], lambda side=side: call(side), handler, SHARED):  # type: ignore[misc]  # its default
            break
        for step in steps:
            step(0)
        told = [each for each in side.told if each[0] == "seek"]
        assert not told or told[-1] == ("seek", T0, side.assignment[T0].place), "must fetch from the last position"
        place += 3
    assert place > 30


@pytest.mark.parametrize("is_halted", [True, False])
def test_the_io_side_is_told_once_the_user_s_side_is_done(monkeypatch: pytest.MonkeyPatch, is_halted: bool) -> None:
    """The I/O side may be another thread, which looks immediately, so the old fetches must be gone by then."""
    side = UserSide(T0, T1)
    reading = side.assignment.readings[T0]
    side.put(T0, made(0, b"a"))
    side.assignment.pause([T0])
    assert side.take() is None, "fetched data must be set aside"
    seen: list[tuple[bool, bool]] = []
    monkeypatch.setattr(side.assignment, "_run", lambda step: seen.append((reading.halted, T0 in side.queue._parked)))
    if is_halted:
        side.assignment.halt(reading, NoOffset("stopped"))
    else:
        side.assignment.seek(T0, Position(5))
    assert seen == [(is_halted, False)]
