"""Each listener gets each delta once and in order, even if it was published while others were being notified.

Method: use listeners that record their deltas, and publish or fail inside the call.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.image import (
    BrokerRegistration,
    FinalizedFeatures,
    MetadataDelta,
    MetadataImage,
    TopicImage,
)
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache


def topic(name: str) -> TopicImage:
    return TopicImage(name, name.encode().rjust(16), (), {})


@pytest.fixture
def metadata() -> MetadataCache:
    return MetadataCache(MetadataImage("cluster", 1, {}, {}, {}))


def test_listeners_are_told_in_their_order_what_has_changed(metadata: MetadataCache):
    heard: list[tuple[str, MetadataDelta]] = []
    for name in ("first", "second"):
        metadata.listen(lambda delta, name=name: heard.append((name, delta)))
    metadata.publish([topic("a")])
    metadata.publish([topic("b")], ["a"])
    assert [name for name, _ in heard] == ["first", "second"] * 2
    assert [list(delta.after.topics) for _, delta in heard[::2]] == [["a"], ["b"]]
    assert heard[0][1] is heard[1][1]
    assert metadata.image is metadata.newest is heard[-1][1].after


def test_brokers_controller_and_features_are_published(metadata: MetadataCache):
    heard: list[MetadataDelta] = []
    metadata.listen(heard.append)
    brokers, features = {2: BrokerRegistration(2, {})}, FinalizedFeatures({"f": 1}, 3)
    metadata.publish(brokers=brokers, controller_id=2, features=features)
    (delta,) = heard
    assert (delta.after.brokers, delta.after.controller_id, delta.after.features) == (brokers, 2, features)
    assert (metadata.image, delta.topics) == (delta.after, [])


def test_a_delta_that_comes_meanwhile_waits_until_all_know_the_one_before(metadata: MetadataCache):
    heard: list[tuple[str, list[str], list[str]]] = []

    def first(delta: MetadataDelta) -> None:
        heard.append(("first", [*delta.after.topics], [*metadata.image.topics]))
        if len(delta.after.topics) < 3:
            metadata.publish([topic("abc"[len(delta.after.topics)])])
            assert len(metadata.newest.topics) == len(metadata.image.topics) + 1

    metadata.listen(first)
    metadata.listen(lambda delta: heard.append(("second", [*delta.after.topics], [*metadata.image.topics])))
    metadata.publish([topic("a")])
    expected = [["a"], ["a", "b"], ["a", "b", "c"]]
    assert heard == [(name, known, known) for known in expected for name in ("first", "second")]


@pytest.mark.defect
def test_a_listener_that_fails_keeps_no_other_from_hearing(metadata: MetadataCache, caplog: pytest.LogCaptureFixture):
    heard: list[MetadataDelta] = []

    def failing(delta: MetadataDelta) -> None:
        raise ZeroDivisionError

    metadata.listen(failing)
    metadata.listen(heard.append)
    for name in "ab":
        metadata.publish([topic(name)])
    assert len(heard) == 2
    assert caplog.text.count("a listener failed to apply a metadata change") == 2


def test_nobody_is_told_after_the_end(metadata: MetadataCache):
    heard: list[MetadataDelta] = []
    metadata.listen(heard.append)
    metadata.publish([topic("a")])
    metadata.close()
    metadata.publish([topic("b")])
    assert (len(heard), list(metadata.image.topics), list(metadata.newest.topics)) == (1, ["a"], ["a"])
