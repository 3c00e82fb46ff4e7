"""The number of records handed out determines which records are finished and where the next one is.

Method: hand out hand-built records with every available engine.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.records import Record

START, END = Position(3, 1), Position(20, 7)


def records(*offsets: int) -> list[Record]:
    """Return records at these offsets."""
    return [Record(offset, 5, None, b"v") for offset in offsets]


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
