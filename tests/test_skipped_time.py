"""Tests of time limits take no time, and nothing is late on a busy machine."""

from __future__ import annotations

import asyncio
import time

import pytest

from kafkawire.sdk.clock import monotonic_ms, monotonic_ns, monotonic_seconds
from tests.skipped_time import skipped_time


async def let_pass(seconds: float) -> None:
    """Wait for something that never happens, for some time."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().create_future()


def test_timers_fire_in_order_and_at_once() -> None:
    fired: list[str] = []

    async def wait(seconds: float, name: str) -> None:
        await let_pass(seconds)
        fired.append(name)

    async def run() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        begun_ms, begun = monotonic_ms(), loop.time()
        await asyncio.gather(wait(3_000, "late"), wait(0.001, "early"), wait(20, "between"))
        assert loop.time() == monotonic_seconds() == monotonic_ns() / 1e9
        return monotonic_ms() - begun_ms, loop.time() - begun

    started = time.monotonic()
    with skipped_time():
        assert asyncio.run(run()) == (3_000_000, pytest.approx(3_000, abs=0.001))
    assert fired == ["early", "between", "late"]
    assert time.monotonic() - started < 1_000


def test_no_time_passes_while_code_runs() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        begun, begun_ns = (loop.time(), monotonic_ms()), time.monotonic_ns()
        while time.monotonic_ns() < begun_ns + 2_000_000:
            pass
        assert (loop.time(), monotonic_ms()) == begun

    with skipped_time():
        asyncio.run(run())


def test_the_clocks_go_on_afterwards() -> None:
    before, begun_ms = asyncio.new_event_loop, monotonic_ms()
    with skipped_time():
        asyncio.run(let_pass(1_000))
    assert asyncio.new_event_loop is before
    assert monotonic_ms() - begun_ms < 1_000_000
    read_ns = monotonic_ns()
    while monotonic_ns() == read_ns:
        pass
