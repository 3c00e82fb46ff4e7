"""The number of tasks and of partitions of internal topics follow from source topics; wrong topics are named.

Method: configure topologies with given topics; test_streams_group_steps.py in tests/kafka compares the texts with
Apache Kafka's.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredTopology, configured
from kafkawire.reference_broker.groups.streams.topology import CopartitionGroup, Subtopology, Topology
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import StreamsGroupStatus
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.streams.streams_bench import WORD_COUNT, copartition, internal, subtopology


def topics(**counts: int) -> dict[str, TopicFacts]:
    return {name: TopicFacts(name.encode() * 16, count) for name, count in counts.items()}


def made(*subtopologies: Subtopology, **counts: int) -> ConfiguredTopology:
    return configured(Topology(3, subtopologies), topics(**counts))


def test_missing_internal_topics_get_the_partitions_of_their_sources() -> None:
    found = configured(WORD_COUNT, topics(t=4))
    assert found.obstacle is not None
    assert found.obstacle.status is StreamsGroupStatus.MISSING_INTERNAL_TOPICS
    assert {name: topic.partitions for name, topic in found.missing.items()} == {"r": 4, "c": 4}
    assert {key: part.tasks for key, part in found.subtopologies.items()} == {"0": 4, "1": 4}


def test_complete_topics() -> None:
    found = configured(WORD_COUNT, topics(t=4, r=4, c=4))
    assert (found.is_ready, found.epoch, found.missing) == (True, 0, {})


def test_existing_topic_with_other_partitions() -> None:
    found = configured(WORD_COUNT, topics(t=4, r=4, c=3))
    text = "Existing topic c has different number of partitions: expected 4, found 3"
    assert found.obstacle == (StreamsGroupStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
    assert not found.subtopologies


def test_missing_sources() -> None:
    found = made(subtopology("0", "d", "b", "a"), subtopology("1", "c", "e"), e=1)
    text = "Source topics a, b, c and 1 additional topics are missing."
    assert found.obstacle == (StreamsGroupStatus.MISSING_SOURCE_TOPICS, text)


def test_chain_of_repartition_topics() -> None:
    found = made(
        subtopology("2", sinks=("z",), repartition=(internal("y"),)),
        subtopology("3", repartition=(internal("z"),), changelogs=(internal("c"),)),
        subtopology("1", sinks=("y",), repartition=(internal("x"), internal("fixed", 9))),
        subtopology("0", "a", "b", sinks=("x",)),
        a=2,
        b=5,
    )
    assert {name: topic.partitions for name, topic in found.missing.items()} == {
        "x": 5,
        "fixed": 9,
        "y": 9,
        "z": 9,
        "c": 9,
    }
    assert list(found.subtopologies) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (copartition((0,), (0,)), {"r": 6, "s": 4}),
        (copartition((), (0, 1)), {"r": 4, "s": 4}),
        (copartition(), {"r": 2, "s": 4}),
    ],
)
def test_copartitioned_repartition_topics(group: CopartitionGroup, expected: dict[str, int]) -> None:
    found = made(
        subtopology("0", "two", sinks=("r",)),
        subtopology("1", "four", sinks=("s",)),
        subtopology("2", "six", repartition=(internal("r"), internal("s")), copartitioned=(group,)),
        two=2,
        four=4,
        six=6,
    )
    assert {name: topic.partitions for name, topic in found.missing.items()} == expected


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (
            subtopology("0", "one", "two", copartitioned=(copartition((0, 1)),)),
            "Following topics do not have the same number of partitions: [{one=1, two=2}]",
        ),
        (
            subtopology("0", "one", repartition=(internal("f", 3),), copartitioned=(copartition((0,), (0,)),)),
            "Number of partitions [3] of repartition topic [f] doesn't match number of partitions [1] of the source "
            "topic.",
        ),
        (
            subtopology(
                "0", repartition=(internal("f", 3), internal("g", 4)), copartitioned=(copartition((), (0, 1)),)
            ),
            "Following topics do not have the same number of partitions: [{f=3, g=4}]",
        ),
    ],
)
def test_topics_that_are_not_copartitioned(part: Subtopology, text: str) -> None:
    assert made(part, one=1, two=2).obstacle == (StreamsGroupStatus.INCORRECTLY_PARTITIONED_TOPICS, text)


INVALID, SERVER = ErrorCode.STREAMS_INVALID_TOPOLOGY, ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("parts", "code", "text"),
    [
        (
            [
                subtopology("0", sinks=("x",), repartition=(internal("y"),)),
                subtopology("1", sinks=("y",), repartition=(internal("x"),)),
            ],
            INVALID,
            "loops",
        ),
        ([subtopology("0", "one", repartition=(internal("x"),))], INVALID, "never used as a sink"),
        ([subtopology("0")], INVALID, "No source topics found for subtopology 0"),
        ([subtopology("0", "one", copartitioned=(copartition((1,)),))], SERVER, "copartition group"),
        ([subtopology("0", "one"), subtopology("0", "one")], SERVER, "same id"),
        ([subtopology("0", repartition=(internal("x", -1),))], SERVER, "at least 1"),
        ([subtopology(f"{number}", "many") for number in range(11)], INVALID, "110000 tasks; the limit is 100000"),
    ],
)
def test_topologies_that_cannot_run(parts: list[Subtopology], code: ErrorCode, text: str) -> None:
    with pytest.raises(BrokerError, match=text) as raised:
        made(*parts, one=1, many=10_000)
    assert raised.value.code is code
