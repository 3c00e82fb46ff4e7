"""A metadata change creates a delta and a new image, which shares the unchanged parts with the old one.

Method: images of a few topics; a sequence of random changes is compared with a dictionary.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.reference_broker.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicChange,
    TopicImage,
)
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.transport.wire import Address

PARTITION = PartitionImage(1, 0, (1,), (1,))
OFFLINE = PARTITION._replace(leader=NO_LEADER_ID, offline_replicas=(1,))
INSIDE, OUTSIDE = Address("10.0.0.1", 9092), Address("kafka.example.com", 19092)
BROKERS = {1: BrokerRegistration(1, {"INSIDE": INSIDE, "OUTSIDE": OUTSIDE}, "east"), 2: BrokerRegistration(2, {})}


def topic(name: str, number: int = 1, partitions: int = 1, **configs: str) -> TopicImage:
    return TopicImage(name, number.to_bytes(16, "big"), (PARTITION,) * partitions, configs)


def image(*topics: TopicImage) -> MetadataImage:
    return MetadataImage("cluster", 1, BROKERS, {}, {}).with_topics(topics).after


A, B = topic("a", 1), topic("b", 2)


def test_a_topic_that_comes():
    before = image(A)
    delta = before.with_topics([B])
    assert delta.before is before
    assert delta.after.topics == {"a": A, "b": B}
    assert delta.after.topics_by_id == {A.topic_id: A, B.topic_id: B}
    assert delta.topics == [TopicChange(None, B)]
    assert before.topics == {"a": A}, "an image never changes"


def test_what_has_not_changed_is_shared():
    before = image(A, B)
    after = before.with_topics([topic("b", 2, 3)]).after
    assert after.topics["a"] is A
    assert after.brokers is before.brokers
    assert list(after.topics) == ["a", "b"], "a topic keeps its place"


def test_a_topic_that_is_deleted():
    delta = image(A, B).with_topics(deleted=["a", "unknown"])
    assert (delta.after.topics, delta.after.topics_by_id) == ({"b": B}, {B.topic_id: B})
    assert delta.topics == [TopicChange(A, None)]
    assert (delta.deletes("a"), delta.deletes("b"), delta.deletes("unknown")) == (True, False, False)


def test_a_topic_that_is_created_again_is_another():
    again = topic("a", 3)
    delta = image(A).with_topics([again], ["a"])
    assert delta.topics == [TopicChange(A, None), TopicChange(None, again)]
    assert delta.after.topics_by_id == {again.topic_id: again}


@pytest.mark.parametrize(
    ("change", "name", "new_partitions", "is_deletion"),
    [
        (TopicChange(None, A), "a", 1, False),
        (TopicChange(A, topic("a", 1, 4)), "a", 3, False),
        (TopicChange(A, topic("a", 1, retention="1")), "a", 0, False),
        (TopicChange(A, None), "a", 0, True),
    ],
)
def test_what_a_change_says(change: TopicChange, name: str, new_partitions: int, is_deletion: bool):
    assert (change.name, change.new_partitions, change.is_deletion) == (name, new_partitions, is_deletion)


def test_a_partition_has_a_leader_or_not():
    assert (PARTITION.has_leader, OFFLINE.has_leader) == (True, False)


@pytest.mark.parametrize(("listener", "reachable"), [("INSIDE", INSIDE), ("OUTSIDE", OUTSIDE), ("OTHER", None)])
def test_brokers_are_known_by_the_address_of_a_listener(listener: str, reachable: Address | None):
    known = image()
    assert known.address(1, listener) == reachable
    assert known.address(2, listener) is known.address(3, listener) is None
    assert known.reachable(listener) == ([] if reachable is None else [(BROKERS[1], reachable)])


@pytest.mark.parametrize("seed", range(20))
def test_both_tables_always_have_the_same_topics(seed: int):
    chance, number, known, expected = random.Random(seed), 0, image(), {}
    for _ in range(50):
        names = chance.sample("abcdef", 3)
        present = []
        for name in names[:2]:
            number += 1
            kept = expected.get(name)
            present.append(kept._replace(configs={"n": str(number)}) if kept else topic(name, number))
        gone = names[2:]
        known = known.with_topics(present, gone).after
        expected.update((each.name, each) for each in present)
        expected.pop(gone[0], None)
        assert known.topics == expected
        assert known.topics_by_id == {each.topic_id: each for each in expected.values()}
