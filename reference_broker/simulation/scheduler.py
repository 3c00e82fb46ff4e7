"""Virtual time: a queue of events, the computers on which they happen, and a digest of everything that has happened.

Events happen one at a time. Work posted on a computer happens in order, a little later; the delay is drawn from the
seed, so two computers can get ahead of each other in every possible way. Nothing here reads a real clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final

__all__ = ["START_MS", "Clock", "Event", "Host", "Scheduler", "WallClock"]

#: The time at the beginning, in milliseconds since the epoch: 2023-11-14.
START_MS: Final = 1_700_000_000_000

#: The maximum delay before work posted on a computer happens.
_POST_US_MAX: Final = 20

#: The number of trace lines that are kept.
_TRACE_LINES_MAX: Final = 100_000


class Event:
    """A scheduled event, created by `Host.later_us`."""

    __slots__ = ("action", "host")

    def __init__(self, host: Host, action: Callable[[], object]) -> None:
        self.host = host
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Cancel the event."""
        self.action = None


class Scheduler:
    """Runs events in chronological order.

    Args:
        seed: determines all random choices.

    Attributes:
        now_us: the virtual time, in microseconds from the beginning.
        steps: how many events have happened.
        digest: the digest of all events and notes so far.
        trace: the notes, each with its time.
        current: the computer on which the last event happened.
        after_step: called after each event, with the computer on which it happened.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.digest = 0
        self.trace: list[str] = []
        self.current: Host | None = None
        self.after_step: Callable[[Host], None] = lambda host: None
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0
        self._hosts = 0

    def chance(self, name: str) -> Random:
        """Return the random number generator for one part, unaffected by what other parts draw."""
        return Random(f"{self.seed} {name}")

    def number_of_host(self) -> int:
        """Return the number of a new computer."""
        self._hosts += 1
        return self._hosts

    def put(self, time_us: int, event: Event) -> None:
        """Schedule an event at a time."""
        self._count += 1
        heappush(self._heap, (time_us, self._count, event))

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.digest = zlib.crc32(text.encode(), self.digest)
        if len(self.trace) < _TRACE_LINES_MAX:
            self.trace.append(f"{self.now_us / 1_000_000:.6f} {text}")

    def mix(self, data: bytes) -> None:
        """Add bytes to the digest."""
        self.digest = zlib.crc32(data, self.digest)

    def run_to(self, end_us: int) -> None:
        """Run all events up to a time."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            time_us, number, event = heappop(heap)
            action, host = event.action, event.host
            if action is None or not host.is_alive:
                continue
            if host.paused_to_us > time_us:
                heappush(heap, (host.paused_to_us, number, event))
                continue
            event.action = None
            self.current = host
            self.now_us = time_us
            self.steps += 1
            # A hash of numbers alone is the same in every process.
            self.digest = hash((self.digest, time_us, host.number)) & 0xFFFFFFFF
            action()
            self.after_step(host)
        self.now_us = max(self.now_us, end_us)


class Clock:
    """The clock of a computer, in milliseconds since the epoch.

    Args:
        scheduler: provides the virtual time.
        offset_ms: how far the clock is ahead.
        drift_ppm: how much faster the clock runs, in parts per million.
    """

    def __init__(self, scheduler: Scheduler, offset_ms: int = 0, drift_ppm: int = 0) -> None:
        self._scheduler = scheduler
        self._offset_ms = offset_ms
        self._drift_ppm = drift_ppm

    def __call__(self) -> int:
        """Return the time."""
        now_us = self._scheduler.now_us
        return START_MS + self._offset_ms + (now_us + now_us * self._drift_ppm // 1_000_000) // 1_000

    def until_us(self, time_ms: int) -> int:
        """Return how many microseconds pass until this clock shows a time; at least one millisecond on this clock."""
        return max(time_ms - self(), 1) * 1_000


class WallClock:
    """The clock that a computer shows, which can be set; durations are measured with the other one.

    Args:
        steady: the clock that cannot be set.

    Attributes:
        ahead_ms: how far this clock is ahead of the other one.
    """

    def __init__(self, steady: Clock) -> None:
        self._steady = steady
        self.ahead_ms = 0

    def __call__(self) -> int:
        """Return the time."""
        return self._steady() + self.ahead_ms


class Host:
    """A computer, or rather one process on it, from its start to its end.

    Args:
        scheduler: see `Scheduler`.
        name: the name of the computer.
        clock: the clock of the computer.
        chance: draws the delays.

    Attributes:
        scheduler, name, clock, chance: see above.
        number: the host's number, in order of creation.
        is_alive: whether events may still happen on it.
        paused_to_us: when it resumes after a pause.
    """

    def __init__(self, scheduler: Scheduler, name: str, clock: Clock, chance: Random) -> None:
        self.scheduler = scheduler
        self.name = name
        self.clock = clock
        self.chance = chance
        self.number = scheduler.number_of_host()
        self.is_alive = True
        self.paused_to_us = 0
        self._posted_us = 0

    def post(self, action: Callable[[], object]) -> None:
        """Make something happen soon, after everything posted before it."""
        scheduler = self.scheduler
        time_us = scheduler.now_us + int(self.chance.random() * _POST_US_MAX)
        self._posted_us = time_us = max(time_us, self._posted_us)
        scheduler.put(time_us, Event(self, action))

    def later_us(self, delay_us: int, action: Callable[[], object]) -> Event:
        """Make something happen after some microseconds."""
        event = Event(self, action)
        self.scheduler.put(self.scheduler.now_us + delay_us, event)
        return event

    def pause(self, duration_us: int) -> None:
        """Hold back all events for a while, as SIGSTOP does; they happen in order at the end of the pause."""
        self.paused_to_us = max(self.paused_to_us, self.scheduler.now_us + duration_us)

    def end(self) -> None:
        """Drop all further events on this host."""
        self.is_alive = False
