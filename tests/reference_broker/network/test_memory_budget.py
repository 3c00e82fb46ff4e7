"""Connections share a memory limit: some wait, some may exceed the limit, and some are closed.

Method: represent connections by numbers, and set the time.
"""

from __future__ import annotations

import random

from kafkawire.reference_broker.network.memory_budget import GRACE_MS, RATE_BYTES_MIN, MemoryBudget
from kafkawire.reference_broker.work.timers import Timers

LIMIT_BYTES = 1_000


class Connection:
    """A connection that receives one request after another."""

    def __init__(self, budget: MemoryBudget, frame_bytes: int) -> None:
        self.budget = budget
        self.frame_bytes = frame_bytes
        self.held_bytes = 0
        self.waits = False
        self.finished = 0
        self.unsent_bytes = 0
        self.reason = ""

    @property
    def missing_bytes(self) -> int:
        return self.frame_bytes - self.held_bytes

    def no_room(self) -> None:
        self.waits = True

    def room_again(self) -> None:
        self.waits = False

    def give_up(self, reason: str) -> None:
        self.reason = reason
        self.budget.received(-self.held_bytes)
        self.held_bytes = self.unsent_bytes = 0
        self.budget.done(self)

    def respond(self, unsent_bytes: int) -> None:
        """Write bytes, some of which the client does not read immediately."""
        self.unsent_bytes = unsent_bytes
        self.budget.unsent(self, unsent_bytes)

    def send(self, size_bytes: int) -> None:
        assert not self.waits
        size_bytes = min(size_bytes, self.missing_bytes)
        self.held_bytes += size_bytes
        self.budget.received(size_bytes)
        if self.missing_bytes:
            self.waits = self.budget.must_wait(self)
        else:
            self.finished += 1
            size_bytes, self.held_bytes = self.held_bytes, 0
            self.budget.received(-size_bytes)
            self.budget.done(self)


def test_with_room_nobody_waits():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    first, second = Connection(budget, 2_000), Connection(budget, 2_000)
    first.send(400)
    second.send(400)
    assert not first.waits
    assert not second.waits
    assert not budget.is_full


def test_the_one_that_lacks_least_goes_on_and_then_the_next():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    long, short, longer = Connection(budget, 2_000), Connection(budget, 1_000), Connection(budget, 3_000)
    for connection in (long, longer, short):
        connection.send(400)
    assert budget.is_full
    assert not short.waits, "this connection has the fewest missing bytes"
    longer.send(1)
    long.send(1)
    assert long.waits
    assert longer.waits
    short.send(600)
    assert short.finished
    assert not long.waits, "there is enough memory"
    assert not longer.waits
    longer.send(300)
    assert budget.is_full
    assert not longer.waits, "no other connection needs memory"
    long.send(1)
    assert (long.waits, longer.waits) == (False, True)
    long.send(2_000)
    assert long.finished
    assert not longer.waits


def test_the_next_goes_on_when_the_first_is_no_longer_read_although_its_memory_is_not_free():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    first, following = Connection(budget, 2_000), Connection(budget, 3_000)
    for connection in (following, first):
        connection.send(600)
    following.send(1)
    assert (budget.is_full, first.waits, following.waits) == (True, False, True)
    budget.done(first)
    assert (budget.is_full, following.waits) == (True, False)


def test_never_more_than_one_frame_beyond_the_limit():
    for seed in range(10):
        chance = random.Random(seed)
        budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
        frame_bytes_max, step_bytes = 5_000, 50
        connections = [Connection(budget, chance.randrange(100, frame_bytes_max)) for _ in range(40)]
        for _ in range(3_000):
            able = [connection for connection in connections if not connection.waits]
            assert able, f"seed {seed}: all connections are waiting"
            chance.choice(able).send(chance.randrange(1, step_bytes))
            most = LIMIT_BYTES + frame_bytes_max + step_bytes * len(connections)
            assert budget.received_bytes == sum(connection.held_bytes for connection in connections)
            assert budget.received_bytes <= most, f"seed {seed}"
        for connection in sorted(connections, key=lambda connection: connection.missing_bytes):
            if not connection.waits:
                connection.send(frame_bytes_max)
        assert any(connection.finished for connection in connections)


