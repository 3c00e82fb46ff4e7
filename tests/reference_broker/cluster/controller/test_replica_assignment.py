"""Replicas are spread, and manual assignments are checked, as in Kafka's `AdminUtils`.

Method: use examples from Apache Kafka's documentation of the algorithm, and hypothesis for general properties.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.reference_broker.cluster.controller.replica_assignment import (
    CandidateBroker,
    Start,
    assign_new_partitions,
    assign_replicas,
    check_manual_assignment,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

FIVE = [CandidateBroker(each) for each in range(5)]
RACKS = [CandidateBroker(each, rack) for each, rack in enumerate(("r1", "r3", "r3", "r2", "r2", "r1"))]


def test_without_racks_as_in_the_comment_of_kafka() -> None:
    assert list(assign_replicas(FIVE, 10, 3, Start(0, 0)).values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_with_racks_as_in_the_comment_of_kafka() -> None:
    assert list(assign_replicas(RACKS, 7, 3, Start(0, 0)).values()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=7),
    st.booleans(),
    st.integers(1, 20),
    st.integers(1, 7),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_replicas_are_distinct_even_and_in_all_racks(
    racks: list[str], has_racks: bool, partitions: int, factor: int, broker: int, shift: int
) -> None:
    brokers = [CandidateBroker(each, rack if has_racks else None) for each, rack in enumerate(racks)]
    factor = min(factor, len(brokers))
    assigned = assign_replicas(brokers, partitions, factor, Start(broker, shift))
    assert list(assigned) == list(range(partitions))
    leaders = Counter(replicas[0] for replicas in assigned.values())
    assert max(leaders.values()) <= -(-partitions // len(brokers))
    for replicas in assigned.values():
        assert len(set(replicas)) == factor
        if has_racks:
            assert len({racks[each] for each in replicas}) == min(factor, len(set(racks)))


def test_added_partitions_continue_behind_the_existing_ones() -> None:
    whole = assign_replicas(FIVE, 6, 2, Start(0, 0))
    existing = {number: whole[number] for number in range(4)}
    assert assign_new_partitions(existing, FIVE, 6) == {4: whole[4], 5: whole[5]}


REFUSED = [
    (FIVE, 0, 1, ErrorCode.INVALID_PARTITIONS),
    (FIVE, 1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
    (FIVE, 1, 6, ErrorCode.INVALID_REPLICATION_FACTOR),
    ([*FIVE, CandidateBroker(5, "r")], 1, 1, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("brokers", "partitions", "factor", "code"), REFUSED)
def test_impossible_numbers(brokers: list[CandidateBroker], partitions: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(Refused) as caught:
        assign_replicas(brokers, partitions, factor, Start(0, 0))
    assert caught.value.refusal.error_code is code


def test_a_topic_without_partition_0_gets_no_others() -> None:
    with pytest.raises(Refused, match="partition 0 is missing"):
        assign_new_partitions({1: (0,)}, FIVE, 3)


INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT
#: The assignments, the replication factor of the existing partitions, and the error.
MANUAL = [
    ({0: (0, 1), 1: (1, 2)}, None, None),
    ({0: (9,)}, None, None),
    ({2: (0, 1)}, 2, None),
    ({0: (0, 1), 1: (1,)}, None, INVALID),
    ({1: (0,)}, None, INVALID),
    ({0: (), 1: ()}, None, None),
    ({2: ()}, 2, INVALID),
    ({0: (1, 1)}, None, INVALID),
    ({}, None, INVALID),
    ({2: (0, 9)}, 2, ErrorCode.BROKER_NOT_AVAILABLE),
    ({2: (0,)}, 2, INVALID),
]


@pytest.mark.parametrize(("assignments", "factor", "code"), MANUAL)
def test_manual_assignments(
    assignments: dict[int, tuple[int, ...]], factor: int | None, code: ErrorCode | None
) -> None:
    if code is None:
        check_manual_assignment(assignments, range(5), factor)
        return
    with pytest.raises(Refused) as caught:
        check_manual_assignment(assignments, range(5), factor)
    assert caught.value.refusal.error_code is code
