"""Timers without a clock: callbacks with deadlines, which the caller fires with the current time.

The core and the group coordinator set timers; the server (or a test) asks for the next deadline, waits, and calls
`fire`. A deadline that moves often (such as that of a member's session) is stored separately from its timer and checked
when the timer fires, which is cheaper than a new timer for each move. If a callback fails, the error is logged, and
other timers are not affected.

Work gets the time at which it begins. By the time it ends, the clock may have jumped, so later steps run `as_of` the
    beginning: the deadlines that they set or keep are shifted as if they had been set then.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import ParamSpec

from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.sdk.log_limit import LogLimit

__all__ = ["Later", "Timer", "Timers", "nothing"]

P = ParamSpec("P")

Action = Callable[[int], None]

#: Calls an action after a number of milliseconds; returns a function that cancels the call.
Later = Callable[[int, Callable[[], None]], Callable[[], None]]

#: Below this number of entries, removing cancelled timers is not worthwhile.
_SIZE_MIN = 1_000

_log = logging.getLogger("kafkawire.broker")


class Timer:
    """A callback with a deadline, created by `Timers.at`."""

    __slots__ = ("_action", "deadline_ms")

    def __init__(self, deadline_ms: int, action: Action) -> None:
        self.deadline_ms = deadline_ms
        self._action: Action | None = action

    @property
    def is_pending(self) -> bool:
        """Whether the timer has been neither fired nor cancelled."""
        return self._action is not None

    def cancel(self) -> None:
        """Drop the callback; may be called more than once."""
        self._action = None

    def fire(self, now_ms: int) -> None:
        """Call the callback, unless the timer has already been fired or cancelled."""
        action, self._action = self._action, None
        if action is not None:
            action(now_ms)


class Timers:
    """Timers, ordered by deadline.

    Attributes:
        on_earlier: called with the deadline when a new timer becomes the earliest one.
    """

    def __init__(self) -> None:
        self.on_earlier: Callable[[int], None] | None = None
        self._jumped_ms = 0
        #: The value of `jumped_ms` when the current work began; None for work that uses the current time.
        self._as_of_ms: int | None = None
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._size_max = _SIZE_MIN
        self._lines = LogLimit(_log)
        #: Actions that wait for their turn, and whether the current turn has already been taken.
        self._turns: deque[Timer] = deque()
        self._is_turn_taken = False

    @property
    def count(self) -> int:
        """The number of timers, including some that have been cancelled."""
        return len(self._heap)

    @property
    def jumped_ms(self) -> int:
        """The sum of all clock jumps. Deadlines stored elsewhere have this sum subtracted."""
        return self._jumped_ms if self._as_of_ms is None else self._as_of_ms

    def as_of(self, jumped_ms: int, step: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> None:
        """Run a step whose time was read when the clock had jumped by `jumped_ms` in total."""
        before, self._as_of_ms = self._as_of_ms, jumped_ms
        try:
            step(*arguments, **named)
        finally:
            self._as_of_ms = before

    def as_of_now(self, step: Callable[P, object]) -> Callable[P, None]:
        """Return a step that, when run later, runs as of the present time; see `as_of`."""
        return partial(self.as_of, self.jumped_ms, step)

    def at(self, deadline_ms: int, action: Action) -> Timer:
        """Call `action(now_ms)` once the deadline has passed.

        Args:
            deadline_ms: the deadline; timers with equal deadlines fire in the order in which they were set.
            action: may set and cancel timers.
        """
        if self._as_of_ms is not None:
            deadline_ms += self._jumped_ms - self._as_of_ms
        if len(self._heap) >= self._size_max:
            self._forget_cancelled()
        timer = Timer(deadline_ms, action)
        heapq.heappush(self._heap, (deadline_ms, next(self._numbers), timer))
        if self.on_earlier is not None and self._heap[0][2] is timer:
            self.on_earlier(deadline_ms)
        return timer

    def soon(self, action: Action) -> Timer:
        """Call `action(now_ms)` when the timers are fired next, for a step that needs the time or must not run now."""
        return self.at(0, action)

    def in_turn(self, now_ms: int, action: Action) -> Timer:
        """Call `action(now_ms)` immediately, or later if another action has had a turn since the timers last fired.

        Meant for long work in pieces: requests are handled between any two pieces.
        """
        timer = Timer(now_ms, action)
        self._turns.append(timer)
        if not self._is_turn_taken:
            self._take_turn(now_ms)
        return timer

    def _take_turn(self, now_ms: int) -> None:
        self._is_turn_taken = False
        while self._turns and not self._is_turn_taken:
            timer = self._turns.popleft()
            if timer.is_pending:
                self._is_turn_taken = True
                self.at(now_ms, self._take_turn)
                timer.fire(now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a pending timer, or None if there is none."""
        while self._heap and not self._heap[0][2].is_pending:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _forget_cancelled(self) -> None:
        """Limit the heap to twice the pending timers, since clients choose how distant a cancelled deadline is."""
        self._heap = [entry for entry in self._heap if entry[2].is_pending]
        heapq.heapify(self._heap)
        self._size_max = max(2 * len(self._heap), _SIZE_MIN)

    def fire(self, now_ms: int) -> None:
        """Call all actions due at `now_ms`; those set in the meantime wait for the next call."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            try:
                timer.fire(now_ms)
            except BrokerEnd:
                raise
            except BaseException:  # includes errors in handlers: without the other timers, the broker would hang
                self._lines.exception("timer", now_ms, "a timer that was due at %d ms failed", timer.deadline_ms)

    def shift(self, by_ms: int) -> None:
        """Move all deadlines, since the clock has jumped; a timer that was due in 5 s is still due in 5 s."""
        self._jumped_ms += by_ms
        for _, _, timer in self._heap:
            timer.deadline_ms += by_ms
        self._heap = [(deadline_ms + by_ms, made, timer) for deadline_ms, made, timer in self._heap]


def nothing() -> None:
    """Do nothing; used in place of a callback, or of a cancelling function when nothing is in progress."""
