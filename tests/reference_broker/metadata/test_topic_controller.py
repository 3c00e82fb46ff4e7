"""The topic controller notifies its callers once the image contains the change.

Method: request each change in `TopicController` from a single broker.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.metadata.topic_controller import TopicController, TopicDone
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

CHANGES: dict[str, Callable[[TopicController, BrokerBench, TopicDone], None]] = {
    "create": lambda topics, bench, done: topics.create(NewTopic("new", 2), done),
    "create by default": lambda topics, bench, done: topics.create_by_default("new", done),
    "ensure": lambda topics, bench, done: topics.ensure("__consumer_offsets", done),
    "ensure again": lambda topics, bench, done: topics.ensure("t", done),
    "add partitions": lambda topics, bench, done: topics.add_partitions(bench.core.metadata.image.topics["t"], 3, done),
    "configure": lambda topics, bench, done: topics.configure(
        bench.core.metadata.image.topics["t"], lambda before: {"retention.ms": "1"}, done
    ),
    "configure as before": lambda topics, bench, done: topics.configure(
        bench.core.metadata.image.topics["t"], lambda before: before, done
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_done_is_in_the_image(bench: BrokerBench, change: str) -> None:
    bench.create()
    told = []

    def done(outcome: object) -> None:
        told.append((outcome, [*bench.core.metadata.image.topics.values()]))

    CHANGES[change](bench.core.topics, bench, done)
    ((topic, known),) = told
    assert topic in known


def test_a_deleted_topic_is_in_no_image(bench: BrokerBench) -> None:
    bench.create()
    told: list[bool] = []
    topic = bench.core.metadata.image.topics["t"]
    bench.core.topics.delete(topic, bench.now_ms, lambda error: told.append("t" in bench.core.metadata.image.topics))
    assert told == [False]


def test_a_topic_that_is_gone_cannot_be_changed(bench: BrokerBench) -> None:
    bench.create()
    topic, told = bench.core.metadata.image.topics["t"], list[ErrorCode | None]()

    def done(outcome: object) -> None:
        told.append(outcome.code if isinstance(outcome, BrokerError) else None)

    bench.core.topics.delete(topic, bench.now_ms, done)
    bench.core.topics.delete(topic, bench.now_ms, done)
    bench.core.topics.add_partitions(topic, 5, done)
    bench.core.topics.configure(topic, lambda before: before, done)
    assert told == [None, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3]


def test_partitions_that_are_only_validated_are_not_added(bench: BrokerBench) -> None:
    bench.create("t", 2)
    topic, told = bench.core.metadata.image.topics["t"], list[object]()
    bench.core.topics.add_partitions(topic, 5, told.append, validate_only=True)
    assert told == [topic]
    assert bench.core.metadata.image.topics["t"] is topic


@pytest.mark.parametrize(("count", "more"), [(3, 1), (9, 7)])
def test_how_many_partitions_a_topic_would_gain(bench: BrokerBench, count: int, more: int) -> None:
    bench.create("t", 2)
    assert bench.core.topics.check_partitions(bench.core.metadata.image.topics["t"], count) == more
