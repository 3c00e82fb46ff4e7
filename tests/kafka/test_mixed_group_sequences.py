"""The reference broker's groups answer random sequences of requests from both protocols as Apache Kafka's do: they give
the same codes, epochs, partition owners and assignor's choices, even when groups change from one protocol to the other
and back.

Method: send each request to a node of Apache Kafka and to an in-memory coordinator that knows the same topics under the
same ids, and adopts the member ids that Kafka assigns. At the end of a sequence, both describe the group. Timeouts are
so long that only the order of requests matters; once a regular expression has been resolved, the next request waits
until Kafka has also resolved it. Choices that depend on the history of Kafka's hash tables are left out: the leader
when several members of a consumer group remain, and members and topics that fall into the same bucket.
KAFKAWIRE_MIXED_SEQUENCES sets the number of sequences; a failure prints its seed.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress

import pytest

from kafkawire import Admin, NewTopic
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until, until_async
from tests.kafka.java_buckets import uuid_bucket
from tests.kafka.line import IN_ORDER, Lines, address_of
from tests.kafka.mixed_group import SIZES, Mixed
from tests.kafka.topics import create
from tests.reference_broker.groups import consumer_sequences as sequences

SEQUENCES = int(os.environ.get("KAFKAWIRE_MIXED_SEQUENCES", "300"))

#: One second per sequence is ample; the rest is for starting a node.
pytestmark = pytest.mark.timeout(120 + SEQUENCES)


@pytest.fixture(scope="module")
def prompt_kafka() -> Iterator[ApacheKafka]:
    """A node that computes assignments immediately; by default, it batches changes for a while."""
    with ApacheKafka(settings={"group.consumer.assignment.interval.ms": "0"} | IN_ORDER) as node:
        yield node


async def topics_of(bootstrap: str) -> dict[str, TopicFacts]:
    """Create topics whose ids fall into separate buckets; return their descriptions."""
    async with Admin(bootstrap) as admin:
        # A request about a group creates the offsets topic, without which groups have no coordinator.
        for number in range(16):
            with suppress(BrokerError):
                await admin.describe_groups([f"mixed-{number}"])
        ids: dict[str, bytes] = {}

        async def are_gone() -> bool:
            return not set(await admin.list_topics()) & set(ids)

        async def are_apart() -> bool:
            if ids:
                await admin.delete_topics(list(ids))
                await until_async(are_gone, "Apache Kafka does not delete the topics")
            ids.update(await create(bootstrap, *(NewTopic(name, size) for name, size in SIZES.items())))
            return len({uuid_bucket(topic_id) for topic_id in ids.values()}) == len(ids)

        await until_async(are_apart, "the ids of the topics never fall into buckets of their own")
        return {name: TopicFacts(bytes(topic_id), SIZES[name]) for name, topic_id in ids.items()}


def await_topics(mixed: Mixed) -> None:
    """Wait until Apache Kafka's coordinator knows the topics."""
    asked = sequences.Beat("m", 0, rebalance_ms=60_000, topics=tuple(SIZES), owned={})

    def has_all() -> bool:
        assigned = mixed.assigned(mixed.ask_kafka(mixed.message(asked), 1)) or {}
        if sum(map(len, assigned.values())) == sum(SIZES.values()):
            return True
        mixed.ask_kafka(mixed.message(asked._replace(epoch=sequences.LEAVE)), 1)
        return False

    until(has_all, "Apache Kafka's coordinator does not know all topics")


def test_answers_are_those_of_apache_kafka(prompt_kafka: ApacheKafka) -> None:
    topics = asyncio.run(topics_of(prompt_kafka.bootstrap))
    with closing(Lines(address_of(prompt_kafka.bootstrap))) as lines:
        compare_sequences(lines, topics, range(SEQUENCES))


def compare_sequences(lines: Lines, topics: Mapping[str, TopicFacts], seeds: range) -> None:
    run = uuid.uuid4().hex[:8]
    await_topics(Mixed(lines, topics, 0, f"{run}-first"))
    asked = turns = 0
    for seed in seeds:
        mixed = Mixed(lines, topics, seed, f"{run}-{seed}")
        try:
            mixed.run()
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"seed {seed}, request {mixed.asked}: {error}") from error
        asked += mixed.asked
        turns += mixed.turns
    assert turns > len(seeds) / 10, "too few groups changed their protocol"
    print(f"{len(seeds)} sequences, {asked} requests, {turns} protocol changes")
