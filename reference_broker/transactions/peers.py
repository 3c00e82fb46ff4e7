"""Access to the other brokers, for the transaction coordinator and its callers.

Source: `InterBrokerSendThread` and `MetadataCache.getPartitionLeaderEndpoint` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.cluster.links import Done, Links
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, MetadataImage
from kafkawire.reference_broker.work.timers import Later
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.registry.registry import Post
from kafkawire.sdk.routing.call import Node, Purpose
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["Peers"]


class Peers(NamedTuple):
    """This broker and its connections to the others.

    Attributes:
        broker_id: the id of this broker.
        listener: the name of the inter-broker listener.
        image: returns the metadata image.
        links: links to the other brokers.
        timeout_ms: how long to wait for a response, as in `request.timeout.ms`.
        post: schedules a function for a later turn of the loop.
        later: schedules retries.
        now_ms: returns the broker's time.
    """

    broker_id: int
    listener: str
    image: Callable[[], MetadataImage]
    links: Links
    timeout_ms: int
    post: Post
    later: Later
    now_ms: Callable[[], int]

    def leader(self, partition: Partition) -> int | None:
        """Return the broker that leads a partition.

        Args:
            partition: topic and partition number.

        Returns:
            Its id; `NO_LEADER_ID` if the partition has no reachable leader; None if the partition does not exist.
        """
        name, number = partition
        image = self.image()
        topic = image.topics.get(name)
        found = UNKNOWN_PARTITION if topic is None else topic.partition(number)
        if found is UNKNOWN_PARTITION:
            return None
        is_reachable = found.leader == self.broker_id or image.address(found.leader, self.listener) is not None
        return found.leader if is_reachable else NO_LEADER_ID

    def ask(self, broker_id: int, request: Message, done: Done, purpose: Purpose) -> None:
        """Send a request once, in the highest version that both brokers support.

        Args:
            broker_id: another broker.
            request: the request.
            done: called once, asynchronously, with the response or with the error.
            purpose: see `Links.ask`.
        """
        self.links.ask(Node(broker_id), request, done, timeout_ms=self.timeout_ms, purpose=purpose)
