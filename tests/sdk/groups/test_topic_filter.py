"""A filter accepts the same topics as Kafka's filter, and refuses syntax that Python and Java read differently."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.groups.topic_filter import EXPRESSION_CHARACTERS_MAX, FilterKind, TopicFilter, filter_of

TOPICS = ["a", "ab", "b", "A", "a.b", "__consumer_offsets", "__transaction_state"]


@pytest.mark.parametrize(
    ("expression", "cleaned", "accepted"),
    [
        ("a", "a", ["a"]),
        ("a,b", "a|b", ["a", "b"]),
        (" a , b\t", "a|b", ["a", "b"]),
        ("\"'a.*'\"", "a.*", ["a", "ab", "a.b"]),
        ("'a'b'", "a'b", []),
        (r"a\.b", r"a\.b", ["a.b"]),
        ("(?i)a", "(?i)a", ["a", "A"]),
        ("(?!a).*", "(?!a).*", ["b", "A"]),
        ("[ab]", "[ab]", ["a", "b"]),
        (r"[\[a]", r"[\[a]", ["a"]),
        (r"\[[a]", r"\[[a]", []),
        ("", "", []),
    ],
)
def test_white_list(expression: str, cleaned: str, accepted: list[str]) -> None:
    chosen = TopicFilter(expression)
    assert chosen.expression == cleaned
    assert [topic for topic in TOPICS if chosen.accepts(topic)] == accepted
    assert TopicFilter(cleaned).expression == cleaned


def test_a_black_list_accepts_the_others() -> None:
    chosen = TopicFilter("a.*", FilterKind.BLACK_LIST)
    assert [topic for topic in TOPICS if chosen.accepts(topic)] == ["b", "A"]
    assert repr(chosen) == "black_list a.*"


@pytest.mark.parametrize("kind", FilterKind)
def test_internal_topics_are_read_on_demand(kind: FilterKind) -> None:
    expression = "__.*" if kind is FilterKind.WHITE_LIST else "x"
    assert not TopicFilter(expression, kind).accepts("__consumer_offsets")
    assert TopicFilter(expression, kind, excludes_internal=False).accepts("__consumer_offsets")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(", "missing ), unterminated subpattern"),
        (r"\p{Alpha}", "bad escape"),
        (r"\Qa.b\E", "bad escape"),
        ("(?<name>a)", "unknown extension"),
        ("[a[b]]", "must not contain"),
        ("x[a-z&&[^b]]", "must not contain"),
        (r"\\[a&&b]", "must not contain"),
        ("a" * (EXPRESSION_CHARACTERS_MAX + 1), str(EXPRESSION_CHARACTERS_MAX)),
    ],
)
def test_what_is_not_understood_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="white_list") as caught:
        TopicFilter(expression)
    assert reason in str(caught.value)


def test_the_filter_of_a_subscription() -> None:
    assert filter_of(Subscription(["a"])) is None
    for excludes, shown in ((False, "white_list a"), (True, "black_list a")):
        assert repr(filter_of(Subscription(pattern="a", excludes=excludes))) == shown
    for excludes, name in ((False, "pattern"), (True, "excluded_pattern")):
        with pytest.raises(ConfigurationError, match=f"^{name}='\\('"):
            filter_of(Subscription(pattern="(", excludes=excludes))
    chosen = filter_of(Subscription(pattern=".*"), excludes_internal=False)
    assert chosen is not None
    assert chosen.accepts("__consumer_offsets")
