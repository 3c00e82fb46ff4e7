"""The sticky assignors share one division: equal where members want the same, general otherwise, with what has moved.

Method: small groups by hand for the choice between the two and for moved partitions.
"""

from __future__ import annotations

from kafkawire.sdk.consumer.assignors.division import divide
from kafkawire.sdk.consumer.assignors.ownership import NO_GENERATION, Claim
from kafkawire.sdk.consumer.consumer_protocol import Subscription
from tests.sdk.consumer.assignors.groups import partition, partitions

NOTHING = Claim((), NO_GENERATION)


def test_moved_partitions_of_equal_members() -> None:
    subscriptions = {"new": Subscription(("a",)), "x": Subscription(("a",))}
    claims = {"new": NOTHING, "x": Claim(partitions("a-0 a-1"), 1)}
    assignment, moved = divide(subscriptions, {"a": 2}, None, claims)
    assert assignment == {"new": partitions("a-1"), "x": partitions("a-0")}
    assert moved == {partition("a-1")}


def test_moved_partitions_of_different_members() -> None:
    subscriptions = {"new": Subscription(("a", "b")), "x": Subscription(("a",))}
    claims = {"new": NOTHING, "x": Claim(partitions("a-0 a-1 a-2"), 1)}
    assignment, moved = divide(subscriptions, {"a": 3}, None, claims)
    assert sorted(map(len, assignment.values())) == [1, 2]
    assert moved == set(assignment["new"])


def test_order_and_absence_of_topics_make_no_difference() -> None:
    subscriptions = {"x": Subscription(("b", "a")), "y": Subscription(("a", "b"))}
    assignment, _ = divide(subscriptions, {"a": 3, "b": 1}, None, {"x": NOTHING, "y": NOTHING})
    assert {member: len(given) for member, given in assignment.items()} == {"x": 2, "y": 2}


def test_first_members_that_want_nothing() -> None:
    """Apache Kafka takes them for equal to those after them; a group of mixed clients must agree on that."""
    first = {"x": Subscription(()), "y": Subscription(("a",))}
    assert divide(first, {"a": 2}, None, dict.fromkeys(first, NOTHING)).assignment == {
        "x": partitions("a-0"),
        "y": partitions("a-1"),
    }
    last = {"x": Subscription(("a",)), "y": Subscription(())}
    assert divide(last, {"a": 2}, None, dict.fromkeys(last, NOTHING)).assignment["y"] == []


def test_racks_that_do_not_matter_take_nothing_away() -> None:
    """The replicas are in one rack, so that `x` being in another is no reason to move."""
    subscriptions = {"x": Subscription(("a",), rack_id="r9"), "y": Subscription(("a",), rack_id="r0")}
    claims = {"x": Claim(partitions("a-0"), 1), "y": Claim(partitions("a-1"), 1)}
    assignment, moved = divide(subscriptions, {"a": 2}, {"a": [["r0"], ["r0"]]}, claims)
    assert assignment == {"x": partitions("a-0"), "y": partitions("a-1")}
    assert moved == set()
