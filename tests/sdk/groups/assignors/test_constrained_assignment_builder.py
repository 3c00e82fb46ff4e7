"""Members with equal subscriptions get equal numbers of partitions, and keep what they can.

Method: let hypothesis choose the partitions that members owned; build small groups by hand for uneven quotas,
conflicting claims and racks.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.groups.assignors.constrained_assignment_builder import ConstrainedAssignmentBuilder
from kafkawire.sdk.groups.assignors.ownership import Ownership
from kafkawire.sdk.groups.assignors.racks import Racks
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.groups.assignors.groups import RACKS, partition, partitions

NO_RACKS = Racks({}, {})


def built(
    counts: dict[str, int], owned: dict[str, str], disputed: str = "", racks: Racks = NO_RACKS
) -> ConstrainedAssignmentBuilder:
    ownership = Ownership({member: partitions(text) for member, text in owned.items()}, set(partitions(disputed)), {})
    builder = ConstrainedAssignmentBuilder(counts, ownership, racks)
    builder.build()
    return builder


@given(st.data())
def test_quotas_and_what_is_kept(data: st.DataObject) -> None:
    """Every partition is assigned once, sizes differ by at most one, and members keep partitions up to their quota."""
    counts = data.draw(st.dictionaries(st.sampled_from("abc"), st.integers(1, 8), min_size=1))
    members = data.draw(st.lists(st.text("xyz", min_size=1), min_size=1, max_size=6, unique=True))
    everything = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    owned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for each in data.draw(st.lists(st.sampled_from(everything), unique=True)):
        owned[data.draw(st.sampled_from(members))].append(each)
    racks = NO_RACKS
    if in_racks := data.draw(st.booleans()):
        replicas = {each: frozenset(data.draw(st.sets(st.sampled_from(RACKS)))) for each in everything}
        racks = Racks({member: data.draw(st.sampled_from(RACKS)) for member in members}, replicas)
    builder = ConstrainedAssignmentBuilder(counts, Ownership(owned, set(), {}), racks)
    builder.build()
    assert sorted(each for given in builder.assignment.values() for each in given) == sorted(everything)
    share = len(everything) // len(members)
    assert {len(given) for given in builder.assignment.values()} <= {share, share + 1}
    for member, given_ in builder.assignment.items():
        if not in_racks:
            assert len(set(given_) & set(owned[member])) >= min(share, len(owned[member]))
        others = {each for other, had in owned.items() if other != member for each in had}
        assert set(given_) & others <= builder.moved
    assert builder.moved <= {each for had in owned.values() for each in had}


def test_a_balanced_group_moves_nothing() -> None:
    builder = built({"a": 5}, {"x": "a-0 a-3", "y": "a-1 a-2 a-4"})
    assert builder.assignment == {"x": partitions("a-0 a-3"), "y": partitions("a-1 a-2 a-4")}
    assert builder.moved == set()


def test_a_new_member_takes_from_the_largest() -> None:
    builder = built({"a": 6}, {"new": "", "x": "a-0 a-1 a-2", "y": "a-3 a-4 a-5"})
    assert builder.assignment == {"new": partitions("a-2 a-5"), "x": partitions("a-0 a-1"), "y": partitions("a-3 a-4")}
    assert builder.moved == set(partitions("a-2 a-5"))


def test_disputed_partitions_are_assigned_again() -> None:
    builder = built({"a": 3}, {"x": "a-0", "y": "a-2"}, disputed="a-1")
    assert builder.assignment == {"x": partitions("a-0 a-1"), "y": partitions("a-2")}
    assert builder.moved == {partition("a-1")}


def test_more_members_than_partitions() -> None:
    builder = built({"a": 2}, {"x": "", "y": "a-0", "z": "", "w": ""})
    assert builder.assignment["y"] == partitions("a-0")
    assert sum(map(len, builder.assignment.values())) == 2


def test_a_partition_leaves_a_member_in_another_rack() -> None:
    replicas = {partition("a-0"): frozenset({"r0"}), partition("a-1"): frozenset({"r1"})}
    builder = built({"a": 2}, {"x": "a-1", "y": "a-0"}, racks=Racks({"x": "r0", "y": "r1"}, replicas))
    assert builder.assignment == {"x": partitions("a-0"), "y": partitions("a-1")}
    assert builder.moved == set(partitions("a-0 a-1"))
