"""A promise is settled once, and every waiting call notices, whether on the same loop, on another, or without a loop.

Method: settle promises before, while and after a call waits, from the same thread and from others.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from kafkawire.sdk.errors import Closed, KafkaWireError, RequestTimedOut
from kafkawire.sdk.transport import loop_watch
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import result_of


def later(action: object, seconds: float = 0.02) -> threading.Timer:
    """Run a function on another thread soon."""
    timer = threading.Timer(seconds, action)  # type: ignore[arg-type]  # any callable
    timer.start()
    return timer


def test_awaiting_on_the_loop_that_settles() -> None:
    async def run() -> None:
        promise: Promise[int] = Promise()
        asyncio.get_running_loop().call_later(0.01, promise.keep, 5)
        assert await promise == 5
        assert await promise == 5, "a promise may be awaited any number of times"

    asyncio.run(run())


def test_awaiting_what_another_thread_settles() -> None:
    async def run() -> None:
        promise: Promise[int] = Promise()
        later(lambda: promise.keep(5))
        assert await asyncio.wait_for(asyncio.ensure_future(_awaited(promise)), 5) == 5

    asyncio.run(run())


def test_whether_it_is_kept() -> None:
    kept: Promise[int] = Promise()
    failed: Promise[int] = Promise()
    assert not kept.is_kept
    kept.keep(5)
    failed.fail(ZeroDivisionError())
    assert (kept.is_kept, failed.is_kept) == (True, False)


async def _awaited(promise: Promise[int]) -> int:
    return await promise


def test_an_interrupted_wait_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop_watch, "wait", interrupted)
    cancelled: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        result_of(_awaited, Promise[int](lambda: cancelled.append(True)))
    assert cancelled == [True]


def test_waiting_without_a_loop() -> None:
    promise: Promise[int] = Promise()
    later(lambda: promise.keep(5))
    assert promise.wait(5) == 5
    with pytest.raises(RequestTimedOut, match=r"no result within 0.01 s"):
        Promise[int]().wait(0.01)


def test_whether_it_is_settled_within_a_limit() -> None:
    kept: Promise[int] = Promise()
    kept.keep(1)

    async def within(promise: Promise[int], timeout_ms: int | None) -> bool:
        return await promise.within(timeout_ms)

    assert asyncio.run(within(kept, None))
    assert asyncio.run(within(kept, 0))
    for timeout_ms in (None, 5_000):
        soon: Promise[int] = Promise()
        later(lambda soon=soon: soon.keep(1))
        assert asyncio.run(within(soon, timeout_ms))
    assert not asyncio.run(within(Promise(), 0))


def test_an_error_reaches_everybody() -> None:
    async def run() -> None:
        promise: Promise[int] = Promise()
        waiters = [asyncio.ensure_future(_awaited(promise)) for _ in range(3)]
        await asyncio.sleep(0)
        promise.fail(Closed("over"))
        assert [str(error) for error in await asyncio.gather(*waiters, return_exceptions=True)] == ["over"] * 3

    asyncio.run(run())


def test_only_the_first_settling_counts() -> None:
    promise: Promise[int] = Promise()
    calls: list[bool] = []
    promise.add_done_callback(lambda: calls.append(promise.done))
    promise.keep(1)
    promise.keep(2)
    promise.fail(Closed("late"))
    promise.add_done_callback(lambda: calls.append(promise.done))
    assert promise.wait() == 1
    assert calls == [True, True]


def test_a_cancelled_waiter_leaves_the_promise_alone() -> None:
    async def run() -> None:
        promise: Promise[int] = Promise()
        waiter = asyncio.ensure_future(_awaited(promise))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.sleep(0)
        promise.keep(3)
        assert await promise == 3

    asyncio.run(run())


def test_cancelling_can_be_heard_of() -> None:
    async def run() -> None:
        heard: list[bool] = []
        promise: Promise[int] = Promise(lambda: heard.append(True))
        waiter = asyncio.ensure_future(_awaited(promise))
        await asyncio.sleep(0)
        assert not heard
        waiter.cancel()
        await asyncio.sleep(0)
        assert heard == [True]

    asyncio.run(run())


def test_settling_after_the_waiting_loop_was_closed() -> None:
    promise: Promise[int] = Promise()

    async def gives_up() -> None:
        await asyncio.wait_for(_awaited(promise), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(gives_up())
    promise.keep(1)
    assert promise.wait() == 1


def test_an_error_raised_often_does_not_grow() -> None:
    promise: Promise[int] = Promise()
    promise.fail(KafkaWireError("again"))
    depths = []
    for _ in range(5):
        with pytest.raises(KafkaWireError) as caught:
            promise.wait()
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


def test_two_threads_settle_while_a_third_waits() -> None:
    promises: list[Promise[int]] = [Promise() for _ in range(200)]
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.extend(promise.wait(5) for promise in promises))
    waiter.start()
    for value in (1, 2):
        later(lambda value=value: [promise.keep(value) for promise in promises], 0)
    waiter.join(10)
    assert len(found) == 200
    assert set(found) <= {1, 2}
    assert [promise.wait() for promise in promises] == found, "the first settling must stand"
