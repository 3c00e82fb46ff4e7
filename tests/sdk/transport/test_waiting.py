"""A coroutine that awaits promises runs without an event loop, and never blocks a loop on which it depends.

Method: let threads and I/O threads settle promises, for callers with and without an event loop.
"""

from __future__ import annotations

import asyncio
import socket
from threading import Timer

import pytest

from kafkawire.sdk.errors import Closed, LocalProtocolError
from kafkawire.sdk.transport.io_thread import IoThread
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import FAIR_MS, YieldTimer, check_may_block, driving, result_of, yield_to_loop
from tests.sdk.spinning import spin_ms


def kept_soon(value: int) -> Promise[int]:
    promise: Promise[int] = Promise()
    Timer(0.01, promise.keep, [value]).start()
    return promise


async def doubled(value: int) -> int:
    await yield_to_loop()
    return 2 * await kept_soon(value)


def test_a_coroutine_runs_without_a_loop() -> None:
    assert result_of(doubled, 4) == 8


def test_a_loop_of_the_caller_is_blocked_and_goes_on() -> None:
    async def run() -> int:
        loop = asyncio.get_running_loop()
        found = result_of(doubled, 4)
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
        return found

    assert asyncio.run(run()) == 8


def test_errors_come_out() -> None:
    async def fails() -> None:
        promise: Promise[None] = Promise()
        promise.fail(Closed("over"))
        await promise

    with pytest.raises(Closed, match="over"):
        result_of(fails)


def test_nothing_but_promises_may_be_awaited() -> None:
    async def wrong() -> None:
        await Suspends()

    with pytest.raises(AssertionError, match="something other than a promise"):
        result_of(wrong)


class Suspends:
    def __await__(self):  # type: ignore[no-untyped-def]  # yields an object that no promise yields
        yield


def test_an_io_thread_does_not_wait_for_itself() -> None:
    thread = IoThread("waiting")
    found: Promise[str] = Promise()

    def call() -> None:
        try:
            result_of(doubled, 1)
        except LocalProtocolError as error:
            found.keep(str(error))

    try:
        thread.loop.call_soon_threadsafe(call)
        assert "would block the event loop that it waits for" in found.wait(5)
    finally:
        thread.stop()


def test_a_loop_with_a_driver_is_refused_where_it_matters() -> None:
    async def run() -> None:
        check_may_block(driving)
        driving.add(asyncio.get_running_loop())
        with pytest.raises(LocalProtocolError):
            check_may_block(driving)

    check_may_block(driving)
    asyncio.run(run())


def test_within_a_limit() -> None:
    async def run() -> list[bool]:
        never: Promise[int] = Promise()
        kept: Promise[int] = Promise()
        kept.keep(1)
        soon = kept_soon(5)
        return [await never.within(1), await never.within(-5), await kept.within(0), await soon.within(5_000)]

    assert result_of(run) == [False, False, True, True]
    assert asyncio.run(run()) == [False, False, True, True]
    assert result_of(kept_soon(3).within, None)


def test_a_turn_lets_all_through_that_a_heartbeat_needs() -> None:
    """The callbacks for a due timer and a readable socket run, and so do the callbacks that they schedule."""

    async def run() -> list[str]:
        loop, seen = asyncio.get_running_loop(), []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.send(b"response")

            def received() -> None:
                loop.remove_reader(ours)
                seen.append("received")
                loop.call_soon(seen.append, "turn of the driver")

            loop.add_reader(ours, received)
            loop.call_later(0, lambda: loop.call_soon(seen.append, "timer"))
            spin_ms(2)  # the timer is due
            await YieldTimer().yield_now()
            return seen

    assert sorted(asyncio.run(run())) == ["received", "timer", "turn of the driver"]


def test_turns_are_due_when_none_was_given_for_a_while() -> None:
    async def run() -> None:
        timer = YieldTimer()
        assert timer.is_due()
        await timer.yield_now()
        spin_ms(FAIR_MS)
        assert timer.is_due()

    asyncio.run(run())
    result_of(YieldTimer().yield_now)  # without an event loop, there is nothing to yield to
