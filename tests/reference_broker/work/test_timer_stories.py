"""Each timer fires once, not before its deadline, and in order of deadlines.

Goal: this holds when the clock jumps, when timers are cancelled, when actions fail or set further timers, and when
work waits for its turn.

Method: run stories alongside a model that knows when each timer is due according to a clock that never jumps.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.work.timers import Timer, Timers
from tests.sdk.stories import Kinds, Step, run_stories, steps

KINDS: Kinds = {
    "set": (st.sampled_from([0, 1, 5, 100]),),
    "set another": (st.sampled_from([0, 1, 5, 100]),),
    "set as of earlier": (st.sampled_from([0, 5, 100]),),
    "set a failing one": (st.sampled_from([0, 5]),),
    "set one that sets another": (st.sampled_from([0, 5]), st.sampled_from([0, 5])),
    "cancel": (st.integers(0, 5),),
    "pass": (st.sampled_from([0, 1, 5, 200]),),
    "jump": (st.sampled_from([-50, 50]),),
    "take a turn": (),
}


class Scene:
    """Timers and a model of them.

    Attributes:
        called: the numbers of the timers that have fired, in order.
        due_ms: the due time of each pending timer, according to the clock that never jumps, and the timer's number.
    """

    def __init__(self) -> None:
        self.timers = Timers()
        self.lived_ms, self.jumped_ms = 0, 0
        self.called: list[int] = []
        self.due_ms: list[tuple[int, int]] = []
        self._timers: dict[int, Timer] = {}
        self._turns = 0
        self._turns_taken: list[int] = []
        #: The clock's jump before the last pause, as seen by a caller that had read the clock before it.
        self._earlier_jumps = 0

    @property
    def now_ms(self) -> int:
        return self.lived_ms + self.jumped_ms

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, f"_{name.replace(' ', '_')}")(*arguments)
        self.check()

    def check(self) -> None:
        earliest_ms = min(self.due_ms)[0] + self.jumped_ms if self.due_ms else None
        found_ms = self.timers.next_deadline_ms
        # Turns have a separate timer, whether or not they are taken.
        is_turn = self._turns > 0 and found_ms is not None and (earliest_ms is None or found_ms <= earliest_ms)
        assert found_ms == earliest_ms or is_turn
        assert {number for _, number in self.due_ms} == {n for n, timer in self._timers.items() if timer.is_pending}

    def _add(self, delay_ms: int, action: Any = None, jumped_ms: int | None = None) -> None:
        number = len(self._timers)

        def called(now_ms: int) -> None:
            assert now_ms == self.now_ms
            self.called.append(number)
            if action is not None:
                action()

        self.due_ms.append((self.lived_ms + delay_ms, number))
        if jumped_ms is None:
            self._timers[number] = self.timers.at(self.now_ms + delay_ms, called)
        else:  # the caller had read the clock before the jump
            before_ms = self.lived_ms + jumped_ms + delay_ms
            self.timers.as_of(jumped_ms, lambda: self._timers.setdefault(number, self.timers.at(before_ms, called)))

    def _set(self, delay_ms: int) -> None:
        self._add(delay_ms)

    _set_another = _set

    def _set_as_of_earlier(self, delay_ms: int) -> None:
        self._add(delay_ms, jumped_ms=self._earlier_jumps)

    def _set_a_failing_one(self, delay_ms: int) -> None:
        def fail() -> None:
            raise RuntimeError("a defect")

        self._add(delay_ms, fail)

    def _set_one_that_sets_another(self, delay_ms: int, later_ms: int) -> None:
        self._add(delay_ms, lambda: self._add(later_ms))

    def _cancel(self, which: int) -> None:
        if which < len(self.due_ms):
            _, number = self.due_ms.pop(which)
            self._timers[number].cancel()
            self._timers[number].cancel()

    def _pass(self, milliseconds: int) -> None:
        self.lived_ms += milliseconds
        self._earlier_jumps = self.jumped_ms
        due = sorted(entry for entry in self.due_ms if entry[0] <= self.lived_ms)
        self.due_ms = [entry for entry in self.due_ms if entry not in due]
        before = len(self.called)
        self.timers.fire(self.now_ms)
        assert self.called[before:] == [number for _, number in due], "each timer fires once, in order of deadlines"

    def _jump(self, milliseconds: int) -> None:
        self.jumped_ms += milliseconds
        self.timers.shift(milliseconds)
        assert self.timers.jumped_ms == self.jumped_ms

    def _take_a_turn(self) -> None:
        number = self._turns
        self._turns += 1
        self.timers.in_turn(self.now_ms, lambda now_ms: self._turns_taken.append(number))

    def end(self) -> None:
        """Let every timer fire."""
        while self.due_ms or len(self._turns_taken) < self._turns:
            self.act(("pass", 200))
        assert self._turns_taken == list(range(self._turns))
        assert all(not timer.is_pending for timer in self._timers.values())


@pytest.mark.defect
@run_stories(150)
@given(steps(KINDS, longest=30))
def test_each_timer_fires_once_and_in_order(story: list[Step]) -> None:
    scene = Scene()
    for step in story:
        scene.act(step)
    scene.end()
