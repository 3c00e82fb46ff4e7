"""Concurrent callers share one run of an operation, and its error; random numbers and sleeps are within bounds.

Method: run operations that finish when the test lets them.
"""

from __future__ import annotations

import asyncio
import gc
import traceback

import pytest

from kafkawire.sdk.errors import ConnectionLost
from kafkawire.sdk.transport.timing import (
    SingleFlight,
    random_fraction,
    random_text,
    sleep_ms,
    together,
)


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


def test_each_caller_gets_an_error_of_its_own() -> None:
    """Otherwise, one traceback would show the calls of all callers."""

    async def run() -> None:
        async def fail() -> None:
            raise ConnectionLost("no") from OSError("why")

        flight: SingleFlight[None] = SingleFlight()
        results = await asyncio.gather(*(flight.run(1, fail) for _ in range(1_000)), return_exceptions=True)
        errors = [result for result in results if isinstance(result, ConnectionLost)]
        assert len({id(error) for error in errors}) == 1_000
        assert all(isinstance(error.__cause__, OSError) for error in errors)
        assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors}) == 1

    asyncio.run(run())


def test_an_error_that_nobody_waits_for_is_no_news() -> None:
    """Otherwise, asyncio would log later that the exception was never retrieved."""

    async def run() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        leave = asyncio.Event()

        async def fail() -> None:
            await leave.wait()
            raise ConnectionLost("no")

        flight: SingleFlight[None] = SingleFlight()
        caller = asyncio.ensure_future(flight.run(1, fail))
        for _ in range(2):  # until the operation is also waiting
            await asyncio.sleep(0)
        caller.cancel()
        leave.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert caller.cancelled()
        del caller  # its traceback refers to the operation, which would be reported when it is collected
        gc.collect()
        assert reported == []

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


def test_fractions() -> None:
    found = [random_fraction() for _ in range(100)]
    assert 0 <= min(found) < 0.5 <= max(found) < 1


def test_sleep_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(sleep_ms(1_500))
    assert slept == [1.5]


def test_random_texts_differ_and_fit_into_a_nonce() -> None:
    found = {random_text() for _ in range(1000)}
    assert len(found) == 1000
    assert all(text.isalnum() and text.isascii() and len(text) == 36 for text in found)


def test_together_ends_when_all_have_ended_and_raises_the_first_error() -> None:
    ended: list[int] = []

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        ended.append(number)
        if number in (1, 3):
            raise ValueError(number)
        return number

    async def run() -> None:
        assert await together(work(number) for number in (4, 5, 6)) == [4, 5, 6]
        ended.clear()
        with pytest.raises(ValueError, match="1"):
            await together(work(number) for number in range(5))
        assert ended == [0, 1, 2, 3, 4]

    asyncio.run(run())
