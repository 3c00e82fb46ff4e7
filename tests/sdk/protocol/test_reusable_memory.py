"""Memory is reused only if no view of it is left, and no more than the limit is kept.

Method: take, slice and drop views, and run many concurrent threads, each of which checks that no other writes to its
memory.
"""

from __future__ import annotations

from mmap import PAGESIZE
from pathlib import Path
from threading import Thread

import pytest

from kafkawire.sdk.protocol.reusable_memory import ReusableMemory, take_memory

LARGE = 300_000


def address(view: memoryview) -> int:
    """Return a value that identifies a buffer as long as it exists."""
    return id(view.obj)


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, LARGE, 5_000_000])
def test_views_have_the_size_asked_for(size: int, is_lazy: bool) -> None:
    view = ReusableMemory(is_lazy=is_lazy).take(size)
    assert len(view) == size
    view[:] = bytes(size)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_memory_is_used_again(is_lazy: bool) -> None:
    memory = ReusableMemory(is_lazy=is_lazy)
    view = memory.take(LARGE)
    first = address(view)
    del view
    again = memory.take(LARGE + 1000)
    assert address(again) == first


def test_lazy_memory_takes_up_what_is_written() -> None:
    before = resident_bytes()
    view = ReusableMemory(is_lazy=True).take(400 * 2**20)
    view[: 2**20] = bytes(2**20)
    assert resident_bytes() - before < 50 * 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("keep", ["view", "slice", "view of a view"])
def test_memory_that_is_looked_at_is_not_used_again(keep: str, is_lazy: bool) -> None:
    memory = ReusableMemory(is_lazy=is_lazy)
    view = memory.take(LARGE)
    kept = {"view": view, "slice": view[5:6], "view of a view": memoryview(view).cast("B")}[keep]
    first = address(view)
    del view
    other = memory.take(LARGE)
    assert address(other) != first
    del kept
    assert address(memory.take(LARGE)) == first


def test_memory_that_is_too_small_waits() -> None:
    memory = ReusableMemory()
    small = address(memory.take(LARGE))
    large = address(memory.take(4 * LARGE))
    assert small != large
    assert address(memory.take(LARGE)) in (small, large)


def test_no_more_than_the_limit_is_kept() -> None:
    memory = ReusableMemory(limit_bytes=3 * 2**20)
    views = [memory.take(2**20) for _ in range(5)]
    assert memory.kept_bytes == 3 * 2**20
    for number, view in enumerate(views):
        view[:] = bytes([number]) * 2**20
    assert [view[0] for view in views] == [0, 1, 2, 3, 4]
    memory.take(4 * 2**20)
    assert memory.kept_bytes == 3 * 2**20


def test_small_memory_is_not_kept() -> None:
    memory = ReusableMemory()
    memory.take(1000)
    assert memory.kept_bytes == 0


def test_threads_do_not_share_memory() -> None:
    memory = ReusableMemory(limit_bytes=4 * 2**20)
    mixed = []

    def work(number: int) -> None:
        for _ in range(300):
            view = memory.take(70_000)
            view[:8] = view[-8:] = bytes([number]) * 8
            held = memory.take(LARGE)
            held[:8] = bytes([number]) * 8
            if bytes(view[:8]) + bytes(view[-8:]) + bytes(held[:8]) != bytes([number]) * 24:
                mixed.append(number)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mixed
    assert memory.kept_bytes <= 4 * 2**20


def test_the_memory_of_the_process() -> None:
    assert len(take_memory(LARGE)) == LARGE
