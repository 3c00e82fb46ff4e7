"""Blocking calls run on a few threads of the clients' own, only for callers still waiting, and never delay an exit.

Method: call functions that block until the test releases them; run programs in separate processes, which end while a
name server is silent and while asyncio's default executor is busy.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkawire.sdk.transport import threads
from kafkawire.sdk.transport.threads import THREADS_MAX, in_thread
from tests.sdk.transport.driven import PATIENCE_SECONDS


class Blocking:
    """A function whose calls block until `gate` is set.

    Attributes:
        begun: a semaphore that each call releases.
        calls: the number of calls.
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        self.begun.release()
        assert self.gate.wait(PATIENCE_SECONDS)
        return threading.get_ident()

    async def began(self, count: int) -> None:
        """Return once this many more calls have begun."""
        for _ in range(count):
            while not self.begun.acquire(blocking=False):
                await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_threads", threads._Threads())


def test_it_runs_elsewhere_though_the_default_executor_is_busy() -> None:
    async def run() -> None:
        loop, busy = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        other = asyncio.ensure_future(asyncio.to_thread(busy.wait))
        assert await in_thread(threading.get_ident) != threading.get_ident()
        busy.set()
        await other

    asyncio.run(run())


def test_those_who_ask_for_the_same_share_one_call() -> None:
    async def run() -> None:
        blocking = Blocking()
        callers = [asyncio.ensure_future(in_thread(blocking, "a")) for _ in range(3)]
        other = asyncio.ensure_future(in_thread(blocking, "b"))
        alone = [asyncio.ensure_future(in_thread(blocking)) for _ in range(2)]
        await blocking.began(4)
        callers[0].cancel()  # the other callers keep waiting
        blocking.gate.set()
        found = await asyncio.gather(*callers[1:], other, *alone)
        assert found[0] == found[1]
        assert blocking.calls == 4
        await in_thread(blocking, "a")
        assert blocking.calls == 5, "a finished run must not be shared"

    asyncio.run(run())


def test_there_are_few_threads_and_what_nobody_waits_for_does_not_begin() -> None:
    async def run() -> None:
        blocking, late, unwanted = Blocking(), Blocking(), Blocking()
        first = [asyncio.ensure_future(in_thread(blocking, number)) for number in range(THREADS_MAX)]
        await blocking.began(THREADS_MAX)
        given_up = [asyncio.ensure_future(in_thread(unwanted, f"u{number}")) for number in range(5)]
        waiting = [asyncio.ensure_future(in_thread(late, f"l{number}")) for number in range(5)]
        await asyncio.sleep(0)
        for each in given_up:
            each.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        late.gate.set()
        blocking.gate.set()
        await asyncio.gather(*first, *waiting)
        assert (late.calls, unwanted.calls) == (5, 0)
        unwanted.gate.set()
        await in_thread(unwanted, "u0")
        assert unwanted.calls == 1, "it must be possible to request abandoned work again"

    asyncio.run(run())


def test_who_comes_as_it_is_given_up_has_it_begun_anew() -> None:
    pool = threads._Threads()
    calls = [0]

    def count() -> int:
        calls[0] += 1
        return calls[0]

    async def run() -> None:
        pool._free.clear()
        first = asyncio.ensure_future(pool.result(count, "a"))
        await asyncio.sleep(0)
        (work,) = pool._queue
        work.waiting.clear()
        second = asyncio.ensure_future(pool.result(count, "a"))
        await asyncio.sleep(0)
        work.waiting.clear()  # as if a thread took the work between the two steps of joining it
        pool._free.append(None)
        pool._hire()
        assert await asyncio.gather(first, second) in ([1, 1], [1, 2], [2, 1])

    asyncio.run(run())


def test_a_greenlet_in_place_of_a_thread_wakes_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The greenlet's call runs on the loop's thread while the loop sleeps in its selector."""
    woken: list[object] = []

    class Greenlet:
        def __init__(self, target: Callable[[], None], **_: object) -> None:
            self.start = target

    async def run() -> None:
        loop = asyncio.get_running_loop()
        threadsafe = loop.call_soon_threadsafe

        def call_soon_threadsafe(callback: Callable[..., object], *arguments: object, **context: Any) -> asyncio.Handle:
            woken.append(callback)
            return threadsafe(callback, *arguments, **context)

        monkeypatch.setattr(loop, "call_soon_threadsafe", call_soon_threadsafe)
        monkeypatch.setattr(threads, "Thread", Greenlet)
        assert await in_thread(threading.get_ident) == threading.get_ident()
        assert len(woken) == 1

    asyncio.run(run())


@pytest.mark.parametrize("raised", [OSError(5, "no"), ValueError("no"), SystemExit(3), asyncio.CancelledError()])
def test_what_is_raised(raised: BaseException) -> None:
    def fail() -> None:
        raise raised

    async def run() -> None:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the exception is compared below
            await in_thread(fail)
        assert raised in (caught.value, caught.value.__cause__)
        assert await in_thread(lambda: 5) == 5, "the thread must keep working"

    asyncio.run(run())


def test_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threads.Thread, "start", start)
            for _ in range(2):
                with pytest.raises(OSError, match="no thread can be started: can't start new thread"):
                    await in_thread(lambda: 5, "a")
        assert await in_thread(lambda: 5, "a") == 5

    asyncio.run(run())


def test_after_a_fork() -> None:
    async def busy(then: Callable[[], None]) -> None:
        blocking = Blocking()
        held = [asyncio.ensure_future(in_thread(blocking, number)) for number in range(THREADS_MAX)]
        await blocking.began(THREADS_MAX)
        then()
        blocking.gate.set()
        await asyncio.gather(*held)

    def fork() -> None:
        if (child := os.fork()) == 0:
            status = 1
            try:
                asyncio._set_running_loop(None)
                status = 0 if asyncio.run(in_thread(lambda: 5, 0)) == 5 else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0

    asyncio.run(busy(fork))


#: A program that ends while a name server is silent, as seen through `getaddrinfo`.
PROGRAM = """
import asyncio, logging, socket, threading, time

logging.disable()

known = socket.getaddrinfo
asked = threading.Event()

def getaddrinfo(host, *arguments, flags=0, **options):
    if flags & socket.AI_NUMERICHOST:
        return known(host, *arguments, flags=flags, **options)
    asked.set()
    time.sleep(60)

socket.getaddrinfo = getaddrinfo

from kafkawire import Producer
from kafkawire.errors import ConnectFailed

async def main():
    try:
        async with Producer("broker.example:9092", connect_timeout_ms=50, io="IO"):
            raise AssertionError("connected")
    except ConnectFailed as error:
        assert asked.is_set()
        print(error)

asyncio.run(main())
"""


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_silent_name_server_does_not_hold_the_end(io: str) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM.replace("IO", io)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert "no response within connect_timeout_ms=50" in outcome.stdout, outcome.stderr
    assert (outcome.stderr, outcome.returncode) == ("", 0)
