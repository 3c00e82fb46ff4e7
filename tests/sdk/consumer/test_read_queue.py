"""Readers are woken by items and errors, whichever comes first, and each error is raised once.

Method: one thread plays both sides of a queue; `FetchQueue` and `ShareQueue`, which are based on it, have their own
tests.
"""

from __future__ import annotations

import traceback

import pytest

from kafkawire.sdk.consumer.read_queue import ReadQueue
from kafkawire.sdk.errors import BrokerError, Closed
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

REFUSAL = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


class Setting:
    def __init__(self) -> None:
        self.wakes = 0
        self.queue: ReadQueue[int] = ReadQueue(self._wake)

    def _wake(self) -> None:
        self.wakes += 1


def test_reads_that_wait() -> None:
    setting = Setting()
    queue = setting.queue
    first, second = queue.wait(), queue.wait()
    assert (first.done, queue.is_awaited, setting.wakes) == (False, True, 0)
    queue.signal()
    assert (first.done, second.done, queue.is_awaited) == (True, True, False)
    third = queue.wait()
    queue.cancel(third)
    queue.cancel(first)
    assert not queue.is_awaited
    queue.announces_reads = True
    queue.wait()
    assert setting.wakes == 1


def test_a_read_of_something_particular() -> None:
    queue = Setting().queue
    queue.report(Closed("over"))
    assert not queue.wait(lambda: False).done
    assert queue.wait(lambda: True).done


def test_an_error_about_a_subject_replaces_the_one_before_it() -> None:
    queue = Setting().queue
    old, new, other = (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text) for text in ("old", "new", "other"))
    queue.report(old, "a")
    queue.report(other, "b")
    queue.report(new, "a")
    assert list(queue.errors) == [other, new]
    assert (queue.has_reported("a"), queue.has_reported("c")) == (True, False)
    queue.retract("b")
    queue.retract("c")
    assert list(queue.errors) == [new]
    assert queue.take_reported("a") is new
    assert (queue.has_reported("a"), queue.take_reported("a")) == (False, None)
    queue.report(old, "a")
    assert queue.errors.popleft() is old
    queue.retract("a")
    queue.report(new, "a")
    assert queue.next_error() is new
    assert queue.next_error() is None


def test_an_error_of_a_read() -> None:
    queue = Setting().queue
    error = Closed("over")
    waiting = queue.wait()
    queue.report(error)
    assert waiting.done
    assert queue.wait().done
    assert queue.errors.popleft() is error
    assert not queue.wait().done


def test_a_refusal_is_raised_by_each_read_that_finds_nothing() -> None:
    queue = Setting().queue
    queue.refuse(REFUSAL)
    queue.refuse(REFUSAL)
    assert list(queue.errors) == [REFUSAL], "it is reported once"
    queue.errors.clear()
    assert queue.wait().done
    (again,) = queue.errors
    assert isinstance(again, BrokerError)
    assert again is not REFUSAL
    queue.errors.clear()
    queue.refuse(None)
    assert not queue.wait().done


def test_the_end() -> None:
    queue = Setting().queue
    queue.check()
    waiting = queue.wait()
    queue.fail(Closed("over"))
    assert waiting.done
    assert queue.wait().done
    with pytest.raises(Closed, match="over"):
        queue.check()


def test_an_error_of_the_application_keeps_its_traceback() -> None:
    queue = Setting().queue
    try:
        raise ValueError("by a listener")
    except ValueError as error:
        queue.fail(error)
    for _ in range(5):
        with pytest.raises(ValueError, match="by a listener") as raised:
            queue.check()
        assert len(traceback.extract_tb(raised.value.__traceback__)) < 5
