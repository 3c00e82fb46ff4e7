"""A latch that is set lets all threads pass, both those that are waiting and those that arrive later."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from time import monotonic

from kafkawire.sdk.transport.latch import Latch
from tests.sdk.instructions import interrupted_at


def test_many_wait_and_more_than_one_sets() -> None:
    latch = Latch()
    assert not latch.wait(0)
    assert not latch.wait(-1)
    passed: list[bool] = []
    waiting = [Thread(target=lambda: passed.append(latch.wait(60))) for _ in range(5)]
    for thread in waiting:
        thread.start()
    setting = [Thread(target=latch.set) for _ in range(3)]
    for thread in setting:
        thread.start()
    for thread in waiting + setting:
        thread.join()
    assert passed == [True] * 5
    assert latch.is_set
    assert latch.wait()


def waits(latch: Latch, passed: list[bool]) -> Thread:
    """Return a thread that waits for a latch, and records whether it passed in time."""
    thread = Thread(target=lambda: passed.append(latch.wait(60)))
    thread.start()
    return thread


def test_ctrl_c_anywhere_in_a_wait_keeps_nobody_else_waiting() -> None:
    """No thread waits for anything that an interrupted thread holds."""

    def interrupted(place: int) -> bool:
        latch, passed = Latch(), list[bool]()
        others = [waits(latch, passed) for _ in range(2)]

        def handler() -> None:
            latch.set()
            raise KeyboardInterrupt

        is_reached = True
        with suppress(KeyboardInterrupt):
            is_reached = interrupted_at([place], lambda: latch.wait(0), handler, ("kafkawire/sdk/transport/latch.py",))
        latch.set()
        began = monotonic()
        for thread in others:
            thread.join()
        assert (passed, monotonic() - began < 30) == ([True, True], True), f"instruction {place}"
        return is_reached

    place = 0
    while interrupted(place):
        place += 1
    assert place > 10
