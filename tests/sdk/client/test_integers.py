"""Integers of any type become plain integers, whatever their methods do.

Method: convert integers of several types, and objects that only claim to be integers.
"""

from __future__ import annotations

from enum import IntEnum

import pytest

from kafkawire.sdk.client.integers import plain_integer


class Derived(int):
    """An integer that raises on every comparison."""

    def __lt__(self, other: int) -> bool:
        raise RuntimeError("nothing calls this")

    __le__ = __gt__ = __ge__ = __lt__

    def __index__(self) -> int:
        raise RuntimeError("nothing calls this, either")


class Chosen(IntEnum):
    THREE = 3


class Foreign:
    def __index__(self) -> int:
        return 10**5000


class Raising:
    def __index__(self) -> int:
        raise RuntimeError("no number")


class Lying:
    def __index__(self) -> int:
        return "5"  # type: ignore[return-value]  # the point of the test


@pytest.mark.parametrize(
    ("given", "number"),
    [(0, 0), (-(10**5000), -(10**5000)), (Derived(5), 5), (Chosen.THREE, 3), (Foreign(), 10**5000)],
    ids=["zero", "long", "derived", "enumeration", "foreign"],
)
def test_integers(given: object, number: int) -> None:
    found = plain_integer(given)
    assert type(found) is int
    assert found == number


@pytest.mark.parametrize("given", [True, 1.0, "1", None, b"1", Raising(), Lying()])
def test_what_is_none(given: object) -> None:
    assert plain_integer(given) is None
