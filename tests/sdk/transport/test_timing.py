"""Concurrent callers share one run of an operation, and its errors; random numbers and sleeps are within their bounds.

Method: operations that finish when the test lets them.
"""

from __future__ import annotations

import asyncio
from threading import get_ident

import pytest

from kafkawire.sdk.transport.timing import SingleFlight, in_thread, random_fraction, random_text, sleep_ms


def test_callers_join_a_running_operation() -> None:
    async def run() -> None:
        runs = 0
        leave = asyncio.Event()

        async def operation() -> int:
            nonlocal runs
            runs += 1
            number = runs
            await leave.wait()
            return number

        flight: SingleFlight[int] = SingleFlight()
        callers = [asyncio.ensure_future(flight.run("a", operation)) for _ in range(3)]
        other = asyncio.ensure_future(flight.run("b", operation))
        await asyncio.sleep(0)
        callers[0].cancel()
        leave.set()
        assert await asyncio.gather(*callers[1:], other) == [1, 1, 2]
        assert callers[0].cancelled()
        assert await flight.run("a", operation) == 3

    asyncio.run(run())


def test_all_callers_get_the_error_and_the_next_run_is_new() -> None:
    async def run() -> None:
        async def fail() -> None:
            raise OSError("no")

        flight: SingleFlight[None] = SingleFlight()
        results = await asyncio.gather(flight.run(1, fail), flight.run(1, fail), return_exceptions=True)
        assert [str(result) for result in results] == ["no", "no"]
        with pytest.raises(OSError, match="no"):
            await flight.run(1, fail)

    asyncio.run(run())


def test_close_cancels_what_runs() -> None:
    async def run() -> None:
        flight: SingleFlight[bool] = SingleFlight()
        caller = asyncio.ensure_future(flight.run(1, asyncio.Event().wait))
        await asyncio.sleep(0)
        await flight.close()
        with pytest.raises(asyncio.CancelledError):
            await caller

    asyncio.run(run())


def test_fraction_and_pause() -> None:
    assert all(0 <= random_fraction() < 1 for _ in range(100))
    asyncio.run(sleep_ms(0))


def test_random_texts_differ_and_fit_into_a_nonce() -> None:
    found = {random_text() for _ in range(1000)}
    assert len(found) == 1000
    assert all(text.isalnum() and text.isascii() and len(text) == 36 for text in found)


def test_what_blocks_runs_beside_the_loop() -> None:
    async def run() -> None:
        assert await in_thread(get_ident) != get_ident()

    asyncio.run(run())
