"""One side takes each item that the other puts, once and in order; a waiting reader is woken, on a loop or a thread.

Method: let one thread play both sides, then let two threads run concurrently.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from kafkawire.sdk.consumer.fetching.queue import Fetched, FetchQueue
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.read_queue import LOGIN
from kafkawire.sdk.consumer.reading.assignment import Reading
from kafkawire.sdk.errors import AuthenticationFailed, BrokerError, Closed, UnsupportedVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.user_side import T0, T1


class Setting:
    """A queue, and the reading state of two partitions."""

    def __init__(self) -> None:
        self.wakes = 0
        self.queue = FetchQueue(self._wake)
        self.readings = {each: Reading(each, Position(0)) for each in (T0, T1)}

    def put(self, partition: TopicPartition, offset: int, size: int = 10) -> None:
        """Put a partition's data."""
        epoch = self.readings[partition].epoch
        self.queue.put(Fetched(partition, epoch, offset, Position(offset + 1), bytes(size)))

    def take(self) -> tuple[int, int] | None:
        """Take an item, and return its partition and offset."""
        fetched = self.queue.take(self.readings)
        return None if fetched is None else (fetched.partition.partition, fetched.start)

    def _wake(self) -> None:
        self.wakes += 1


FETCHED = Fetched(T0, 0, 0, Position(1), b"records")

COMING: dict[str, Callable[[FetchQueue], object]] = {
    "records": lambda queue: queue.deliver(FETCHED),
    "an error": lambda queue: queue.report(Closed("over")),
    "the end": lambda queue: queue.fail(Closed("over")),
    "the data that was set aside": lambda queue: queue.unpark(T0),
}


@pytest.mark.parametrize("come", COMING.values(), ids=COMING)
def test_whoever_is_woken_finds_what_has_come(come: Callable[[FetchQueue], object]) -> None:
    """A reader on another thread looks at the queue immediately."""
    setting = Setting()
    queue, found = setting.queue, []
    setting.readings[T0].paused = True
    setting.put(T0, 0)
    assert setting.take() is None
    queue.wait().add_done_callback(lambda: found.append(queue._has_news()))
    come(queue)
    assert found == [True]


def test_nothing_is_left_of_what_is_dropped() -> None:
    setting = Setting()
    setting.readings[T0].paused = True
    setting.put(T0, 0)
    assert setting.take() is None
    setting.put(T1, 5)
    setting.queue.clear()
    setting.readings[T0].paused = False
    setting.queue.unpark(T0)
    assert setting.take() is None


def test_in_order() -> None:
    setting = Setting()
    setting.put(T0, 0)
    setting.put(T1, 5)
    setting.put(T0, 1)
    assert [setting.take() for _ in range(4)] == [(0, 0), (1, 5), (0, 1), None]


def test_sizes_and_releases() -> None:
    setting = Setting()
    setting.put(T0, 0, 30)
    setting.put(T1, 0, 12)
    assert setting.queue.size_bytes == 42
    setting.take()
    assert (setting.queue.size_bytes, setting.wakes) == (12, 0)
    setting.queue.starved = True
    setting.take()
    assert (setting.queue.size_bytes, setting.wakes) == (0, 1)
    epochs = [setting.readings[each].epoch for each in (T0, T1)]
    assert list(setting.queue.released) == [(T0, epochs[0], 30), (T1, epochs[1], 12)]


def test_what_was_fetched_before_a_seek_is_dropped() -> None:
    setting = Setting()
    setting.put(T0, 0)
    setting.readings[T0].begin(Position(7))
    setting.put(T0, 7)
    assert [setting.take(), setting.take()] == [(0, 7), None]
    del setting.readings[T1]
    setting.queue.put(Fetched(T1, 1, 0, Position(1), b"x"))
    assert setting.take() is None
    assert setting.queue.size_bytes == 0


def test_what_belongs_to_a_paused_partition_waits_and_takes_no_room() -> None:
    setting = Setting()
    setting.put(T0, 0)
    setting.put(T0, 1)
    setting.put(T1, 0)
    setting.readings[T0].paused = True
    assert [setting.take(), setting.take()] == [(1, 0), None]
    assert setting.queue.size_bytes == 0
    setting.put(T1, 1)
    setting.readings[T0].paused = False
    setting.queue.unpark(T0)
    assert [setting.take() for _ in range(4)] == [(0, 0), (0, 1), (1, 1), None]
    assert setting.queue.size_bytes == 0


def test_what_was_set_aside_for_a_partition_that_is_given_up_is_dropped() -> None:
    setting = Setting()
    setting.put(T0, 0)
    setting.readings[T0].paused = True
    assert setting.take() is None
    setting.queue.forget(T0)
    setting.readings[T0].paused = False
    setting.queue.unpark(T0)
    assert setting.take() is None
    setting.queue.forget(T0)


