"""Groups get the right facts about topics."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.topics import ClusterTopics, TopicFacts, metadata_hash
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, MetadataImage, PartitionImage, TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.sdk.protocol.uuids import ZERO_UUID

PARTITION = PartitionImage(1, 0, (1,), (1,))


def topic(name: str, partitions: int = 1, **configs: str) -> TopicImage:
    return TopicImage(name, name.encode().rjust(16), (PARTITION,) * partitions, configs)


def test_the_hash_changes_with_the_topics():
    topics = {"t": TopicFacts(b"t" * 16, 3), "u": TopicFacts(b"u" * 16, 1)}
    first = metadata_hash(["t", "u", "gone"], topics)
    assert first == metadata_hash({"u", "t"}, topics)
    assert metadata_hash(["gone"], topics) == metadata_hash([], topics) == 0
    assert first != metadata_hash(["t"], topics)
    topics["t"] = TopicFacts(b"t" * 16, 4)
    assert first != metadata_hash(["t", "u"], topics)


@pytest.fixture
def metadata() -> MetadataCache:
    first = MetadataImage("cluster", 1, {}, {}, {}).with_changes([topic("a"), topic("b", 3)])
    return MetadataCache(first.after)


def test_topics_are_those_of_the_image(metadata: MetadataCache):
    topics = ClusterTopics(metadata)
    assert topics == {"a": TopicFacts(topic("a").topic_id, 1), "b": TopicFacts(topic("b").topic_id, 3)}
    assert (len(topics), [*topics], "a" in topics, "c" in topics) == (2, ["a", "b"], True, False)
    metadata.publish([topic("c", 2)], ["a"])
    assert [*topics] == ["b", "c"]
    assert topics["c"].partitions == 2
    with pytest.raises(KeyError):
        topics["a"]


def test_what_comes_grows_and_goes_is_counted(metadata: MetadataCache):
    topics = ClusterTopics(metadata)
    metadata.listen(topics.changed)
    counts = [(topics.came, topics.changes)]
    for present, gone in (
        ([topic("c")], []),
        ([topic("c", 2)], []),
        ([topic("c", 2, retention="1")], []),
        ([], ["c"]),
        ([topic("c"), topic("d")], ["a"]),
    ):
        metadata.publish(present, gone)
        counts.append((topics.came, topics.changes))
    assert counts == [(2, 2), (3, 3), (3, 4), (3, 4), (3, 5), (5, 8)]


def test_unknown_partitions_count_and_ids_that_come_too(metadata: MetadataCache):
    topics = ClusterTopics(metadata)
    metadata.listen(topics.changed)
    gap = topic("a")._replace(partitions=(PARTITION, UNKNOWN_PARTITION, PARTITION), topic_id=ZERO_UUID)
    counts = []
    for present in (gap, gap._replace(partitions=(PARTITION,) * 3), gap._replace(topic_id=b"a" * 16)):
        metadata.publish([present])
        assert topics["a"] == TopicFacts(present.topic_id, 3)
        counts.append(topics.changes)
    assert counts == [3, 3, 4]
