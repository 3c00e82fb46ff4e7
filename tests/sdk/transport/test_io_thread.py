"""The thread runs its loop until it is stopped, and stopping twice, or from inside, does no harm."""

from __future__ import annotations

import asyncio
import threading

from kafkawire.sdk.transport.io_thread import IoThread


def test_what_is_scheduled_runs_on_the_thread() -> None:
    thread = IoThread("reader")
    try:
        found = asyncio.run_coroutine_threadsafe(_name(), thread.loop).result(5)
    finally:
        thread.stop()
    assert found == "reader"
    assert thread.loop.is_closed()
    assert "reader" not in [each.name for each in threading.enumerate()]
    thread.stop()


def test_stopping_from_inside_does_not_wait_for_itself() -> None:
    thread = IoThread("inside")
    thread.loop.call_soon_threadsafe(thread.stop)
    for each in threading.enumerate():
        if each.name == "inside":
            each.join(5)
    assert thread.loop.is_closed()


def test_tasks_do_not_outlive_the_thread() -> None:
    thread = IoThread()
    pending = asyncio.run_coroutine_threadsafe(asyncio.Event().wait(), thread.loop)
    thread.stop()
    assert pending.cancelled()


async def _name() -> str:
    return threading.current_thread().name