def test_two_that_lack_the_same_do_not_overtake_each_other():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    frame_bytes, step_bytes = 20 * LIMIT_BYTES, 100
    one, two = Connection(budget, frame_bytes), Connection(budget, frame_bytes)
    while not (one.finished or two.finished):
        for connection, other in ((one, two), (two, one)):
            if not connection.waits:
                connection.send(max(other.held_bytes - connection.held_bytes, 0) + step_bytes)
        assert budget.received_bytes <= LIMIT_BYTES + frame_bytes + 2 * step_bytes


def test_whoever_goes_on_is_not_overtaken_by_one_that_lacks_the_same():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    one, two = Connection(budget, 2 * LIMIT_BYTES), Connection(budget, 2 * LIMIT_BYTES)
    for connection in (one, two):
        connection.send(LIMIT_BYTES // 2)
    one.send(0)
    assert (one.waits, two.waits) == (True, False)


def test_whoever_is_preferred_and_sends_nothing_is_closed():
    timers = Timers()
    budget = MemoryBudget(LIMIT_BYTES, timers, int)
    slow, other = Connection(budget, RATE_BYTES_MIN), Connection(budget, 2 * RATE_BYTES_MIN)
    slow.send(LIMIT_BYTES)
    other.send(1)
    assert other.waits
    timers.fire(GRACE_MS + 998)
    assert not slow.reason
    timers.fire(GRACE_MS + 1_000)
    assert slow.reason == (
        f"{RATE_BYTES_MIN - LIMIT_BYTES} bytes of a request are still missing after 1999 ms, and the limit of 1000 "
        "bytes for all connections has been reached"
    )
    assert not other.waits


def test_slow_one_is_left_alone_once_there_is_room():
    timers = Timers()
    budget = MemoryBudget(LIMIT_BYTES, timers, int)
    slow, other = Connection(budget, LIMIT_BYTES), Connection(budget, LIMIT_BYTES)
    other.send(500)
    slow.send(600)
    other.send(1)
    assert other.waits
    budget.unsent(other, 0)
    other.give_up("gone")
    timers.fire(10**9)
    assert not slow.reason


def test_whoever_was_preferred_is_left_alone_once_its_request_is_complete() -> None:
    timers = Timers()
    budget = MemoryBudget(LIMIT_BYTES, timers, int)
    budget.received(LIMIT_BYTES)  # other clients
    quick = Connection(budget, 2_000)
    for _ in range(2):
        quick.send(1_000)
    assert quick.finished
    timers.fire(10**9)
    assert budget.is_full
    assert not quick.reason


def test_whoever_was_preferred_before_there_was_room_is_not_preferred_later() -> None:
    timers = Timers()
    budget = MemoryBudget(LIMIT_BYTES, timers, int)
    former, later = Connection(budget, 2_000), Connection(budget, 5_000)
    budget.received(LIMIT_BYTES)
    former.send(100)
    budget.received(-LIMIT_BYTES)
    timers.fire(10**9)
    budget.received(LIMIT_BYTES)
    later.send(100)
    assert not later.waits
    assert not former.reason


def test_a_response_that_has_been_read_no_longer_exceeds_the_limit() -> None:
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    read, other = Connection(budget, 0), Connection(budget, 0)
    read.respond(900)
    read.respond(0)
    for unsent_bytes in (100, 800):
        other.respond(unsent_bytes)
        assert not other.reason
    assert budget.unsent_bytes == 800


def test_who_holds_most_and_does_not_read_is_closed_first():
    timers, clock = Timers(), [0]
    budget = MemoryBudget(LIMIT_BYTES, timers, lambda: clock[0])
    small, stuck, slow, new, newer = (Connection(budget, 0) for _ in range(5))
    small.respond(20)
    stuck.respond(200)
    clock[0] = GRACE_MS
    slow.respond(280)
    assert budget.unsent_bytes == LIMIT_BYTES // 2
    new.respond(300)
    assert not stuck.reason, "one connection may exceed the limit"
    newer.respond(290)
    assert stuck.reason == (
        "the client has not read 200 bytes of responses, and unread responses take more than half of the 1000 bytes of "
        "memory shared by all connections"
    )
    assert newer.reason, "nothing is known yet about the remaining connections"
    assert not any(each.reason for each in (small, slow, new))
    assert budget.unsent_bytes == 600


def test_large_response_that_is_not_read_is_closed_and_small_ones_are_left_alone():
    timers, clock = Timers(), [0]
    budget = MemoryBudget(LIMIT_BYTES, timers, lambda: clock[0])
    readers = [Connection(budget, 0) for _ in range(5)]
    large = Connection(budget, 0)
    for reader in readers:
        reader.respond(10)
    large.respond(900)
    for reader in readers:
        reader.respond(10)
    clock[0] = GRACE_MS - 1
    timers.fire(clock[0])
    assert not large.reason
    clock[0] = GRACE_MS
    timers.fire(clock[0])
    assert large.reason
    assert not any(reader.reason for reader in readers)
    assert budget.unsent_bytes == 50


def test_another_large_response_goes_on_once_the_one_that_is_not_read_is_closed():
    timers, clock = Timers(), [0]
    budget = MemoryBudget(LIMIT_BYTES, timers, lambda: clock[0])
    stuck, new = Connection(budget, 0), Connection(budget, 0)
    stuck.respond(900)
    clock[0] = GRACE_MS
    new.respond(800)
    assert stuck.reason
    assert not new.reason
    assert budget.unsent_bytes == 800
    clock[0] = 2 * GRACE_MS
    timers.fire(clock[0])
    assert new.reason
    assert budget.unsent_bytes == 0


def test_large_responses_that_are_read_are_completed_one_after_the_other():
    timers, clock = Timers(), [0]
    limit_bytes = 16 * RATE_BYTES_MIN
    budget = MemoryBudget(limit_bytes, timers, lambda: clock[0])
    first, second = Connection(budget, 0), Connection(budget, 0)
    first.respond(limit_bytes)
    while first.unsent_bytes > limit_bytes // 2:
        second.reason = ""
        second.respond(limit_bytes)
        assert second.reason, "otherwise, the other response would never be complete"
        first.unsent_bytes -= RATE_BYTES_MIN
        clock[0] += 1_000
        timers.fire(clock[0])
        assert not first.reason
        assert budget.unsent_bytes == first.unsent_bytes
    second.reason = ""
    second.respond(limit_bytes)
    assert not second.reason
    first.respond(0)
    second.respond(0)
    timers.fire(clock[0] + GRACE_MS)
    assert timers.next_deadline_ms is None


def test_slow_reader_of_a_large_response_is_closed():
    timers, clock = Timers(), [0]
    limit_bytes = 16 * RATE_BYTES_MIN
    budget = MemoryBudget(limit_bytes, timers, lambda: clock[0])
    slow = Connection(budget, 0)
    slow.respond(limit_bytes)
    for _ in range(3):
        slow.unsent_bytes -= RATE_BYTES_MIN // 2
        clock[0] += GRACE_MS
        timers.fire(clock[0])
    assert slow.reason, "at half of the minimum rate, it is more than a second behind"
    assert budget.unsent_bytes == 0


def test_reader_at_the_minimum_rate_is_never_behind():
    timers, clock, seconds = Timers(), [0], 2_000
    budget = MemoryBudget(2 * seconds * RATE_BYTES_MIN, timers, lambda: clock[0])
    reader = Connection(budget, 0)
    reader.respond(2 * seconds * RATE_BYTES_MIN)
    for _ in range(seconds):
        assert timers.next_deadline_ms == clock[0] + GRACE_MS, "the connection's rate is checked"
        reader.unsent_bytes -= RATE_BYTES_MIN * GRACE_MS // 1_000
        clock[0] += GRACE_MS
        timers.fire(clock[0])
        assert not reader.reason
    assert timers.next_deadline_ms is None


def test_jump_of_the_clock_makes_nobody_slow():
    timers, clock = Timers(), [0]
    budget = MemoryBudget(LIMIT_BYTES, timers, lambda: clock[0])
    large = Connection(budget, 0)
    large.respond(900)
    clock[0] += 3_600_000
    timers.shift(3_600_000)
    timers.fire(clock[0])
    Connection(budget, 0).respond(501)
    assert not large.reason


def test_responses_that_are_read_make_room():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    reader, one, two = Connection(budget, 0), Connection(budget, 2_000), Connection(budget, 3_000)
    budget.unsent(reader, 500)
    one.send(500)
    two.send(10)
    assert two.waits
    budget.unsent(reader, 0)
    assert not two.waits


def test_one_that_is_gone_while_it_waits_is_not_called_again():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    one, gone, other = Connection(budget, 2_000), Connection(budget, 3_000), Connection(budget, 4_000)
    one.send(LIMIT_BYTES)
    gone.send(1)
    other.send(1)
    assert (gone.waits, other.waits) == (True, True)
    gone.give_up("gone")
    one.send(LIMIT_BYTES)
    assert one.finished
    assert (gone.waits, other.waits) == (True, False)
