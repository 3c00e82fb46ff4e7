"""A group notices two owners of a partition, and offsets that are lost, go back, or were never sent.

Method: give the checker made-up assignments and answers.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.simulation.checkers import Violation
from kafkawire.reference_broker.simulation.group import Group
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.routing.partitions import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_partition_has_one_owner_in_a_generation() -> None:
    group = Group("g", (ZERO, ONE))
    group.assigned(4, "a", [ZERO])
    group.assigned(4, "b", [ONE])
    group.assigned(4, "a", [ZERO])
    group.assigned(5, "b", [ZERO])
    assert group.generation == 5
    with pytest.raises(Violation, match="b owns t-0 in generation 4, and so does a"):
        group.assigned(4, "b", [ZERO])


def answer(*offsets: int) -> OffsetFetchResponse:
    parts = [OffsetFetchResponse.OffsetFetchResponsePartitions(number, offset) for number, offset in enumerate(offsets)]
    topic = OffsetFetchResponse.OffsetFetchResponseTopics("t", partitions=parts)
    return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", [topic])])


@pytest.mark.parametrize(
    ("offsets", "is_right"),
    [((1, -1), True), ((2, 0), True), ((0, 0), False), ((-1, 0), False), ((3, 0), False), ((1, 1), False)],
)
def test_offsets_that_are_read(offsets: tuple[int, int], is_right: bool) -> None:
    group = Group("g", (ZERO, ONE))
    assert [group.next_offset(ZERO), group.next_offset(ZERO)] == [1, 2]
    group.committed({ZERO: 1})
    script = group.read([ZERO, ONE])
    next(script)
    group.committed({ZERO: 2})  # an acknowledgement that comes after the question does not count
    with pytest.raises(StopIteration if is_right else Violation):
        script.send(answer(*offsets))


def test_an_offset_that_was_read_does_not_go_back() -> None:
    group = Group("g", (ZERO, ONE))
    group.next_offset(ZERO)
    for offset, expected in ((1, StopIteration), (0, Violation)):
        script = group.read([ZERO, ONE])
        next(script)
        with pytest.raises(expected):
            script.send(answer(offset, 0))
