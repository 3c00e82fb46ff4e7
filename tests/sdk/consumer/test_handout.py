"""Records are handed out one after the other; what is finished and where the next one is follows from how many were.

Method: every engine that is there, with records made by hand; streams are iterated over and awaited in every way.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from kafkawire.sdk.consumer import handout as chosen
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.engines.selection import built

ENGINES = ["python_handout", *(["native_handout"] if built is not None else [])]
START, END = Position(3, 1), Position(20, 7)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> ModuleType:
    """Give every engine that is available here."""
    return import_module(f"kafkawire.sdk.consumer.{request.param}")


def records(*offsets: int) -> list[Record]:
    """Return records at these offsets."""
    return [Record(offset, 5, None, b"v") for offset in offsets]


def test_the_engine_in_use() -> None:
    assert chosen.Handout.__module__.rpartition(".")[2] in ENGINES


def test_positions(engine: Any) -> None:
    handout = engine.Handout(records(5, 6, 9), END, 4)
    seen = [(handout.left, handout.finished(START), handout.position(START))]
    for _ in range(3):
        handout.take()
        seen.append((handout.left, handout.finished(START), handout.position(START)))
    handout.settle()
    seen.append((handout.left, handout.finished(START), handout.position(START)))
    assert seen == [
        (3, START, START),
        (2, START, Position(6, 4)),
        (1, Position(6, 4), Position(7, 4)),
        (0, Position(7, 4), END),
        (0, END, END),
    ]
    with pytest.raises(IndexError):
        handout.take()


def test_lists(engine: Any) -> None:
    handout = engine.Handout(records(5, 6, 9), END, 4)
    assert [record.offset for record in handout.take_many(2)] == [5, 6]
    assert (handout.index, handout.finished(START), handout.position(START)) == (2, START, Position(7, 4))
    assert [record.offset for record in handout.take_many(5)] == [9]
    assert handout.take_many(5) == []


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_cut(engine: Any, taken: int) -> None:
    handout = engine.Handout(records(5, 6, 9), END, 4)
    handout.take_many(taken)
    before = handout.position(START)
    handout.cut()
    assert (handout.left, handout.position(START)) == (0, before)
    handout.settle()
    assert handout.finished(START) == before


def streaming(engine: Any, *batches: list[Record]) -> Any:
    """Return a stream that is given one batch after the other, and then ends."""
    left = list(batches)

    async def wait() -> Record:
        await asyncio.sleep(0)
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
    """So that one whose task is cancelled before it runs is not lost."""

    async def run() -> None:
        stream = streaming(engine, records(1, 2, 3))
        assert (await anext(stream)).offset == 1
        waiting = asyncio.ensure_future(anext(stream))
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
