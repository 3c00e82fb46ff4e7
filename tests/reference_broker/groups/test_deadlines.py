"""Members that miss a deadline are fenced, and members that have left have no deadlines.

Method: set deadlines on a shard's timers, and fire them.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from kafkawire.reference_broker.groups.deadlines import Deadline, Deadlines
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


class Bench:
    """A group with the members `m` and `n`."""

    def __init__(self) -> None:
        group = ConsumerGroup("g")
        for name in ("m", "n"):
            group.put(ConsumerMember(name, epoch=3))
        self.group = group
        self.timers = Timers()
        self.outbox = Outbox()
        self.fenced: list[tuple[str, int]] = []
        self.deadlines = Deadlines({"g": group}, self.timers, self.outbox, self.fence)

    def fence(self, group, member, now_ms):
        self.fenced.append((member.member_id, now_ms))

    def finish(self, error=None):
        committed = self.outbox.take(None).committed
        if committed is not None:
            committed(error)


@pytest.mark.parametrize("deadline", Deadline)
def test_a_member_that_is_late_is_fenced(deadline):
    bench = Bench()
    bench.deadlines.set(deadline, "g", "m", 100, 0)
    assert bench.deadlines.is_set(deadline, "g", "m")
    bench.timers.fire(99)
    assert bench.fenced == []
    bench.timers.fire(100)
    assert bench.fenced == [("m", 100)]
    assert not bench.deadlines.is_set(deadline, "g", "m")


def test_a_new_deadline_takes_the_place_of_the_old():
    bench = Bench()
    bench.deadlines.set(Deadline.SESSION, "g", "m", 100, 0)
    bench.deadlines.set(Deadline.SESSION, "g", "m", 100, 50)
    bench.deadlines.set(Deadline.SESSION, "g", "n", -5, 0)
    bench.timers.fire(149)
    assert bench.fenced == [("n", 149)]
    bench.timers.fire(150)
    assert bench.fenced[1:] == [("m", 150)]


def test_what_is_done_or_gone_is_not_expected():
    bench = Bench()
    bench.deadlines.set(Deadline.JOIN, "g", "m", 100, 0)
    bench.deadlines.set(Deadline.SYNC, "g", "m", 100, 0)
    bench.deadlines.done(Deadline.JOIN, "g", "m")
    bench.deadlines.done(Deadline.JOIN, "g", "m")
    assert bench.deadlines.is_set(Deadline.SYNC, "g", "m")
    bench.deadlines.forget("g", "m")
    bench.deadlines.forget("g", "m")
    assert bench.timers.next_deadline_ms is None
    bench.deadlines.set(Deadline.SYNC, "g", "n", 100, 0)
    bench.deadlines.cancel()
    assert bench.timers.next_deadline_ms is None


def test_nobody_is_fenced_who_is_not_there_or_has_moved_on():
    bench = Bench()
    bench.deadlines.set(Deadline.REVOCATION, "g", "m", 100, 0, 2)
    bench.deadlines.set(Deadline.REVOCATION, "g", "n", 100, 0, 3)
    bench.deadlines.set(Deadline.SESSION, "g", "gone", 100, 0)
    bench.deadlines.set(Deadline.SESSION, "other", "m", 100, 0)
    bench.timers.fire(100)
    assert bench.fenced == [("n", 100)]


def test_fencing_that_could_not_be_written_comes_again():
    bench = Bench()
    bench.deadlines.set(Deadline.SESSION, "g", "m", 100, 0)
    bench.timers.fire(100)
    bench.finish(BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS))
    bench.timers.fire(600)
    bench.finish()
    assert bench.fenced == [("m", 100), ("m", 600)]
    assert bench.timers.next_deadline_ms is None


@pytest.mark.defect
def test_a_member_that_cannot_be_fenced_is_fenced_later():
    bench = Bench()
    faults = [RuntimeError("a defect")]

    def fence(group, member, now_ms):
        if faults:
            raise faults.pop()
        bench.fence(group, member, now_ms)

    deadlines = Deadlines({"g": bench.group}, bench.timers, bench.outbox, fence)
    deadlines.set(Deadline.SESSION, "g", "m", 100, 0)
    bench.timers.fire(100)
    assert bench.fenced == []
    later = bench.timers.next_deadline_ms
    assert later is not None
    bench.timers.fire(later)
    assert bench.fenced == [("m", later)]


def test_a_removal_that_fails_late_does_not_hurry_a_member_that_has_come_back():
    bench = Bench()
    bench.deadlines.set(Deadline.SESSION, "g", "m", 100, 0)
    bench.timers.fire(100)
    bench.deadlines.set(Deadline.SESSION, "g", "m", 1_000_000, 200)
    bench.finish(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    bench.timers.fire(1_000_199)
    assert bench.fenced == [("m", 100)]
    bench.timers.fire(1_000_200)
    assert bench.fenced == [("m", 100), ("m", 1_000_200)]
