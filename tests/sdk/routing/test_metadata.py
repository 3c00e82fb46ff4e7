"""The cache adopts newer leaders, keeps topics that a response does not mention, and knows why a topic is missing.

Method: apply hand-built Metadata responses, one after another.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.metadata import ClusterBroker, Metadata, Partition
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.wire import Address

ID, OTHER_ID = b"\1" * 16, b"\2" * 16
T0 = TopicPartition("t", 0)


def metadata_response(
    *topics: MetadataResponse.MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2), controller: int = 1
) -> MetadataResponse:
    """Return a response with brokers named after their node ids."""
    entries = [MetadataResponse.MetadataResponseBroker(node, f"host{node}", 9092) for node in brokers]
    return MetadataResponse(brokers=entries, cluster_id="c", controller_id=controller, topics=topics)


def topic(
    name: str | None, leader: int, epoch: int, topic_id: bytes = ID, error: int = 0
) -> MetadataResponse.MetadataResponseTopic:
    """Return a topic with one partition."""
    partition = MetadataResponse.MetadataResponsePartition(0, 0, leader, epoch, [1, 2], [2])
    return MetadataResponse.MetadataResponseTopic(error, name, topic_id, partitions=() if error else (partition,))


def filled() -> Metadata:
    """Return a cache that knows topic t, led by node 1 in epoch 5."""
    metadata = Metadata(max_age_ms=1000)
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=0)
    return metadata


def test_contents_of_a_response() -> None:
    metadata = filled()
    assert metadata.partition(T0) == Partition(1, 5, (1, 2), (2,))
    assert metadata.leader(T0) == 1
    assert metadata.topic_id("t") == ID
    assert metadata.name_of(ID) == "t"
    assert (metadata.cluster_id, metadata.controller_id) == ("c", 1)
    assert metadata.brokers[2].address == ("host2", 9092)
    assert metadata.missing(["t", "u"]) == ["u"]


@pytest.mark.parametrize(
    ("leader", "epoch", "topic_id", "expected"),
    [(2, 6, ID, 2), (2, 5, ID, 2), (2, 4, ID, 1), (2, 0, OTHER_ID, 2), (-1, 6, ID, None), (3, 6, ID, None)],
)
def test_newer_leaders_replace_older_ones(leader: int, epoch: int, topic_id: bytes, expected: int | None) -> None:
    """An older epoch is ignored unless the topic was recreated; an unknown broker is not accepted as a leader."""
    metadata = filled()
    metadata.update(metadata_response(topic("t", leader, epoch, topic_id)), now_ms=1)
    assert metadata.leader(T0) == expected


def test_epochs_that_are_not_reliable_are_dropped() -> None:
    """Java does this for Metadata below version 9; the leader is used, even after a response with reliable epochs."""
    metadata = filled()
    metadata.update(metadata_response(topic("t", 2, 4)), now_ms=1, has_epochs=False)
    assert metadata.partition(T0) == Partition(2, -1, (1, 2), (2,))


def test_only_a_response_about_what_is_wanted_ends_staleness() -> None:
    metadata = filled()
    metadata.wanted = {"t"}
    metadata.invalidate()
    metadata.update(metadata_response(topic("u", 2, 1, OTHER_ID)), now_ms=1)
    assert metadata.stale_ms() <= 1
    metadata.update(metadata_response(topic("t", 2, 6), topic("u", 2, 1, OTHER_ID)), now_ms=2)
    assert metadata.stale_ms() > 2


def test_other_topics_stay() -> None:
    metadata = filled()
    metadata.update(metadata_response(topic("u", 2, 1, OTHER_ID)), now_ms=1)
    assert set(metadata.topics) == {"t", "u"}


def test_a_topic_missing_from_a_complete_response_is_gone() -> None:
    metadata = filled()
    metadata.update(metadata_response(topic("u", 2, 1, OTHER_ID)), now_ms=1, is_complete=True)
    assert set(metadata.topics) == {"u"}
    assert metadata.name_of(ID) is None


def test_the_id_of_a_missing_topic_is_known_until_it_is_back_or_forgotten() -> None:
    metadata = filled()
    missing = metadata_response(topic("t", 1, 5, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for _ in range(2):
        metadata.update(missing, now_ms=1)
        assert (metadata.topic_id("t"), metadata.last_topic_id("t")) == (ZERO_UUID, ID)
    metadata.update(metadata_response(topic("t", 1, 5, OTHER_ID)), now_ms=2)
    assert metadata.last_topic_id("t") == OTHER_ID
    metadata.update(metadata_response(topic("u", 2, 1)), now_ms=3, is_complete=True)
    assert metadata.last_topic_id("t") == OTHER_ID
    metadata.update(metadata_response(topic("u", 2, 1)), now_ms=4, is_complete=True)
    assert metadata.last_topic_id("t") == ZERO_UUID, "only a few ids of removed topics may be kept"
    metadata.drop("u")
    assert metadata.last_topic_id("u") == ZERO_UUID


def test_whether_all_topics_are_known() -> None:
    metadata = Metadata()
    metadata.wanted = None
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=0)
    assert not metadata.is_complete
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=0, is_complete=True)
    metadata.update(metadata_response(topic("u", 2, 1, OTHER_ID)), now_ms=1)
    assert metadata.is_complete, "a partial response must leave the metadata complete"
    metadata.wanted = {"t"}
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=2)
    assert not metadata.is_complete


def test_a_topic_with_an_error_goes_and_the_error_stays_until_it_is_back() -> None:
    metadata = filled()
    metadata.update(metadata_response(topic("t", 1, 5, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), now_ms=1)
    assert metadata.errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert metadata.partition(T0) is None
    assert metadata.name_of(ID) is None
    metadata.update(metadata_response(topic("t", 1, 1, OTHER_ID)), now_ms=2)
    assert metadata.errors == {}
    assert metadata.leader(T0) == 1


def test_an_error_code_of_a_later_release() -> None:
    metadata = filled()
    metadata.update(metadata_response(topic("t", 1, 5, error=30_000)), now_ms=1)
    assert metadata.errors == {"t": ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_nameless_topic_is_found_by_its_id() -> None:
    metadata = filled()
    metadata.update(metadata_response(topic(None, 2, 9)), now_ms=1)
    assert metadata.leader(T0) == 2
    metadata.update(metadata_response(topic(None, 2, 9, OTHER_ID)), now_ms=1)
    assert set(metadata.topics) == {"t"}


def test_when_it_is_stale() -> None:
    assert Metadata().stale_ms() == 0
    metadata = filled()
    assert metadata.stale_ms() == 1000
    metadata.wanted = {"t", "u"}
    assert metadata.stale_ms() == 0, "a topic is missing"
    metadata.wanted = {"t"}
    metadata.invalidate()
    assert metadata.stale_ms() == 0
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=2)
    metadata.update(metadata_response(topic("u", 1, 5, OTHER_ID)), now_ms=500)
    metadata.wanted = {"t", "u"}
    assert metadata.stale_ms() == 1002, "both topics are known, and neither is older"
    metadata.wanted = {"t"}
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=600)
    assert metadata.stale_ms() == 1600
    metadata.wanted = {"t", "u"}
    assert metadata.stale_ms() == 0, "u is older"
    metadata.update(metadata_response(topic("t", 1, 5)), now_ms=700, is_complete=True)
    metadata.update(metadata_response(topic("u", 1, 5, OTHER_ID)), now_ms=800)
    assert metadata.stale_ms() == 1700


@pytest.mark.parametrize(
    ("partition", "leader", "epoch", "moved"),
    [
        (T0, 2, 6, True),
        (T0, 2, 5, False),
        (T0, 3, 6, False),
        (T0, -1, -1, False),
        (TopicPartition("u", 0), 2, 6, False),
    ],
)
def test_a_leader_named_in_another_response(partition: TopicPartition, leader: int, epoch: int, moved: bool) -> None:
    metadata = filled()
    assert metadata.move_leader(partition, leader, epoch) is moved
    assert metadata.leader(T0) == (2 if moved else 1)


def test_a_response_without_brokers_changes_nothing() -> None:
    """A broker may send such a response during startup."""
    metadata = filled()
    changes = metadata.changes
    for is_complete in (False, True):
        error = metadata.update(MetadataResponse(cluster_id="d"), now_ms=500, is_complete=is_complete)
        assert error is not None
        assert error.retriable
        assert str(error) == "BROKER_NOT_AVAILABLE: metadata: the response lists no brokers"
    assert metadata.leader(T0) == 1
    assert (metadata.cluster_id, metadata.changes, metadata.stale_ms()) == ("c", changes, 1000)


def test_a_response_that_is_an_error_changes_nothing_unless_it_asks_to_bootstrap_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metadata = filled()
    for code, brokers in ((ErrorCode.UNKNOWN_SERVER_ERROR, [1, 2]), (ErrorCode.REBOOTSTRAP_REQUIRED, [])):
        error = metadata.update(MetadataResponse(error_code=code), now_ms=1, is_complete=True)
        assert error is not None
        assert (error.code, error.retriable) == (code, True)
        assert list(metadata.brokers) == brokers
    assert set(metadata.topics) == {"t"}
    assert "the cluster asks its clients to bootstrap again" in caplog.text


@pytest.mark.parametrize(
    ("leader", "epoch", "host", "expected"),
    [
        (2, 6, "moved", "moved"),
        (2, 5, "moved", "host2"),
        (2, 4, "moved", "host2"),
        (3, 6, "added", "added"),
        (3, 4, "added", None),
    ],
)
def test_an_address_counts_if_its_broker_is_a_newer_leader(
    leader: int, epoch: int, host: str, expected: str | None
) -> None:
    """A delayed response must not restore an address that its broker no longer has."""
    metadata = filled()
    endpoints = [FetchResponse.NodeEndpoint(leader, host, 1, "rack"), FetchResponse.NodeEndpoint(1, "other", 1)]
    assert metadata.move_leader(T0, leader, epoch, endpoints) is (epoch == 6)
    assert metadata.brokers[1].address.host == "host1"
    broker = metadata.brokers.get(leader)
    assert (broker and broker.address.host) == expected
    if epoch == 6:
        assert metadata.brokers[leader] == ClusterBroker(leader, Address(host, 1), "rack")


def test_an_older_leader_from_a_broker_without_topic_ids(caplog: pytest.LogCaptureFixture) -> None:
    """This happens while a cluster is being upgraded; the topic is the same."""
    metadata = filled()
    for epoch, expected in ((4, 1), (6, 2)):
        metadata.update(metadata_response(topic("t", 2, epoch, ZERO_UUID)), now_ms=1)
        assert metadata.leader(T0) == expected
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([(0, 4), (9_999, 4)], (1, 5)),
        ([(0, 4), (10_000, 4)], (2, 4)),
        ([(0, 4), (5_000, 5), (10_000, 4), (19_999, 4)], (2, 5)),
        ([(0, 4), (5_000, None), (6_000, 5), (10_000, 4)], (2, 5)),
        ([(0, 4), (10_000, 0), (10_001, 6)], (2, 6)),
    ],
    ids=["lagging", "created again", "one that does not lag", "missing meanwhile", "its first change"],
)
def test_a_topic_without_an_id_that_is_created_again(
    answers: list[tuple[int, int | None]], expected: tuple[int, int]
) -> None:
    """The topic's leader epochs restart from 0; for a while, a lagging broker's epochs look the same."""
    metadata = Metadata()
    metadata.update(metadata_response(topic("t", 1, 5, ZERO_UUID)), now_ms=0)
    for now_ms, epoch in answers:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if epoch is None else 0
        metadata.update(metadata_response(topic("t", 2, epoch or 0, ZERO_UUID, error)), now_ms=now_ms)
    known = metadata.partition(T0)
    assert known is not None
    assert (known.leader, known.leader_epoch) == expected


@pytest.mark.parametrize(("topic_id", "is_newer"), [(ID, False), (ZERO_UUID, True)])
def test_older_epochs_after_a_newer_one_from_elsewhere(topic_id: bytes, is_newer: bool) -> None:
    """With an id, nothing is guessed; without one, a leader from another response is newer than all earlier ones."""
    metadata = Metadata()
    metadata.update(metadata_response(topic("t", 1, 5, topic_id)), now_ms=0)
    metadata.update(metadata_response(topic("t", 1, 4, topic_id)), now_ms=0)
    if is_newer:
        assert metadata.move_leader(T0, 2, 6)
    for now_ms in (10_000, 19_999):
        metadata.update(metadata_response(topic("t", 1, 4, topic_id)), now_ms=now_ms)
    known = metadata.partition(T0)
    assert known is not None
    assert known.leader_epoch == (6 if is_newer else 5)


@pytest.mark.parametrize(
    ("listed", "topic_id", "expected"),
    [
        ((0, 1, 2, 3), ID, (0, 1, 2, 3)),
        ((2, 0), ID, (0, 1, 2)),
        ((0,), ID, (0, 1, 2)),
        ((), ID, (0, 1, 2)),
        ((0, 1, 3), ID, (0, 1, 2, 3)),
        ((0, 4), ID, None),
        ((0,), OTHER_ID, (0,)),
        ((0, 2), OTHER_ID, None),
        ((0, 2), ZERO_UUID, (0, 1, 2)),
        ((0,), ZERO_UUID, (0,)),
        ((0, 2**31 - 1), ZERO_UUID, None),
    ],
)
def test_a_topic_that_is_listed_in_part(
    listed: tuple[int, ...], topic_id: bytes, expected: tuple[int, ...] | None
) -> None:
    """Missing partitions stay as they were, in numerical order; a topic whose gaps cannot be filled becomes unknown."""

    def of(numbers: tuple[int, ...], leader: int, topic_id: bytes) -> MetadataResponse:
        partitions = [MetadataResponse.MetadataResponsePartition(0, number, leader, 6) for number in numbers]
        return metadata_response(MetadataResponse.MetadataResponseTopic(0, "t", topic_id, partitions=partitions))

    metadata = Metadata(max_age_ms=1000)
    metadata.wanted = {"t"}
    metadata.update(of((0, 1, 2), 1, ID), now_ms=0)
    metadata.update(of(listed, 2, topic_id), now_ms=1)
    if expected is None:
        assert (metadata.topics, metadata.errors) == ({}, {"t": ErrorCode.LEADER_NOT_AVAILABLE})
        assert metadata.stale_ms() == 0
    else:
        leaders = [(number, each.leader) for number, each in metadata.topics["t"].partitions.items()]
        assert leaders == [(number, 2 if number in listed else 1) for number in expected]


def test_a_partition_that_does_not_exist() -> None:
    metadata = filled()
    assert metadata.absence(TopicPartition("t", 1)) == "topic t has partitions 0 to 0"
    assert metadata.absence(T0) == metadata.absence(TopicPartition("u", 1)) == ""


def test_a_topic_that_is_dropped_is_neither_known_nor_wanted() -> None:
    metadata = filled()
    metadata.wanted = {"t", "u"}
    metadata.drop("t")
    assert metadata.wanted == {"u"}
    assert (metadata.topics, metadata.partition(T0)) == ({}, None)
    metadata.wanted = None
    metadata.drop("u")
    assert metadata.wanted is None
