"""The delay of the event loop is how late a timer runs, measured once a second.

Method: give the measurement a loop whose time the test sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

from kafkawire.reference_broker.network.loop_delay import LoopDelay


def test_late_timers(monkeypatch):
    found: list[int] = []
    due: list[tuple[float, Callable[[], None]]] = []
    cancelled: list[bool] = []
    loop = SimpleNamespace(now=100.0)
    loop.time = lambda: loop.now
    loop.call_at = lambda when, action: (
        due.append((when, action)) or SimpleNamespace(cancel=lambda: cancelled.append(True))
    )
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    delay = LoopDelay(found.append)
    delay.stop()
    delay.start()
    for late in (0.0, 0.25, -0.001):
        when, action = due.pop()
        loop.now = when + late
        action()
    assert found == [0, 250_000_000, 0]
    assert len(due) == 1
    delay.stop()
    assert cancelled == [True]
