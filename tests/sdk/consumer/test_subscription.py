"""All partitions of the subscribed topics are assigned; those added later are read from their beginning.

Method: update metadata, and check the assignment.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.consumer.subscription import SubscribedTopics
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.consumer.user_side import T0, T1, UserSide

S0 = TopicPartition("s", 0)


def update(metadata: Metadata, *, is_complete: bool = False, created: int = 1, **counts: int) -> None:
    """Update the metadata with each topic's number of partitions; -1 for a topic that is gone.

    The ids derive from `created`, so a recreated topic has another id.
    """
    topics = [
        MetadataResponse.MetadataResponseTopic(
            3 if count < 0 else 0,
            name,
            bytes([created]) * 16,
            partitions=[MetadataResponse.MetadataResponsePartition(0, number, 1) for number in range(count)],
        )
        for name, count in counts.items()
    ]
    brokers = [MetadataResponse.MetadataResponseBroker(1)]
    metadata.update(MetadataResponse(brokers=brokers, topics=topics), 0, is_complete=is_complete)


def test_partitions_come_and_stay() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = SubscribedTopics(metadata, side.assignment)
    subscription.subscribe(Subscription(["t", "s"]))
    subscription.poll(0)
    assert side.told == []
    update(metadata, t=1)
    subscription.poll(0)
    assert side.told.pop() == ("assign", {T0: None})
    subscription.poll(0)
    assert side.told == []
    update(metadata, t=2, s=1)
    subscription.poll(0)
    assert side.told.pop() == ("assign", {T0: None, T1: OffsetTimestamp.EARLIEST, S0: None})
    update(metadata, t=-1, s=1)
    subscription.poll(0)
    assert side.assignment.assigned == {T0, T1, S0}


def test_a_topic_created_again_with_fewer_partitions() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = SubscribedTopics(metadata, side.assignment)
    subscription.subscribe(Subscription(["t"]))
    for counts, created, expected in (
        (2, 1, {T0, T1}),
        (1, 1, {T0, T1}),  # from a broker that lags behind
        (-1, 1, {T0, T1}),
        (1, 2, {T0}),
        (2, 2, {T0, T1}),
    ):
        update(metadata, created=created, t=counts)
        subscription.poll(0)
        assert side.assignment.assigned == expected
    assert side.told[-1] == ("assign", {T0: None, T1: OffsetTimestamp.EARLIEST})


def test_another_subscription() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = SubscribedTopics(metadata, side.assignment)
    update(metadata, t=2, s=1)
    subscription.subscribe(Subscription(["t"]))
    subscription.poll(0)
    subscription.subscribe(Subscription(["s"]))
    subscription.poll(0)
    assert side.assignment.assigned == {S0}
    assert subscription.due_ms(0) is None


def test_a_pattern() -> None:
    """Topics are matched once all topics are known; a deleted topic is dropped, and if recreated, it counts as new."""
    metadata, side = Metadata(), UserSide()
    metadata.wanted = None
    subscription = SubscribedTopics(metadata, side.assignment)
    subscription.subscribe(Subscription(pattern="[st]"))
    update(metadata, t=2, other=1)
    subscription.poll(0)
    assert side.told == []
    update(metadata, is_complete=True, t=2, other=1)
    subscription.poll(0)
    assert side.told.pop() == ("assign", {T0: None, T1: None})
    update(metadata, is_complete=True, s=1, other=1)
    subscription.poll(0)
    assert side.told.pop() == ("assign", {S0: None})
    update(metadata, is_complete=True, s=1, t=1)
    subscription.poll(0)
    assert side.told.pop() == ("assign", {S0: None, T0: None})


def test_a_topic_that_cannot_be_read_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    metadata = Metadata()
    subscription = SubscribedTopics(metadata, None)
    subscription.subscribe(Subscription(["t", "s"]))
    for count in (-1, -1, 1, -1):
        update(metadata, t=count, s=1)
        subscription.poll(0)
    assert caplog.messages == ["topic t cannot be read now: UNKNOWN_TOPIC_OR_PARTITION"] * 2


def test_a_pattern_that_only_brokers_understand_is_left_to_them() -> None:
    metadata = Metadata()
    subscription = SubscribedTopics(metadata, None)
    subscription.subscribe(Subscription(pattern=r"\p{Greek}+"))
    update(metadata, is_complete=True, t=1)
    subscription.poll(0)
    assert subscription.is_active


def test_who_waits_for_the_topics_hears_when_each_is_assigned_or_missing() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = SubscribedTopics(metadata, side.assignment)
    subscription.subscribe(Subscription(["t", "s"]))
    promise: Promise[None] = Promise()
    subscription.await_topics(promise, 0)
    update(metadata, t=1)
    subscription.poll(0)
    assert not promise.done
    update(metadata, s=-1)
    subscription.poll(0)
    assert promise.done
    assert side.assignment.assigned == {T0}
    known: Promise[None] = Promise()
    subscription.await_topics(known, 0)
    assert known.done


def test_who_waits_for_a_pattern_hears_once_all_topics_are_known() -> None:
    metadata, side = Metadata(), UserSide()
    metadata.wanted = None
    subscription = SubscribedTopics(metadata, side.assignment)
    subscription.subscribe(Subscription(pattern="t"))
    promise: Promise[None] = Promise()
    subscription.await_topics(promise, 0)
    update(metadata, t=1)
    subscription.poll(0)
    assert not promise.done
    update(metadata, is_complete=True, t=1)
    subscription.poll(0)
    assert promise.done
    assert side.assignment.assigned == {T0}


def test_the_first_partitions_of_a_topic_that_had_none_are_read_by_policy() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = SubscribedTopics(metadata, side.assignment)
    subscription.subscribe(Subscription(["t"]))
    for count in (0, 1):
        update(metadata, t=count)
        subscription.poll(0)
    assert side.told == [("assign", {T0: None})]


def test_who_waits_for_the_topics_hears_of_the_end() -> None:
    subscription = SubscribedTopics(Metadata(), UserSide().assignment)
    subscription.subscribe(Subscription(["t"]))
    promise: Promise[None] = Promise()
    subscription.await_topics(promise, 0)
    subscription.fail(Closed("closed"), 0)
    with pytest.raises(Closed, match="closed"):
        promise.wait(0)
