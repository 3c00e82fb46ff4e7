"""Without threads, blocking work runs in place, and its failure is reported as if from a thread."""

import logging

import pytest

from kafkawire.reference_broker.work.background import at_once, call, one_by_one


def test_at_once():
    order = []
    at_once(lambda: order.append("work"), lambda error: order.append(error))
    assert order == ["work", None]


def test_failure_of_the_disk():
    error = OSError(5, "broken")
    told = []

    def work():
        raise error

    at_once(work, told.append)
    assert told == [error]


def test_one_by_one():
    order = []
    one_by_one([lambda: order.append(1), lambda: order.append(2)])
    assert order == [1, 2]


@pytest.mark.defect
def test_a_callback_that_fails_is_logged_and_takes_nothing_with_it(caplog):
    def fail(value):
        raise ValueError(value)

    with caplog.at_level(logging.ERROR, "kafkawire.broker"):
        call(fail, "odd")
    assert caplog.messages == ["a callback of a log failed"]
