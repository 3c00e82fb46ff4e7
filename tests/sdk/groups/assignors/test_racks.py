"""Racks match if a member and a replica share one, and matter if they make a difference.

Method: use a table of clusters for `matter`, and one hand-built cluster for the other tests.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.assignors.racks import Racks
from tests.sdk.groups.assignors.groups import partition


@pytest.mark.parametrize(
    ("members", "replicas", "matter"),
    [
        (["r0"], [["r0"], ["r1"]], True),
        (["r0"], [["r0", "r1"], ["r1", "r0"]], False),
        (["r2"], [["r0"], ["r1"]], False),
        (["r2", "r0"], [["r0"], ["r1"]], True),
        ([None], [["r0"], ["r1"]], False),
        ([""], [["r0"], [""]], False),
        ([], [["r0"], ["r1"]], False),
        (["r0"], [], False),
        (["r0"], [["r0"], []], True),
    ],
)
def test_matter(members: list[str | None], replicas: list[list[str]], matter: bool) -> None:
    subscriptions = {str(index): MemberSubscription(("a",), rack_id=rack) for index, rack in enumerate(members)}
    assert Racks.of(subscriptions, {"a": len(replicas)}, {"a": replicas}).matter is matter


def test_unknown_racks_do_not_matter() -> None:
    subscriptions = {"x": MemberSubscription(("a",), rack_id="r0")}
    assert not Racks.of(subscriptions, {"a": 2}, None).matter
    assert not Racks.of(subscriptions, {"a": 2}, {}).matter


def test_matches() -> None:
    subscriptions = {
        "x": MemberSubscription(("a",), rack_id="r0"),
        "y": MemberSubscription(("a",), rack_id="r1"),
        "z": MemberSubscription(("a",)),
    }
    racks = Racks.of(subscriptions, {"a": 3}, {"a": [["r0"], ["r0", "r1"], ["r2"], ["r1"]]})
    table = [(member, number, racks.match(member, partition(f"a-{number}"))) for member in "xyz" for number in range(4)]
    assert [(member, number) for member, number, match in table if match] == [("x", 0), ("x", 1), ("y", 1)]
    table = [(m, number, racks.mismatch(m, partition(f"a-{number}"))) for m in "xyz" for number in range(4)]
    assert [(m, number) for m, number, found in table if found] == [("x", 2), ("x", 3), ("y", 0), ("y", 2), ("y", 3)]
    assert [racks.members_in_rack(partition(f"a-{number}")) for number in range(4)] == [1, 2, 0, 0]
