"""A subscription has either names or a pattern, and determines which topics the client must know."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.routing.metadata import Metadata, Topic


@pytest.fixture
def metadata() -> Metadata:
    known = Metadata()
    for name in ("orders", "orders-eu", "old-orders", "__consumer_offsets"):
        known.topics[name] = Topic(name, name.encode().ljust(16), {}, is_internal=name.startswith("__"))
    return known


def test_names_are_taken_whether_they_are_known_or_not(metadata: Metadata) -> None:
    subscription = Subscription(["orders", "missing", "orders"])
    assert subscription.topics(metadata) == {"orders", "missing"}
    subscription.keep_known(metadata)
    assert metadata.wanted == {"orders", "missing"}
    assert str(subscription) == "missing, orders"
    subscription.check()


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu"}),
        (".*", {"orders", "orders-eu", "old-orders"}),
        ("x", set()),
    ],
)
def test_a_pattern_matches_whole_names_of_other_topics_than_kafkas(
    metadata: Metadata, pattern: str, topics: set[str]
) -> None:
    subscription = Subscription(pattern=pattern)
    assert subscription.topics(metadata) == topics
    subscription.keep_known(metadata)
    assert metadata.wanted is None
    assert str(subscription) == f"pattern {pattern}"


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("orders", {"orders-eu", "old-orders"}),
        ("orders.*", {"old-orders"}),
        (".*", set()),
        ("x", {"orders", "orders-eu", "old-orders"}),
    ],
)
def test_a_pattern_may_exclude_topics(metadata: Metadata, pattern: str, topics: set[str]) -> None:
    subscription = Subscription(pattern=pattern, excludes=True)
    assert subscription.topics(metadata) == topics
    subscription.keep_known(metadata)
    assert metadata.wanted is None
    assert str(subscription) == f"all but pattern {pattern}"
    with pytest.raises(ConfigurationError, match=r"^excluded_pattern='\('"):
        Subscription(pattern="(", excludes=True).check()


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999}", "(" * 5_000 + ")" * 5_000])
def test_no_regular_expression(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="pattern="):
        Subscription(pattern=pattern).check()


def test_there_must_be_names_or_a_pattern_and_not_both() -> None:
    with pytest.raises(ConfigurationError, match="topics"):
        Subscription()
    with pytest.raises(ConfigurationError, match="topics"):
        Subscription(["t"], "t")


def test_a_pattern_may_be_one_that_only_the_coordinator_understands(metadata: Metadata) -> None:
    subscription = Subscription(pattern=r"\p{Greek}+")
    with pytest.raises(ConfigurationError, match="pattern"):
        subscription.check()
    with pytest.raises(ConfigurationError, match="pattern"):
        subscription.topics(metadata)
