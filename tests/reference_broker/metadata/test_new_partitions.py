"""A request for more partitions must contain a larger number and existing brokers.

Method: run each check with valid and invalid values; the messages are in `apis/partition_cases.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.new_partitions import check_assignments, check_increase
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_an_increase():
    check_increase("t", 2, 3)


@pytest.mark.parametrize(
    ("count", "text"), [(2, "already has 2"), (1, "2 partition.s.; 1 would"), (-1, "2 partition.s.; -1 would")]
)
def test_no_increase(count: int, text: str):
    with pytest.raises(BrokerError, match=text) as raised:
        check_increase("t", 2, count)
    assert raised.value.code is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("assignments", [[[1], [2]], [[2, 1], [1, 2]]])
def test_brokers_that_there_are(assignments: list[list[int]]):
    finished(check_assignments(assignments, 2, {1, 2}))


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        ([], "add 1 additional partition.s., but only 0"),
        ([[1], [1]], "add 1 additional partition.s., but only 2"),
        ([[]], "an empty replica list"),
        ([[3, 2, 4]], "broker 3, but no such broker is registered"),
        ([[2, 3, 2]], "the broker 2 more than once"),
    ],
)
def test_assignments_that_are_not_possible(assignments: list[list[int]], text: str):
    with pytest.raises(BrokerError, match=text) as raised:
        finished(check_assignments(assignments, 1, {1, 2}))
    assert raised.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_others_have_their_turn_after_each_assignment():
    assert len([*check_assignments([[1]] * 5, 5, {1})]) == 5
