"""The hostile objects are as hostile as documented, on every Python.

Method: let Python itself use each object.
"""

from __future__ import annotations

import operator

import pytest

from tests.hostile import (
    Equal,
    Fuse,
    HostileBuffer,
    LyingList,
    LyingSequence,
    LyingText,
    LyingTuple,
    Number,
    raised_at_every_call,
)
from tests.needs import PYTHON_3_12


def test_a_buffer_is_another_one_at_each_look() -> None:
    buffer = HostileBuffer(b"one", b"second", fuse=(fuse := Fuse()))
    assert [bytes(memoryview(buffer)) for _ in range(3)] == [b"one", b"second", b"second"]  # type: ignore[arg-type]  # on 3.11 only C sees the method
    assert memoryview(buffer).obj is not memoryview(buffer).obj  # type: ignore[arg-type]  # as above
    assert fuse.calls == 5


@PYTHON_3_12.mark
def test_a_buffer_that_raises() -> None:
    with pytest.raises(KeyboardInterrupt):
        memoryview(HostileBuffer(b"", fuse=Fuse(error=KeyboardInterrupt())))  # type: ignore[arg-type]  # as above


def test_sequences_lie() -> None:
    sequence = LyingSequence(5, [1, 2])
    assert (len(sequence), list(sequence), operator.length_hint(sequence), sequence[1]) == (5, [1, 2], 5, 2)
    for liar in (LyingList([1]), LyingTuple([1])):
        liar.claimed, liar.others = 7, (8, 9)
        assert (len(liar), [*liar]) == (7, [8, 9])
    assert len(LyingText("a")) == 1_000_000
    assert len(LyingText("a").encode()) == 40_000


def test_numbers_and_equality() -> None:
    assert (operator.index(Number(3)), int(Number(3)), float(Number(3))) == (3, 3, 3.0)
    assert Equal(True) == 5
    assert Equal(False) != 5


def test_a_fuse_blows_at_every_call_once() -> None:
    outcomes = list(raised_at_every_call(lambda fuse: [fuse.burn() for _ in range(3)], ValueError))
    assert [str(outcome) for outcome in outcomes] == ["call 0", "call 1", "call 2", "None"]
    with pytest.raises(AssertionError, match="more than 2 calls"):
        list(raised_at_every_call(lambda fuse: [fuse.burn() for _ in range(9)], ValueError, most=2))


def test_a_fuse_runs_code() -> None:
    seen: list[int] = []
    fuse = Fuse(lambda: seen.append(1))
    fuse.burn()
    assert (seen, fuse.calls) == ([1], 1)
