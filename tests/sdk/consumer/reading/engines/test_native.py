"""A stream returns each record once, however it is awaited, and takes a record only when it is awaited.

Method: with every available engine, iterate over streams, await them in tasks, and cancel them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.records import Record
from kafkawire.sdk.transport.tasks import new_task

START, END = Position(3, 1), Position(20, 7)


def records(*offsets: int) -> list[Record]:
    """Return records at these offsets."""
    return [Record(offset, 5, None, b"v") for offset in offsets]


def streaming(engine: Any, *batches: list[Record]) -> Any:
    """Return a stream that receives one batch after another and then ends."""
    left = list(batches)

    async def wait() -> Record:
        await asyncio.sleep(0)
        if stream.handout is None or not stream.handout.left:  # otherwise the event loop gets its turn
            if not left:
                raise StopAsyncIteration
            stream.handout = engine.Handout(left.pop(0), END, 4)
        record: Record = stream.handout.take()
        return record

    stream = engine.RecordStream(wait)
    return stream


def test_iterating(engine: Any) -> None:
    async def run() -> list[int]:
        return [record.offset async for record in streaming(engine, records(1, 2), records(5), records(7, 8, 9))]

    assert asyncio.run(run()) == [1, 2, 5, 7, 8, 9]


def test_a_record_is_taken_when_it_is_awaited(engine: Any) -> None:
    """Otherwise, a record would be lost if its task were cancelled before running."""

    async def run() -> None:
        stream = streaming(engine, records(1, 2, 3))
        assert (await anext(stream)).offset == 1

        async def one() -> Record:
            return await anext(stream)

        waiting = new_task(asyncio.get_running_loop(), one())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await asyncio.wait_for(anext(stream), 10)).offset == 2
        assert (await asyncio.ensure_future(anext(stream))).offset == 3
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(run())


def test_an_error_while_it_waits(engine: Any) -> None:
    async def run() -> None:
        async def wait() -> Record:
            raise ValueError("no more")

        stream = engine.RecordStream(wait)
        for _ in range(2):
            with pytest.raises(ValueError, match="no more"):
                async for _record in stream:
                    pass

    asyncio.run(run())


def test_blocking_iteration(engine: Any) -> None:
    """More records are requested only when none are left, and more may come after the end."""
    left = [records(1, 2), [], records(5)]
    asked: list[int] = []

    def wait() -> bool:
        asked.append(len(left))
        if not left:
            return False
        iterator.handout = engine.Handout(left.pop(0), END, 4)
        return True

    iterator = engine.RecordIterator(wait)
    assert iter(iterator) is iterator
    assert [record.offset for record in iterator] == [1, 2, 5]
    assert asked == [3, 2, 1, 0]
    left.append(records(9))
    assert [record.offset for record in iterator] == [9]


def test_blocking_iteration_passes_errors_on(engine: Any) -> None:
    def wait() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(engine.RecordIterator(wait))
