"""Operations on share groups that involve the persister: their order, their outcomes, and what happens if it fails.

Method: use a coordinator with a log in memory, and a persister that records what it is asked for.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.share.requests import Refusal
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.group_bench import only
from tests.reference_broker.groups.share.share_group_bench import ShareGroupBench, T, U

FAILED = BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "failed")

UNKNOWN = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


@pytest.fixture
def bench():
    bench = ShareGroupBench()
    bench.share_join()
    bench.share_beat("m", -1)
    bench.persister.asked.clear()
    return bench


def asked(bench):
    """Return the names of the operations that the persister was asked for, and their partitions."""
    return sorted((name, key.topic_id, key.partition) for name, key, *_ in bench.persister.asked)


def test_a_group_is_described(bench):
    assert bench.outcome(bench.shares.describe, "g").group_id == "g"
    for group_id, code in (("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)):
        assert bench.outcome(bench.shares.describe, group_id).code is code


def test_a_group_is_deleted_after_its_states(bench):
    assert bench.outcome(bench.shares.delete, "g") is None
    assert asked(bench) == [("delete", T, number) for number in range(4)]
    assert list(bench.groups.share_groups()) == []
    assert bench.outcome(bench.shares.delete, "g").code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_that_failed_is_done_again(bench):
    bench.persister.outcomes = [FAILED]
    assert bench.outcome(bench.shares.delete, "g").code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.share.states.deleting, bench.share.states.initialized) == ({T: "t"}, {})
    bench.persister.asked.clear()
    assert bench.outcome(bench.shares.delete, "g") is None
    assert len(bench.persister.asked) == 4


def test_a_group_with_members_is_not_deleted(bench):
    bench.share_join()
    bench.persister.asked.clear()
    assert bench.outcome(bench.shares.delete, "g").code is ErrorCode.NON_EMPTY_GROUP
    assert bench.persister.asked == []


def test_a_group_of_another_type_has_no_states():
    bench = ShareGroupBench()
    only(bench.join())
    assert bench.outcome(bench.shares.delete, "g").code is ErrorCode.NON_EMPTY_GROUP
    assert bench.persister.asked == []


def test_the_states_of_deleted_topics_are_forgotten(bench):
    bench.groups.submit_share_to_all(lambda share: share.forget_topics(frozenset({U})), lambda outcome: None, 0)
    assert set(bench.share.states.initialized) == {T}
    bench.groups.submit_share_to_all(lambda share: share.forget_topics(frozenset({T})), lambda outcome: None, 0)
    assert bench.share.states.initialized == {}


# Offsets.


def test_partitions_with_a_state(bench):
    assert bench.outcome(bench.shares.partitions, "g") == {T: {0, 1, 2, 3}}
    assert bench.outcome(bench.shares.partitions, "none") == {}


def test_summaries(bench):
    found = []
    bench.persister.outcomes = ["state", FAILED]
    bench.shares.summaries("g", {T: [0, 1]}, found.append)
    assert found == [{(T, 0): "state", (T, 1): FAILED}]
    bench.shares.summaries("g", {}, found.append)
    assert found[1] == {}


def test_offsets_are_altered(bench):
    wanted = {"t": {0: 5, 1: 6, 9: 7}, "none": {0: 1}}
    alteration = bench.outcome(bench.shares.alter_offsets, "g", wanted)
    assert alteration.results == {
        "t": {0: Refusal(ErrorCode.NONE), 1: Refusal(ErrorCode.NONE), 9: UNKNOWN},
        "none": {0: UNKNOWN},
    }
    assert [(name, key.partition, start) for name, key, _, start in bench.persister.asked] == [
        ("initialize", 0, 5),
        ("initialize", 1, 6),
    ]
    assert bench.share.states.assignable == {T: {0, 1, 2, 3}}


def test_offsets_that_could_not_be_altered(bench):
    bench.persister.outcomes = [FAILED, None]
    alteration = bench.outcome(bench.shares.alter_offsets, "g", {"t": {0: 5, 1: 6}})
    assert {number: result.code for number, result in alteration.results["t"].items()} == {
        0: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        1: ErrorCode.NONE,
    }


def test_an_altered_offset_is_not_overwritten_while_the_persister_works() -> None:
    """A member that joins has states begun, but not those for which the persister has been asked recently."""
    bench = ShareGroupBench()
    bench.persister.is_holding = True
    bench.advance(100_000)
    bench.shares.alter_offsets("g", {"t": {0: 5}}, lambda outcome: None, bench.now_ms)
    bench.advance()
    bench.share_beat("m", 0, ["t"])
    found = [(key.partition, start) for _, key, _, start in bench.persister.asked]
    assert found == [(0, 5), (1, -1), (2, -1), (3, -1)]


def test_offsets_are_deleted(bench):
    bench.add_topic("u", U, 1)
    found = bench.outcome(bench.shares.delete_offsets, "g", ["t", "u", "none"])
    assert found.deleted == {T: "t"}
    assert found.refused == {
        "u": Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."),
        "none": UNKNOWN,
    }
    assert asked(bench) == [("delete", T, number) for number in range(4)]
    assert (bench.share.states.initialized, bench.share.states.deleting) == ({}, {})


def test_offsets_that_could_not_be_deleted(bench):
    bench.persister.outcomes = [None, FAILED]
    found = bench.outcome(bench.shares.delete_offsets, "g", ["t"])
    assert (found.deleted, found.failed) == ({}, {T: ("t", Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "failed"))})
    assert bench.share.states.deleting == {T: "t"}
    found = bench.outcome(bench.shares.delete_offsets, "g", ["t"])
    assert (found.deleted, bench.share.states.deleting) == ({T: "t"}, {})


def test_offsets_of_which_some_could_not_be_deleted() -> None:
    bench = ShareGroupBench()
    bench.add_topic("u", U, 1)
    bench.share_join("m", "t", "u")
    bench.share_beat("m", -1)
    bench.persister.outcomes = [None, None, None, None, FAILED]
    found = bench.outcome(bench.shares.delete_offsets, "g", ["t", "u"])
    assert (found.deleted, set(found.failed)) == ({T: "t"}, {U})
    assert (bench.share.states.initialized, bench.share.states.deleting) == ({}, {U: "u"})


@pytest.mark.parametrize(
    ("group_id", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_offsets_of_other_groups(bench, group_id, code):
    assert bench.outcome(bench.shares.delete_offsets, group_id, ["t"]).code is code


def test_offsets_of_groups_with_members(bench):
    bench.share_join()
    bench.persister.asked.clear()
    assert bench.outcome(bench.shares.alter_offsets, "g", {"t": {0: 5}}).code is ErrorCode.NON_EMPTY_GROUP
    assert bench.outcome(bench.shares.delete_offsets, "g", ["t"]).code is ErrorCode.NON_EMPTY_GROUP
    assert bench.persister.asked == []
