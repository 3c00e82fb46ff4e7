"""Regular expressions for topic names mean the same as in `re`, and no expression takes long to match.

Method: compare random expressions with `re.fullmatch` on names over a small alphabet; try expressions that take `re`
forever, and expressions that reach a limit. `test_pattern_syntax.py` covers RE2/J's syntax.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.patterns import topic_pattern
from kafkawire.reference_broker.patterns.pattern_characters import Characters
from kafkawire.reference_broker.patterns.pattern_syntax import REPEAT_MAX
from kafkawire.reference_broker.patterns.topic_pattern import LENGTH_MAX, SLICE_STEPS, STATES_MAX, TopicPattern
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.thorough import sampled

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
    """Return the names that match, and the number of steps in each slice."""
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
        ("", "a", False),
        ("", "", True),
        (r"\b", "", False),
        (r"\B", "", True),
        ("^$", "", True),
        (r"(?:\ba\b|-)*", "a-a", True),
        (r"(?:\ba\b|-)*", "aa", False),
    ],
)
def test_single_names(pattern: str, name: str, is_match: bool) -> None:
    assert TopicPattern(pattern).matches(name) is is_match


@pytest.mark.parametrize(
    ("pattern", "is_match"),
    [
        ("a.ß", False),
        ("a[^b]ß", True),
        ("(?s)a.ß", True),
        ("(?s)a$.ß", False),
        ("(?sm)a$.ß", True),
        ("(?sm)a.^ß", True),
        ("(?s)a.^ß", False),
    ],
)
def test_names_with_lines(pattern: str, is_match: bool) -> None:
    """Transactional ids, which are also matched, may contain any character."""
    assert TopicPattern(pattern, Characters("aß\n")).matches("a\nß") is is_match


@pytest.mark.parametrize(
    "pattern", [r"(a*\b)*b", "(a*)*b", "(a|aa)+", "(a?){200}a{200}", "(.*)(.*)(.*)(.*)(.*)1", "(a|a|a)*b"]
)
def test_no_expression_takes_long(pattern: str) -> None:
    """For the first expression, `re` would take longer than the age of the universe."""
    assert TopicPattern(pattern).matches("a" * 249) is (pattern in ("(a|aa)+", "(a?){200}a{200}"))


@pytest.mark.parametrize("pattern", ["(?:(?:(?:(?:){1000}){1000}){1000}){1000}", "(?:(?:a{0}){1000}){1000}"])
def test_repeating_nothing_takes_no_time(pattern: str) -> None:
    assert matching(TopicPattern(pattern), ["", "a"])[0] == {""}


def test_names_that_match() -> None:
    assert matching(TopicPattern("t[12]"), ["t1", "t2", "t3"])[0] == {"t1", "t2"}


@pytest.mark.parametrize("pattern", sampled([".*", "(.?){490}c", "(a|b)*a.{900}", "a" * 1_000], 3))
def test_no_slice_takes_long(pattern: str) -> None:
    names = [f"{number:0249b}".replace("0", "a").replace("1", "b") for number in range(60)]
    found, steps = matching(TopicPattern(pattern), names)
    assert found == {name for name in names if re.fullmatch(".*" if pattern == ".*" else "c", name)}
    assert len(steps) > 1 or pattern == "a" * 1_000
    assert max(steps) <= SLICE_STEPS + 4 * STATES_MAX


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_pattern, "_REMEMBERED_MAX", 20)
    pattern = TopicPattern("(a|b|c)*d?")
    assert matching(pattern, ["abcd", "aaa", "cc", "ba", "dd"])[0] == {"abcd", "aaa", "cc", "ba"}
    assert 0 < len(pattern._successors) <= 4


def test_equal_sets_are_one_object() -> None:
    """A cached step is counted as one step, so it must not compare thousands of states."""
    pattern = TopicPattern(".*" * 1_000)
    matching(pattern, ["aaaa", "ab", ""])
    sets = [each for (states, _, _), found in pattern._successors.items() for each in (states, found)]
    assert len(sets) > 2
    assert len(set(map(id, sets))) == len(set(sets))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "`(a` is not a valid regular expression: missing closing )."),
        ("(?:a{1000}){3}b", "it needs too many states; the limit is 3000."),
        ("(?:" * 5_000 + "a", "it has 15001 characters; the limit is 10000."),
        ("(?:" * 100 + "a" + "|a)*" * 100, "it is nested too deeply; the limit is 200 levels."),
    ],
)
def test_what_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(BrokerError, match="is not a valid regular expression: ") as raised:
        TopicPattern(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert raised.value.detail.endswith(reason)


def test_the_largest_that_are_allowed() -> None:
    assert TopicPattern(f"(?:a{{{REPEAT_MAX}}}){{{STATES_MAX // REPEAT_MAX}}}").matches("a" * STATES_MAX)
    assert TopicPattern("a{0,1000}").matches("a" * 249)
    assert TopicPattern(f"[{'a' * (LENGTH_MAX - 2)}]").matches("a")
    assert TopicPattern("(?:" * 99 + "a?" + "|a)*" * 99).matches("aaa")
    assert TopicPattern("(" * 5_000 + ")" * 5_000).matches("")


@pytest.mark.parametrize("pattern", ["(a" + "|" * 8_000 + "){1000}", "(?:a|" + "b{0}" * 2_000 + "){1000}"])
def test_ways_that_are_nothing_count_once(pattern: str) -> None:
    """Otherwise, every empty alternative or empty part would be counted in each repetition."""
    found, steps = matching(TopicPattern(pattern), ["aa", "ab"])
    assert found == {"aa"}
    assert sum(steps) < 10 * STATES_MAX
