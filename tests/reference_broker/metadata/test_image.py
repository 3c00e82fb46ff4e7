"""A metadata change creates a delta and a new image, which shares its unchanged parts with the old image.

Method: use images of a few topics; compare the result of random changes with a dictionary.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.reference_broker.metadata.image import (
    NO_FEATURES,
    UNKNOWN_PARTITION,
    BrokerRegistration,
    FinalizedFeatures,
    MetadataImage,
    PartitionImage,
    TopicChange,
    TopicImage,
)
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID, NO_LEADER_ID
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.wire import Address

PARTITION = PartitionImage(1, 0, (1,), (1,))
OFFLINE = PARTITION._replace(leader=NO_LEADER_ID, offline_replicas=(1,))
INSIDE, OUTSIDE = Address("10.0.0.1", 9092), Address("kafka.example.com", 19092)
BROKERS = {1: BrokerRegistration(1, {"INSIDE": INSIDE, "OUTSIDE": OUTSIDE}, "east"), 2: BrokerRegistration(2, {})}


def topic(name: str, number: int = 1, partitions: int = 1, **configs: str) -> TopicImage:
    return TopicImage(name, number.to_bytes(16, "big"), (PARTITION,) * partitions, configs)


def image(*topics: TopicImage) -> MetadataImage:
    return MetadataImage("cluster", 1, BROKERS, {}, {}).with_changes(topics).after


A, B = topic("a", 1), topic("b", 2)


def test_a_topic_that_comes():
    before = image(A)
    delta = before.with_changes([B])
    assert delta.before is before
    assert delta.after.topics == {"a": A, "b": B}
    assert delta.after.topics_by_id == {A.topic_id: A, B.topic_id: B}
    assert delta.topics == [TopicChange(None, B)]
    assert before.topics == {"a": A}, "the image has changed"


def test_what_has_not_changed_is_shared():
    before = image(A, B)
    after = before.with_changes([topic("b", 2, 3)]).after
    assert after.topics["a"] is A
    assert after.brokers is before.brokers
    assert list(after.topics) == ["a", "b"], "a topic keeps its place"


def test_a_topic_that_is_deleted():
    delta = image(A, B).with_changes(deleted=["a", "unknown"])
    assert (delta.after.topics, delta.after.topics_by_id) == ({"b": B}, {B.topic_id: B})
    assert delta.topics == [TopicChange(A, None)]
    assert (delta.deletes("a"), delta.deletes("b"), delta.deletes("unknown")) == (True, False, False)


def test_a_topic_that_is_created_again_is_another():
    again = topic("a", 3)
    delta = image(A).with_changes([again], ["a"])
    assert delta.topics == [TopicChange(A, None), TopicChange(None, again)]
    assert delta.after.topics_by_id == {again.topic_id: again}


def test_brokers_controller_and_features_change_by_themselves():
    before = image(A)
    assert before.features == NO_FEATURES
    others, features = {2: BROKERS[2]}, FinalizedFeatures({"f": 1}, 3)
    for change in (
        {"brokers": others},
        {"controller_id": NO_CONTROLLER_ID},
        {"features": features},
        {"brokers": {}, "controller_id": 0, "features": FinalizedFeatures({}, 0)},
    ):
        delta = before.with_changes(**change)  # type: ignore[arg-type]  # values of several types
        assert delta.after == before._replace(**change)
        assert delta.topics == []
        assert delta.after.topics is before.topics


def test_equal_brokers_are_the_same_brokers():
    """Listeners compare brokers by identity."""
    before = image()
    delta = before.with_changes([A], brokers=dict(BROKERS))
    assert delta.after.brokers is before.brokers


def test_topics_without_an_id_have_only_a_name():
    nameless = A._replace(topic_id=ZERO_UUID)
    delta = image(nameless, B).with_changes([A])
    assert delta.before.topics_by_id == {B.topic_id: B}
    assert delta.topics == [TopicChange(nameless, A)]
    assert delta.after.topics_by_id == {A.topic_id: A, B.topic_id: B}
    again = delta.after.with_changes([nameless])
    assert (again.after.topics["a"], again.after.topics_by_id) == (nameless, {B.topic_id: B})
    assert again.after.with_changes(deleted=["a"]).after.topics_by_id == {B.topic_id: B}


def test_a_deletion_leaves_the_id_to_another_topic():
    """Two topics can have the same id only if the controller is faulty."""
    other = B._replace(topic_id=A.topic_id)
    delta = image(A, other).with_changes(deleted=["a"])
    assert delta.after.topics_by_id == {other.topic_id: other}


def test_partitions_by_number():
    gap = A._replace(partitions=(PARTITION, UNKNOWN_PARTITION, OFFLINE))
    assert [gap.partition(number) for number in range(-1, 4)] == [
        UNKNOWN_PARTITION,
        PARTITION,
        UNKNOWN_PARTITION,
        OFFLINE,
        UNKNOWN_PARTITION,
    ]
    assert not UNKNOWN_PARTITION.has_leader


@pytest.mark.parametrize(
    ("change", "has_new_id"),
    [
        (TopicChange(A, topic("a", 1, 2)), False),
        (TopicChange(A, topic("a", 3)), True),
        (TopicChange(A, A._replace(topic_id=ZERO_UUID)), True),
        (TopicChange(None, A), False),
        (TopicChange(A, None), False),
    ],
)
def test_an_id_that_changes(change: TopicChange, has_new_id: bool):
    assert change.has_new_id is has_new_id


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
        known = known.with_changes(present, gone).after
        expected.update((each.name, each) for each in present)
        expected.pop(gone[0], None)
        assert known.topics == expected
        assert known.topics_by_id == {each.topic_id: each for each in expected.values()}
