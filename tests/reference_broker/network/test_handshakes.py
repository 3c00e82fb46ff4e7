"""Handshakes in progress are limited in number and time, and take turns with everything else.

Method: simulate handshakes on the test's own event loop, with time that the test advances.
"""

from __future__ import annotations

import asyncio

from kafkawire.reference_broker.network.handshakes import HANDSHAKE_TIMEOUT_MS, HANDSHAKES_MAX, TURN_MS, Handshakes
from tests.reference_broker.network.wire_bench import on_a_loop


class Clock:
    """Time that advances when told, and with each step of a handshake."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Played:
    """A handshake."""

    def __init__(self, clock: Clock, step_ms: int = 0) -> None:
        self._clock = clock
        self._step_ms = step_ms
        self.steps = 0
        self.reasons: list[str] = []

    def step(self) -> None:
        self.steps += 1
        self._clock.now_ms += self._step_ms

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)


def test_the_oldest_ends_if_there_are_too_many() -> None:
    async def test() -> None:
        found = Handshakes(clock := Clock())
        played = [Played(clock) for _ in range(HANDSHAKES_MAX + 2)]
        for each in played:
            found.begin(each)
        assert [bool(each.reasons) for each in played[:3]] == [True, True, False]
        assert "1000 later TLS handshakes" in played[0].reasons[0]
        assert len(found) == HANDSHAKES_MAX
        found.close()
        assert len(found) == 0
        assert played[-1].reasons == ["the broker is stopping"]

    on_a_loop(test())


def test_each_has_a_time_limit(monkeypatch) -> None:
    waits: list[float] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", lambda seconds, call: waits.append(seconds) or Timer())
        found = Handshakes(clock := Clock())
        first, second, third = Played(clock), Played(clock), Played(clock)
        found.begin(first)
        clock.now_ms = 10_000
        found.begin(second)
        found.begin(third)
        found.end(third)
        clock.now_ms = HANDSHAKE_TIMEOUT_MS
        found._look()
        assert first.reasons == ["no TLS handshake within 30000 ms"]
        assert not second.reasons
        clock.now_ms = HANDSHAKE_TIMEOUT_MS + 10_000
        found._look()
        assert second.reasons
        assert not third.reasons
        assert waits == [30.0, 10.0], "one timer for all"
        found.begin(third)
        assert len(waits) == 3
        found.close()

    on_a_loop(test())


class Timer:
    def cancel(self) -> None:
        pass


def test_others_have_a_turn_between_handshakes() -> None:
    async def test() -> None:
        found = Handshakes(clock := Clock())
        played = [Played(clock, step_ms=TURN_MS // 2) for _ in range(10)]
        for each in played:
            found.continue_with(each)
        found.continue_with(played[0])
        found.end(played[9])
        done = []
        while sum(each.steps for each in played) < 9:
            await asyncio.sleep(0)
            done.append(sum(each.steps for each in played))
        assert done == [2, 4, 6, 8, 9]
        for _ in range(3):
            await asyncio.sleep(0)
        assert [each.steps for each in played] == [1] * 9 + [0]

    on_a_loop(test())
