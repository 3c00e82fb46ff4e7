"""Markers reach every partition as soon as it is available, whatever fails on the way; hopeless ones are abandoned.

Method: plan the outcomes of partitions, and set the time.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.transactions import markers as module
from kafkawire.reference_broker.transactions.markers import Markers
from kafkawire.reference_broker.transactions.transaction import Transaction
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

A, B = ("a", 0), ("b", 0)


class Bench:
    def __init__(self, *, held=False):
        self.timers = Timers()
        self.tried = []
        self.failing = {}
        self.is_held, self.held = held, []
        self.abandoned = []
        self.done = []
        self.next_partitions = []
        self.markers = Markers(self.timers, self.write)

    def write(self, partition, marker, version, done, now_ms):
        self.tried.append((partition, now_ms))

        def finish():
            code = self.failing.get(partition)
            done(None if code is None else BrokerError(code))

        self.held.append(finish) if self.is_held else finish()
        return lambda: self.abandoned.append(partition)

    def send(self, *partitions, epoch=1):
        transaction = Transaction(
            "t", 5, epoch=epoch, state=TransactionState.PREPARE_COMMIT, partitions=frozenset(partitions)
        )
        self.markers.send(transaction, 3, self.ended, 0)

    def ended(self, now_ms):
        self.done.append(now_ms)
        if self.next_partitions:
            self.send(self.next_partitions.pop(), epoch=2)

    def run(self, until_ms):
        while (deadline_ms := self.timers.next_deadline_ms) is not None and deadline_ms <= until_ms:
            self.timers.fire(deadline_ms)


def test_nothing_to_write():
    bench = Bench()
    bench.send()
    assert bench.done == [0]


def test_all_partitions_get_theirs():
    bench = Bench()
    bench.send(B, A)
    assert (bench.tried, bench.done) == ([(A, 0), (B, 0)], [0])
    assert bench.markers.remaining("t") is None


def test_what_fails_is_tried_again_after_pauses_that_grow(caplog):
    bench = Bench()
    bench.failing[A] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.send(A, B)
    assert (bench.done, bench.markers.remaining("t")) == ([], {A})
    bench.run(20_000)
    assert [now_ms for partition, now_ms in bench.tried if partition == A][:8] == [
        0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300,
    ]  # fmt: skip
    bench.failing.clear()
    bench.run(30_000)
    assert bench.done == [21_300]
    assert caplog.messages[0] == "could not write the marker of 't' to a-0: KAFKA_STORAGE_ERROR"
    assert len(caplog.messages) < 5


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_what_needs_no_marker_any_more(code):
    bench = Bench()
    bench.failing[A] = code
    bench.send(A)
    assert (bench.done, len(bench.tried)) == ([0], 1)


def test_many_markers_are_written_in_steps(monkeypatch):
    monkeypatch.setattr(module, "_STEP_MARKERS", 2)
    bench = Bench()
    bench.send(*[("a", number) for number in range(5)])
    counts = [len(bench.tried)]
    while bench.timers.next_deadline_ms is not None:
        bench.timers.fire(0)
        counts.append(len(bench.tried))
    assert (counts, bench.done) == ([2, 4, 5], [0])


def test_the_next_transaction_may_end_as_soon_as_this_one_has():
    """The coordinator continues in the callback; the next transaction has its own markers."""
    bench = Bench()
    bench.next_partitions = [A]
    bench.send(B)
    assert (bench.tried, bench.done) == ([(B, 0), (A, 0)], [0, 0])
    bench.is_held, bench.next_partitions = True, [A]
    bench.send(B, epoch=3)
    bench.held.pop()()
    assert bench.markers.remaining("t") == {A}
    bench.held.pop()()
    assert bench.markers.remaining("t") is None


def test_outcomes_that_come_late():
    bench = Bench(held=True)
    bench.send(A, B)
    assert bench.done == []
    bench.held.pop(1)()
    assert bench.markers.remaining("t") == {A}
    bench.held.pop(0)()
    assert bench.done == [0]


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_pauses_follow_the_clock(jump_ms):
    bench = Bench(held=True)
    bench.failing[A] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.send(A)
    bench.timers.shift(jump_ms)
    bench.held.pop()()
    assert bench.timers.next_deadline_ms == jump_ms + 100


def test_a_transaction_is_sent_once():
    bench = Bench(held=True)
    bench.send(A)
    bench.send(A)
    assert len(bench.tried) == 1
    bench.send(A, epoch=2)
    assert len(bench.tried) == 2, "a later marker replaces it"
    for finish in bench.held:
        finish()
    assert bench.done == [0]


def test_cancelled_markers_stay_away():
    bench = Bench()
    bench.failing[A] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.send(A)
    assert bench.markers.ids() == ["t"]
    bench.markers.cancel("t")
    bench.markers.cancel("t")
    bench.run(10_000)
    assert (len(bench.tried), bench.done, bench.markers.ids()) == (1, [], [])


def test_cancelled_attempts_are_abandoned(caplog):
    bench = Bench(held=True)
    bench.failing[A] = bench.failing[B] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.send(A, B)
    for finish in bench.held:
        finish()
    bench.held.clear()
    caplog.clear()
    bench.run(100)
    bench.markers.cancel("t")
    assert bench.abandoned == [A, B], "the markers of this round are sent once"
    for finish in bench.held:
        finish()
    bench.run(10_000)
    assert (len(bench.tried), bench.done, caplog.messages) == (4, [], [])
