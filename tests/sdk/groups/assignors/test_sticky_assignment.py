"""Equal subscriptions use the constrained builder, others use the general one, and moved partitions are reported.

Method: use small hand-built groups for the choice between the two builders and for moved partitions.
"""

from __future__ import annotations

from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors.ownership import Claim
from kafkawire.sdk.groups.assignors.sticky_assignment import assign_sticky
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID
from tests.sdk.groups.assignors.groups import partition, partitions

NOTHING = Claim((), UNKNOWN_GENERATION_ID)


def test_moved_partitions_with_equal_subscriptions() -> None:
    subscriptions = {"new": MemberSubscription(("a",)), "x": MemberSubscription(("a",))}
    claims = {"new": NOTHING, "x": Claim(partitions("a-0 a-1"), 1)}
    assignment, moved = assign_sticky(subscriptions, {"a": 2}, None, claims)
    assert assignment == {"new": partitions("a-1"), "x": partitions("a-0")}
    assert moved == {partition("a-1")}


def test_moved_partitions_with_different_subscriptions() -> None:
    subscriptions = {"new": MemberSubscription(("a", "b")), "x": MemberSubscription(("a",))}
    claims = {"new": NOTHING, "x": Claim(partitions("a-0 a-1 a-2"), 1)}
    assignment, moved = assign_sticky(subscriptions, {"a": 3}, None, claims)
    assert sorted(map(len, assignment.values())) == [1, 2]
    assert moved == set(assignment["new"])


def test_order_of_topics_and_missing_topics_make_no_difference() -> None:
    subscriptions = {"x": MemberSubscription(("b", "a")), "y": MemberSubscription(("a", "b"))}
    assignment, _ = assign_sticky(subscriptions, {"a": 3, "b": 1}, None, {"x": NOTHING, "y": NOTHING})
    assert {member: len(given) for member, given in assignment.items()} == {"x": 2, "y": 2}


def test_leading_members_with_empty_subscriptions() -> None:
    """Apache Kafka ignores such members when it compares subscriptions, and a group of mixed clients must agree."""
    first = {"x": MemberSubscription(()), "y": MemberSubscription(("a",))}
    assert assign_sticky(first, {"a": 2}, None, dict.fromkeys(first, NOTHING)).assignment == {
        "x": partitions("a-0"),
        "y": partitions("a-1"),
    }
    last = {"x": MemberSubscription(("a",)), "y": MemberSubscription(())}
    assert assign_sticky(last, {"a": 2}, None, dict.fromkeys(last, NOTHING)).assignment["y"] == []


def test_racks_that_do_not_matter_move_nothing() -> None:
    """All replicas are in one rack, so no partition moves because `x` is in another rack."""
    subscriptions = {"x": MemberSubscription(("a",), rack_id="r9"), "y": MemberSubscription(("a",), rack_id="r0")}
    claims = {"x": Claim(partitions("a-0"), 1), "y": Claim(partitions("a-1"), 1)}
    assignment, moved = assign_sticky(subscriptions, {"a": 2}, {"a": [["r0"], ["r0"]]}, claims)
    assert assignment == {"x": partitions("a-0"), "y": partitions("a-1")}
    assert moved == set()
