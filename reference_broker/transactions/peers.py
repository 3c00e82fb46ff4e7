"""The other brokers, as the coordinator of transactions and those who ask it reach them.

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
    """This broker among the others.

    Attributes:
        broker_id: this broker.
        listener: the name of the listener between brokers.
        image: returns the metadata.
        links: to the other brokers.
        timeout_ms: the limit for a response, as in `request.timeout.ms`.
        post: calls a function in a later turn of the loop.
        later: the timer of what is tried again.
        now_ms: the time of the broker.
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
            partition: topic and number.

        Returns:
            Its id; `NO_LEADER_ID` if no broker leads it that can be reached; None if the partition does not exist.
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
        """Send a request once, in the highest version that both brokers know.

        Args:
            broker_id: another broker.
            request: the request.
            done: called once, later, with the response or with the error.
            purpose: see `Links.ask`.
        """
        self.links.ask(Node(broker_id), request, done, timeout_ms=self.timeout_ms, purpose=purpose)
