"""All partitions of the subscribed topics are assigned, later ones from their beginning.

Method: metadata that is updated by hand.
"""

from __future__ import annotations

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.subscription import Subscription
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from tests.sdk.consumer.user_side import T0, T1, UserSide

S0 = TopicPartition("s", 0)


def update(metadata: Metadata, **counts: int) -> None:
    """Take a response with so many partitions of each topic; -1 for a topic that is gone."""
    topics = [
        MetadataResponse.MetadataResponseTopic(
            3 if count < 0 else 0,
            name,
            partitions=[MetadataResponse.MetadataResponsePartition(0, number, 1) for number in range(count)],
        )
        for name, count in counts.items()
    ]
    metadata.update(MetadataResponse(topics=topics), 0)


def test_partitions_come_and_stay() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = Subscription(metadata, side.assignment)
    subscription.subscribe(["t", "s"])
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


def test_another_subscription() -> None:
    metadata, side = Metadata(), UserSide()
    subscription = Subscription(metadata, side.assignment)
    update(metadata, t=2, s=1)
    subscription.subscribe(["t"])
    subscription.poll(0)
    subscription.subscribe(["s"])
    subscription.poll(0)
    assert side.assignment.assigned == {S0}
    assert subscription.due_ms(0) is None
