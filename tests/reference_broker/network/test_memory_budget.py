"""Memory is shared: who waits, who goes on beyond the limit, who is closed.

Method: connections are numbers; time is one that the test chooses.
"""

from __future__ import annotations

import random

from kafkawire.reference_broker.network.memory_budget import GRACE_MS, RATE_BYTES_MIN, MemoryBudget
from kafkawire.reference_broker.timers import Timers

LIMIT_BYTES = 1_000


class Connection:
    """Receives one request after the other."""

    def __init__(self, budget: MemoryBudget, frame_bytes: int) -> None:
        self.budget = budget
        self.frame_bytes = frame_bytes
        self.held_bytes = 0
        self.waits = False
        self.finished = 0
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
        self.held_bytes = 0
        self.budget.done(self)

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
    assert not short.waits, "it lacks least"
    longer.send(1)
    long.send(1)
    assert long.waits
    assert longer.waits
    short.send(600)
    assert short.finished
    assert not long.waits, "there is room"
    assert not longer.waits
    longer.send(300)
    assert budget.is_full
    assert not longer.waits, "nobody else asks"
    long.send(1)
    assert (long.waits, longer.waits) == (False, True)
    long.send(2_000)
    assert long.finished
    assert not longer.waits


def test_never_more_than_one_frame_beyond_the_limit():
    for seed in range(10):
        chance = random.Random(seed)
        budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
        frame_bytes_max, step_bytes = 5_000, 50
        connections = [Connection(budget, chance.randrange(100, frame_bytes_max)) for _ in range(40)]
        for _ in range(3_000):
            able = [connection for connection in connections if not connection.waits]
            assert able, f"seed {seed}: everybody waits"
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
        f"{RATE_BYTES_MIN - LIMIT_BYTES} bytes of a request are missing after 1999 ms, while the memory of 1000 bytes "
        "for all connections is used up"
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


def test_those_that_do_not_read_are_closed_the_longest_stuck_first():
    budget = MemoryBudget(LIMIT_BYTES, Timers(), int)
    stuck, slow, new = (Connection(budget, 0) for _ in range(3))
    budget.unsent(stuck, LIMIT_BYTES // 2 - 1)
    budget.unsent(slow, 1)
    assert not stuck.reason, "half is theirs"
    budget.unsent(stuck, 200)
    budget.unsent(slow, 250)
    budget.unsent(stuck, 240)
    budget.unsent(slow, 240)
    assert budget.unsent_bytes == 480
    budget.unsent(new, 100)
    assert "does not read" in stuck.reason
    assert not slow.reason
    assert not new.reason
    assert budget.unsent_bytes == 340
    budget.unsent(new, 5_000)
    assert slow.reason
    assert not new.reason, "a response may be large"
    budget.unsent(new, 0)
    assert budget.unsent_bytes == 0


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
