"""A version range's membership, common versions and emptiness are correct at its edges.

Method: check tables of small ranges, with both sides of every edge.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.versions import VersionRange

EMPTY = VersionRange(0, -1)


@pytest.mark.parametrize(("version", "inside"), [(1, False), (2, True), (3, True), (4, True), (5, False), ("2", False)])
def test_contains(version: object, inside: bool) -> None:
    assert (version in VersionRange(2, 4)) is inside


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ((0, 9), (3, 12), (3, 9)),
        ((3, 12), (0, 9), (3, 9)),
        ((0, 3), (3, 5), (3, 3)),
        ((2, 4), (0, 9), (2, 4)),
    ],
)
def test_common_versions(left: tuple[int, int], right: tuple[int, int], both: tuple[int, int]) -> None:
    assert VersionRange(*left) & right == both
    assert VersionRange(*left) & VersionRange(*right)


@pytest.mark.parametrize("other", [(5, 9), EMPTY])
def test_nothing_in_common(other: tuple[int, int]) -> None:
    assert not VersionRange(0, 4) & other


@pytest.mark.parametrize(("versions", "text"), [((0, 4), "0-4"), ((3, 3), "3"), (EMPTY, "none")])
def test_text(versions: tuple[int, int], text: str) -> None:
    assert str(VersionRange(*versions)) == text


def test_numbers() -> None:
    assert list(VersionRange(2, 4).numbers()) == [2, 3, 4]
    assert list(EMPTY.numbers()) == []


def test_unpacks() -> None:
    first, last = VersionRange(2, 4)
    assert (first, last) == (2, 4)
