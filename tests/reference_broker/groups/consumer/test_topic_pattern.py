"""Regular expressions over topic names mean what they mean in `re`, and none takes long.

Method: expressions made at random, compared with `re.fullmatch` over names of a small alphabet; expressions that take
`re` for ever; those that RE2 refuses.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.groups.consumer import topic_pattern
from kafkawire.reference_broker.groups.consumer.topic_pattern import LENGTH_MAX, SLICE_STEPS, STATES_MAX, TopicPattern
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

ATOMS = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", r"[\d.]", "[a-c]", "^", "$", "x-1"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda part: f"({part})"),
        inner.map(lambda part: f"{part}|"),
    ),
    max_leaves=8,
)
NAMES = st.text("ab.1x-c", max_size=8)


def matching(pattern: TopicPattern, names: list[str]) -> tuple[frozenset[str], list[int]]:
    """Return the names that match, and the steps of each slice."""
    work, steps = pattern.matching(names), []
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, [*steps, pattern._steps]
        steps.append(pattern._steps)


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=10))
def test_it_matches_what_re_matches(pattern: str, names: list[str]) -> None:
    compiled = TopicPattern(pattern)
    assert [compiled.matches(name) for name in names] == [bool(re.fullmatch(pattern, name)) for name in names]


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("orders", "orders", True),
        ("orders", "orders-2", False),
        ("orders.*", "orders-2", True),
        ("(?i)ORDERS", "orders", True),
        ("(?i)[A-C]+", "aBc", True),
        ("(?i)[^a]", "A", False),
        ("(?s)a.c", "a.c", True),
        ("(?P<name>a|b)+", "abba", True),
        ("", "a", False),
        ("", "", True),
        (r"a\b", "a", None),
        (r"\AA\Z", "A", True),
    ],
)
def test_single_names(pattern: str, name: str, is_match: bool | None) -> None:
    if is_match is None:
        with pytest.raises(BrokerError):
            TopicPattern(pattern)
    else:
        assert TopicPattern(pattern).matches(name) is is_match


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+", "(a?){200}a{200}", "(.*)(.*)(.*)(.*)(.*)1", "(a|a|a)*b"])
def test_no_expression_takes_long(pattern: str) -> None:
    """`re` needs longer than the universe has existed for the first of them."""
    assert TopicPattern(pattern).matches("a" * 249) is (pattern in ("(a|aa)+", "(a?){200}a{200}"))


@pytest.mark.parametrize("pattern", ["(?:(?:(?:(?:){1000}){1000}){1000}){1000}", "(?:(?:a{0}){1000}){1000}"])
def test_repeating_nothing_takes_no_time(pattern: str) -> None:
    assert matching(TopicPattern(pattern), ["", "a"])[0] == {""}


def test_names_that_match() -> None:
    assert matching(TopicPattern("t[12]"), ["t1", "t2", "t3"])[0] == {"t1", "t2"}


@pytest.mark.parametrize("pattern", ["(.?){490}c", "(a|b)*a.{900}", ".*", "a" * 1_000])
def test_no_slice_takes_long(pattern: str) -> None:
    names = [f"{number:0249b}".replace("0", "a").replace("1", "b") for number in range(100)]
    found, steps = matching(TopicPattern(pattern), names)
    assert found == {name for name in names if re.fullmatch(".*" if pattern == ".*" else "c", name)}
    assert len(steps) > 1 or pattern == "a" * 1_000
    assert max(steps) <= SLICE_STEPS + 4 * STATES_MAX


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_pattern, "_REMEMBERED_MAX", 20)
    pattern = TopicPattern("(a|b|c)*d?")
    assert matching(pattern, ["abcd", "aaa", "cc", "ba", "dd"])[0] == {"abcd", "aaa", "cc", "ba"}
    assert 0 < len(pattern._successors) <= 4


@pytest.mark.parametrize(
    "pattern",
    ["(a", "a)", "[a", "*", r"(a)\1", "(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "a{1001}", "(?x)a", "a(?i:b)",
     "(?>a)", "a*+", "(?:a{500}){3}", "(" * 5_000 + ")" * 5_000, "a{99999999999999999999}", f"[{'a' * LENGTH_MAX}]"],
)  # fmt: skip
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(BrokerError, match="is not a valid regular expression: ") as raised:
        TopicPattern(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_largest_that_is_allowed() -> None:
    assert TopicPattern(f"a{{{STATES_MAX}}}").matches("a" * STATES_MAX)
