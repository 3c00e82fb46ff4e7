"""A version range prints as it was written, and its operators follow set algebra.

Method: parse every form of text; compare the operators with Python's sets, for all pairs of ranges in a small domain.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.codegen.versions import ALL, NONE, OPEN, Versions

DOMAIN = range(8)
ranges = st.one_of(
    st.just(NONE),
    st.tuples(st.sampled_from(DOMAIN), st.sampled_from([*DOMAIN, OPEN])).map(sorted).map(lambda pair: Versions(*pair)),
)


def as_set(versions: Versions) -> set[int]:
    return {version for version in DOMAIN if version in versions}


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("3", 3, 3), ("0-4", 0, 4), ("2+", 2, OPEN), ("0", 0, 0), ("7-7", 7, 7), ("none", 0, -1), ("32767", OPEN, OPEN)],
)
def test_parse(text: str, first: int, last: int) -> None:
    assert Versions.parse(text) == Versions(first, last)


@pytest.mark.parametrize("text", ["3", "0-4", "2+", "0", "none"])
def test_text(text: str) -> None:
    assert str(Versions.parse(text)) == text


@pytest.mark.parametrize("text", ["", "+", "-1", "1-", "4-2", "a", "1 - 2", "1.5", "32768", "0-40000", "None", "1,2"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="version range"):
        Versions.parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("4-2", "version range 4-2 is reversed"),
        ("32768", "version range 32768 exceeds 32767, the highest version"),
        ("40000-1", "version range 40000-1 exceeds 32767"),
        ("0-2000000000", "version range 0-2000000000 exceeds 32767, the highest version"),
        ("100000+", r"version range 100000\+ exceeds 32767"),
        ("9" * 5_000, "version range 9{40} exceeds 32767"),
        ("x" * 5_000, "'x{40}' is not a version range such as 3, 0-4, 2"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        Versions.parse(text)


@given(ranges)
def test_text_reads_back(versions: Versions) -> None:
    assert Versions.parse(str(versions)) == versions


@given(ranges, ranges)
def test_intersection_is_that_of_sets(left: Versions, right: Versions) -> None:
    assert as_set(left & right) == as_set(left) & as_set(right)
    assert left & right == right & left


@given(ranges, ranges)
def test_inclusion_is_that_of_intersection(left: Versions, right: Versions) -> None:
    assert (left <= right) == (left & right == left)


@given(ranges)
def test_none_and_all_are_the_ends(versions: Versions) -> None:
    assert NONE <= versions <= ALL
    assert versions & ALL == versions
    assert versions & NONE == NONE


def test_iteration_and_truth() -> None:
    assert list(Versions(2, 4)) == [2, 3, 4]
    assert list(NONE) == []
    assert not NONE
    assert Versions(0, 0)
    assert "2" not in Versions(0, 4)
