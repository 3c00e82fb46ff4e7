"""Every waiting thread notices that an event loop has ended, and no timer is set if none is needed.

Method: count the watchers' notifications on event loops that are closed before or while others wait. The interval
between checks is shortened.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkawire.sdk.transport import loop_watch
from kafkawire.sdk.transport.io_thread import IoThread
from kafkawire.sdk.transport.latch import Latch
from tests.sdk.transport.driven import PATIENCE_SECONDS


class Watcher:
    """A watcher that counts the notifications that its event loop has ended."""

    def __init__(self) -> None:
        self.times = 0
        self.event = Latch()

    def check_loop(self) -> None:
        self.times += 1
        self.event.set()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "LOOK_SECONDS", 0.01)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()
    loop_watch.look()


def test_a_loop_that_ended_before_the_wait(loop: asyncio.AbstractEventLoop) -> None:
    watcher = Watcher()
    loop_watch.watch(watcher, loop)
    loop.close()
    assert loop_watch.wait(watcher.event, 0)
    loop_watch.look()
    assert watcher.times == 1


def test_a_loop_that_ends_while_a_thread_waits(loop: asyncio.AbstractEventLoop) -> None:
    watcher = Watcher()
    loop_watch.watch(watcher, loop)
    threading.Timer(0.03, loop.close).start()
    assert loop_watch.wait(watcher.event, None)


def test_a_wait_ends_in_time(loop: asyncio.AbstractEventLoop) -> None:
    watcher = Watcher()
    loop_watch.watch(watcher, loop)
    for seconds in (-1, 0, 0.001, 0.025):
        assert not loop_watch.wait(watcher.event, seconds)
    assert watcher.times == 0


def test_a_loop_that_ends_while_another_one_waits(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher()
    loop_watch.watch(watcher, loop)
    timers: list[asyncio.TimerHandle] = []

    async def wait() -> None:
        running = asyncio.get_running_loop()

        def call_later(
            delay: float, callback: Callable[..., object], *arguments: Any, **context: Any
        ) -> asyncio.TimerHandle:
            handle = type(running).call_later(running, delay, callback, *arguments, **context)
            if callback is loop_watch._look_again:
                timers.append(handle)
            return handle

        monkeypatch.setattr(running, "call_later", call_later)
        loop_watch.watch(ours := Watcher(), running)
        for _ in range(2):
            loop_watch.look_from(running)
        assert len(timers) == 1
        loop.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not watcher.times:
                await asyncio.sleep(0)
        assert running not in loop_watch._looking, "no other watcher may be left"
        assert ours.times == 0
        loop_watch.forget(ours, running)

    asyncio.run(wait())


def test_no_timer_for_what_the_loop_itself_or_an_io_thread_drives() -> None:
    thread = IoThread()
    on_thread, here = Watcher(), Watcher()
    loop_watch.watch(on_thread, thread.loop)

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        loop_watch.watch(here, loop)
        loop_watch.look_from(loop)
        assert loop not in loop_watch._looking

    asyncio.run(wait())
    assert on_thread.times == 0
    thread.stop()
    assert on_thread.times == 1, "the thread itself must check when it ends"
    loop_watch.look()
    assert here.times == 1


def test_what_is_forgotten_is_told_nothing(loop: asyncio.AbstractEventLoop) -> None:
    forgotten, other = Watcher(), Watcher()
    for each in (forgotten, other):
        loop_watch.watch(each, loop)
    for _ in range(2):
        loop_watch.forget(forgotten, loop)
    loop.close()
    loop_watch.look()
    assert (forgotten.times, other.times) == (0, 1)
    loop_watch.forget(other, loop)


def test_only_what_has_not_begun_is_closed() -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ends.append("ended")

    begun, not_begun = work(), work()
    begun.send(None)
    loop_watch.drop([None, begun, not_begun])
    assert not ends
    begun.close()
    assert ends == ["ended"]


def test_the_next_client_looks(loop: asyncio.AbstractEventLoop) -> None:
    left_behind, following = Watcher(), Watcher()
    loop_watch.watch(left_behind, loop)
    loop.close()
    other = asyncio.new_event_loop()
    loop_watch.watch(following, other)
    assert left_behind.times == 1
    other.close()
