"""Buffer memory is counted exactly while threads take and return it, and never exceeds its limit."""

from __future__ import annotations

import sys
from threading import Thread

import pytest

from kafkawire.sdk.errors import BufferFull
from kafkawire.sdk.producer.buffer_memory import BufferMemory


def test_as_much_as_there_is() -> None:
    memory = BufferMemory(100)
    assert memory.take(10, 60) == 60
    assert memory.take(10, 60) == 40, "must give less than the caller wanted"
    with pytest.raises(
        BufferFull,
        match=r"100 bytes are not acknowledged yet, "
        r"and 1 more would exceed buffer_memory=100; wait",
    ):
        memory.take(1, 1)
    assert memory.add(5) == 105, "memory that was admitted before may exceed the limit"
    memory.give(105)
    assert memory.taken_bytes == 0
    assert memory.take(100, 101) == 100


def test_another_thread_that_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = BufferMemory(100)
    real = memory.add
    taken: list[int] = []

    def add(size_bytes: int) -> int:
        if not taken:
            taken.append(70)
            real(70)
        return real(size_bytes)

    monkeypatch.setattr(memory, "add", add)
    assert memory.take(10, 60) == 30
    assert memory.taken_bytes == 100


def test_threads() -> None:
    memory = BufferMemory(1 << 40)

    def run() -> None:
        for number in range(1, 2_000):
            memory.give(memory.take(number, number) - 1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert memory.taken_bytes == 4 * 1_999
