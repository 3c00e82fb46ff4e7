"""The assignors for members in ZooKeeper give every partition to the same thread as Kafka 1.1.1 does.

Method: assign the groups in `zookeeper_assignments.jsonl`. Their registrations and topics were written to a ZooKeeper
server, and classes of Kafka 1.1.1 (`AssignmentContext`, `RangeAssignor`, `RoundRobinAssignor`) computed the owners for
each member.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.groups.zookeeper_assignors import THREAD_ASSIGNORS, assign_ranges, assign_round_robin
from kafkawire.sdk.groups.zookeeper_view import topics_of
from kafkawire.sdk.protocol.tables.znodes import ConsumerRegistration
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.routing.partitions import TopicPartition

CASES = [
    json.loads(line) for line in Path(__file__).with_name("zookeeper_assignments.jsonl").read_text("utf-8").splitlines()
]


def threads_of(case: dict[str, Any]) -> dict[str, list[ConsumerThread]]:
    threads: dict[str, list[ConsumerThread]] = {}
    for member, (pattern, subscription) in case["members"].items():
        for topic, count in topics_of(ConsumerRegistration(subscription, pattern), case["topics"]).items():
            threads.setdefault(topic, []).extend(ConsumerThread(member, number) for number in range(count))
    return threads


@pytest.mark.parametrize("assignor", THREAD_ASSIGNORS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_owners_are_those_of_kafka(case: int, assignor: str) -> None:
    topics = CASES[case]["topics"]
    partitions = {topic: range(count) for topic, count in topics.items()}
    assignment = THREAD_ASSIGNORS[assignor](threads_of(CASES[case]), partitions)
    owners = {f"{each.topic}-{each.partition}": str(thread) for each, thread in assignment.items()}
    assert owners == CASES[case]["owners"][assignor]


def test_the_order_of_the_input_does_not_matter() -> None:
    threads = [ConsumerThread("b", 0), ConsumerThread("a", 10), ConsumerThread("a", 2)]
    expected = {0: "a-10", 1: "a-10", 2: "a-2", 5: "b-0"}
    assignment = assign_ranges({"t": threads}, {"t": [5, 2, 0, 1]})
    assert {each.partition: str(thread) for each, thread in assignment.items()} == expected
    shuffled = assign_round_robin({"t": threads, "u": threads[:1]}, {"u": [0], "t": [3, 1, 0]})
    assert shuffled == assign_round_robin({"u": threads[:1], "t": threads[::-1]}, {"t": [0, 1, 3], "u": [0]})


def test_topics_without_readers_or_partitions_are_left_out() -> None:
    thread = ConsumerThread("a", 0)
    for assign in THREAD_ASSIGNORS.values():
        assert assign({}, {"t": [0]}) == {}
        assert assign({"t": [thread], "u": []}, {"t": [], "u": [0]}) == {}
        assert assign({"t": [thread], "v": [thread]}, {"t": [0]}) == {TopicPartition("t", 0): thread}
