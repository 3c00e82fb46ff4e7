"""The clock follows the machine's clocks and reports jumps.

Method: set both of the machine's clocks.
"""

from kafkawire.reference_broker.network.clock import JUMP_MS, BrokerClock


class Machine:
    """A machine that can be suspended."""

    def __init__(self) -> None:
        self.wall_ms = 1_700_000_000_000
        self.steady_ms = 5_000
        self.jumps: list[int] = []
        self.clock = BrokerClock(lambda: self.wall_ms, lambda: self.steady_ms)
        self.clock.on_jump = self.jumps.append

    def run(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds
        self.steady_ms += milliseconds


def test_a_jump_that_nobody_is_told_of():
    clock = BrokerClock(iter((1_000_000, 2_000_000, 2_000_000)).__next__, lambda: 5_000)
    assert clock() == clock() == 2_000_000


def test_runs_with_the_machine():
    machine = Machine()
    for _ in range(3):
        machine.run(1_234)
        assert machine.clock() == machine.wall_ms
    assert not machine.jumps


def test_follows_a_suspend_and_a_clock_that_is_set_back():
    machine = Machine()
    for jump_ms in (3_600_000, -1_000, JUMP_MS):
        machine.wall_ms += jump_ms
        assert machine.clock() == machine.wall_ms
        machine.run(10)
        assert machine.clock() == machine.wall_ms
    assert machine.jumps == [3_600_000, -1_000, JUMP_MS]


def test_never_goes_back_while_the_clock_is_put_right_slowly():
    machine = Machine()
    machine.wall_ms -= JUMP_MS - 1
    assert machine.clock() == machine.wall_ms + JUMP_MS - 1
    assert not machine.jumps
    machine.wall_ms -= 1
    assert machine.clock() == machine.wall_ms
    assert machine.jumps == [-JUMP_MS]


def test_time_of_the_deadlines_does_not_jump_before_they_do():
    machine = Machine()
    machine.wall_ms -= 20_000
    before = machine.clock.known_ms
    assert before == machine.wall_ms + 20_000
    assert not machine.jumps
    machine.clock()
    assert machine.clock.known_ms == machine.wall_ms
    assert machine.jumps == [-20_000]
