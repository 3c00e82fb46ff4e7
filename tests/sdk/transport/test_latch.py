"""A latch that is set lets all threads pass: those that wait, and those that come later."""

from __future__ import annotations

from threading import Thread

from kafkawire.sdk.transport.latch import Latch


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