def test_whoever_waits_is_woken_once_something_comes() -> None:
    setting = Setting()
    first, second = setting.queue.wait(), setting.queue.wait()
    assert (first.done, setting.queue.is_awaited) == (False, True)
    setting.put(T0, 0)
    setting.queue.signal()
    assert (first.done, second.done, setting.queue.is_awaited) == (True, True, False)
    assert setting.queue.wait().done  # there is already something to take


def test_a_reader_that_waits_for_something_else_is_woken_by_what_comes_only() -> None:
    setting = Setting()
    setting.put(T0, 0)
    waiting = setting.queue.wait(lambda: False)
    assert not waiting.done
    setting.queue.signal()
    assert waiting.done
    assert setting.queue.wait(lambda: True).done


def test_whoever_is_woken_finds_why() -> None:
    setting = Setting()
    queue, error = setting.queue, Closed("the consumer was closed")
    setting.put(T1, 0)
    setting.readings[T1].paused = True
    assert setting.take() is None
    epoch = setting.readings[T0].epoch
    causes: list[Callable[[], object]] = [
        lambda: queue.deliver(Fetched(T0, epoch, 0, Position(1), b"x")),
        lambda: queue.report(error),
        lambda: queue.unpark(T1),
        lambda: queue.fail(error),
    ]
    found = []
    for cause in causes:
        waiting = queue.wait()
        waiting.add_done_callback(lambda: found.append((len(queue._items), len(queue.errors), queue.failure)))
        cause()
        queue._items.clear()
        queue.errors.clear()
    assert found == [(1, 0, None), (0, 1, None), (1, 0, None), (0, 0, error)]


def test_a_wait_that_was_given_up_leaves_nothing() -> None:
    setting = Setting()
    for _ in range(10):
        setting.queue.cancel(setting.queue.wait())
    assert not setting.queue.is_awaited
    setting.queue.cancel(setting.queue.wait())


def test_errors_and_the_end() -> None:
    setting = Setting()
    error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    epoch = setting.readings[T0].epoch
    setting.queue.put(Fetched(T0, epoch, 0, Position(0), error=error))
    assert setting.queue.take_error(T1, epoch) is None
    assert setting.queue.take_error(T0, epoch) is error
    assert setting.take() is None
    promise = setting.queue.wait()
    setting.queue.fail(Closed("closed"))
    assert promise.done
    assert setting.queue.wait().done


def test_a_refusal_meets_every_read_that_would_wait() -> None:
    queue = Setting().queue
    promise = queue.wait()
    refusal = UnsupportedVersion("Fetch")
    for _ in range(2):
        queue.refuse(refusal)
    assert promise.done
    assert [queue.errors.popleft()] == [refusal]
    assert not queue.errors
    for _ in range(2):
        assert queue.wait().done
        assert queue.wait().done
        assert [str(error) for error in queue.errors] == [str(refusal)]
        queue.errors.clear()
    queue.refuse(None)
    assert not queue.wait().done


def test_a_refused_login_is_raised_once() -> None:
    """Several machines may report the same attempt, and attempts at several brokers may fail by turns."""
    queue = Setting().queue
    promise = queue.wait()
    first, other, second = (AuthenticationFailed(address, "no") for address in ("a:1", "b:1", "a:1"))
    queue.refused(1, None)
    assert not promise.done
    queue.refused(1, first)
    assert promise.done
    for _ in range(2):
        queue.refused(1, first)
        queue.report(first)
        assert list(queue.errors) == [first]
    assert queue.has_reported(LOGIN)
    assert (queue.take_reported(LOGIN), queue.take_reported(LOGIN)) == (first, None)
    queue.refused(2, other)
    assert queue.errors.popleft() is other
    for _ in range(2):
        queue.refused(1, first)
        queue.refused(2, other)
    assert not queue.wait().done
    queue.refused(1, second)
    queue.report(other)
    assert list(queue.errors) == [second], "one at a time"


@pytest.mark.parametrize("count", [3_000])
def test_two_threads(count: int) -> None:
    """One thread puts items, and another takes them and waits; nothing is lost or duplicated, and no reader hangs."""
    setting = Setting()

    def put() -> None:
        for offset in range(count):
            setting.put(T0, offset)
            setting.queue.signal()

    thread = Thread(target=put)
    thread.start()
    found = []
    while len(found) < count:
        taken = setting.take()
        if taken is None:
            promise = setting.queue.wait()
            promise.wait(10)
            setting.queue.cancel(promise)
        else:
            found.append(taken[1])
    thread.join()
    assert found == list(range(count))
    assert setting.queue.size_bytes == 0
