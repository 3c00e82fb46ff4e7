"""Work runs on another thread, in order, and its result is reported on the event loop.

Method: use the test's own event loop; work is held back until the test releases it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from kafkawire.reference_broker.network.background import BackgroundWork

TIMEOUT_SECONDS = 20


def test_runs_elsewhere_in_order_and_tells_here():
    async def run() -> None:
        background, told = BackgroundWork(), []
        here, elsewhere = threading.get_ident(), []

        def fail() -> None:
            elsewhere.append(threading.get_ident())
            raise OSError("the disk is full")

        def done(error: Exception | None) -> None:
            assert threading.get_ident() == here
            told.append(str(error))

        background(fail, done)
        background(lambda: elsewhere.append(threading.get_ident()), done)
        await background.idle()
        assert told == ["the disk is full", "None"]
        assert here not in elsewhere
        background.close()

    asyncio.run(run())


def test_idle_waits_for_what_follows():
    async def run() -> None:
        background, told = BackgroundWork(), []

        def again(left: int) -> None:
            told.append(left)
            if left:
                background(lambda: None, lambda error: again(left - 1))

        again(3)
        await asyncio.wait_for(background.idle(), TIMEOUT_SECONDS)
        assert told == [3, 2, 1, 0]
        background.close()
        await BackgroundWork().idle()

    asyncio.run(run())


def test_idle_leaves_the_loop_alone_while_it_waits():
    async def run() -> None:
        background, may_end = BackgroundWork(), threading.Event()

        def work() -> None:
            may_end.wait(TIMEOUT_SECONDS)

        background(work, lambda error: None)
        waiting = background.idle()
        first = waiting.send(None)
        waiting.close()
        may_end.set()
        await asyncio.wait_for(background.idle(), TIMEOUT_SECONDS)
        background.close()
        assert asyncio.isfuture(first), "the loop does not keep polling"

    asyncio.run(run())


def test_idle_ends_with_the_last_work():
    async def run() -> None:
        background, told = BackgroundWork(), []
        background(lambda: None, told.append)
        await asyncio.wait_for(background.idle(), TIMEOUT_SECONDS)
        assert told == [None]
        background.close()

    asyncio.run(run())


def test_kill_waits_for_nothing_begins_nothing_and_tells_nobody():
    async def run() -> None:
        background, told = BackgroundWork(), []
        begun, go_on, in_time = threading.Semaphore(0), threading.Event(), []

        def wait() -> None:
            begun.release()
            in_time.append(go_on.wait(TIMEOUT_SECONDS))

        for _ in range(20):
            background(wait, told.append)
        assert begun.acquire(timeout=TIMEOUT_SECONDS)
        background.kill()
        go_on.set()
        await asyncio.wait_for(background.idle(), TIMEOUT_SECONDS)
        assert all(in_time)
        assert 0 < len(in_time) < 20
        assert not told

    asyncio.run(run())


def test_several_at_once_from_another_thread():
    async def run() -> None:
        background, both = BackgroundWork(), threading.Barrier(2)
        places: list[int] = []  # the results of work that met at the barrier, which breaks if one item waits alone
        works: list[Callable[[], Any]] = [lambda: places.append(both.wait(TIMEOUT_SECONDS))] * 4
        await asyncio.get_running_loop().run_in_executor(None, background.each, works)
        assert sorted(places) == [0, 0, 1, 1]
        background.close()

    asyncio.run(run())
