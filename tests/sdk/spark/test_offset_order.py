"""Impossible offsets are reported as damage in their own batch, not in its neighbours."""

from __future__ import annotations

import pytest

from kafkawire.sdk.records.stored import Damage, Memory, Stored, read_stored

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.offset_order import InOrder
from tests.sdk.spark.segments.logs import batch

#: (first offset, count) for each batch; None for bytes that are not a batch.
Batches = list[tuple[int, int] | None]


def ordered(batches: Batches, end_offset: int | None = None, *, is_elsewhere: bool = False) -> list[int | str]:
    """Return the batches' first offsets, and the text for each damaged region."""
    content = b"".join(b"x" * 80 if each is None else batch(*each) for each in batches)
    found = InOrder(read_stored(Memory(content)), 0, end_offset, lambda batch: is_elsewhere)
    return [f"{each.base_offset}: {each.reason}" if isinstance(each, Damage) else _first(each) for each in found]


def _first(stored: Stored) -> int:
    return stored.batch.base_offset


@pytest.mark.parametrize(
    ("batches", "wrong"),
    [
        ([(0, 5), (5, 5), (10, 5)], None),
        ([(3, 5), (20, 5), (90, 1)], None),
        ([(0, 5), (4000, 5), (10, 5)], 1),
        ([(0, 5), (1, 5), (10, 5)], 1),
        ([(0, 5), (5, 5), (2, 5)], 2),
        ([(0, 5), (5, 5), (7, 5), (15, 5)], 2),
        ([(50, 5), (5, 5), (10, 5)], 0),
        ([(0, 5), (2**31, 5)], 1),
    ],
)
def test_wrong_offset(batches: Batches, wrong: int | None) -> None:
    found = ordered(batches)
    assert len(found) == len(batches)
    for number, (each, expected) in enumerate(zip(found, batches, strict=True)):
        assert expected is not None
        if number == wrong:
            assert isinstance(each, str)
            assert each.startswith(f"{expected[0]}: offset {expected[0]} cannot be right: ")
        else:
            assert each == expected[0]


def test_reasons() -> None:
    assert ordered([(0, 5), (1, 5)])[1] == "1: offset 1 cannot be right: it is not after offset 4"
    assert ordered([(0, 5), (90, 5), (10, 1)])[1] == "90: offset 90 cannot be right: offset 10 follows"
    expected = "8: offset 8 cannot be right: its last offset is 12, and the next batch begins with 10"
    assert ordered([(0, 5), (8, 5)], 10)[1] == expected
    (found,) = ordered([(2**31, 1)])
    assert (
        found == f"{2**31}: offset {2**31} cannot be right: its last offset is {2**31}, and no segment reaches {2**31}"
    )


def test_damage_between() -> None:
    found = ordered([(0, 5), None, (90, 5), (10, 1)])
    assert (found[0], found[2]) == (0, "90: offset 90 cannot be right: offset 10 follows")
    assert found[3] == 10


def test_what_comes_with_a_fetch() -> None:
    """A response may span several segments, between which cleaning may have left gaps of any size."""
    content = batch(0, 5) + batch(2**40, 5)
    found = list(InOrder(read_stored(Memory(content)), 0, None, is_segment=False))
    assert all(isinstance(each, Stored) for each in found)
    assert len(found) == 2


def test_following_segment() -> None:
    batches: Batches = [(0, 5), (5, 5), (10, 5), (15, 5)]
    assert ordered(batches, 10, is_elsewhere=True) == [0, 5]
    assert [isinstance(each, str) for each in ordered(batches, 10)] == [False, False, True, True]
    # A batch that extends past the end cannot be in both segments.
    assert [isinstance(each, str) for each in ordered(batches, 12, is_elsewhere=True)] == [False, False, True]


def test_batches_that_are_taken_before_they_are_found() -> None:
    """A batch after a gap or damage is never taken before its offset is known to be correct."""
    batches = [batch(first, 5) for first in (0, 5, 20, 25, 30, 40, 45, 50)]
    content = b"".join([*batches[:5], b"x" * 80, *batches[5:]])
    seen = []

    def take(rest: memoryview, position: int) -> int:
        seen.append(found.next_offset)
        if found.next_offset not in (5, 30):
            return 0
        found.pass_to(found.next_offset + 5)
        return len(batches[1])

    found = InOrder(read_stored(Memory(content), take=take), 0, None)
    kept = [each.batch.base_offset for each in found if isinstance(each, Stored)]
    assert seen == [0, 5, None, 30, None, None, 50]
    assert kept == [0, 20, 25, 40, 45, 50]
