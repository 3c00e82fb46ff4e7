"""Where changes of topics come from: what a broker asks for here comes back to it as a delta of the metadata image.

A broker that is alone decides itself (`local_topics.py`).

Source: `Controller` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.sdk.errors import BrokerError

__all__ = ["TopicController", "TopicDone"]

#: Called with the topic as it is after the change, which the image has by then; or with the error.
TopicDone = Callable[[TopicImage | BrokerError], None]


@runtime_checkable  # tests compare the parts of a broker with what handlers name
class TopicController(Protocol):
    """Creates, changes and deletes topics. What is done is durable, and in the metadata image."""

    def check_name(self, name: str) -> None:
        """Check that a topic of this name can be created.

        Raises:
            BrokerError: the name is not allowed, is taken, or differs from another only in periods and underscores.
        """

    def create(self, name: str, partitions: int, configs: Mapping[str, str], done: TopicDone) -> None:
        """Create a topic that does not exist, or wait until it does, if it is being created.

        Args:
            name: checked by `check_name`.
            partitions: their number.
            configs: configurations that differ from the defaults, checked.
            done: see `TopicDone`; the error is KAFKA_STORAGE_ERROR.
        """

    def create_by_default(self, name: str, done: TopicDone) -> None:
        """Create a topic with the cluster's defaults, or wait until it exists, if it is being created.

        Raises:
            BrokerError: the name is not allowed.
        """

    def ensure(self, name: str, done: TopicDone) -> None:
        """Create one of the broker's own topics, if it does not exist."""

    def delete(self, topic: TopicImage, now_ms: int, done: Callable[[BrokerError | None], None]) -> None:
        """Delete a topic, its data and what the broker knows of it.

        Args:
            topic: to be deleted.
            now_ms: the current time.
            done: called with None when the topic cannot come back; or with the error: it was deleted before, or
                KAFKA_STORAGE_ERROR.
        """

    def check_partitions(self, topic: TopicImage, count: int) -> int:
        """Check that a topic can be given more partitions; return how many more.

        Args:
            topic: which one.
            count: how many it is to have in all.

        Raises:
            BrokerError: INVALID_PARTITIONS, it has as many or more, or will have.
        """
        ...

    def add_partitions(self, topic: TopicImage, count: int, done: TopicDone) -> None:
        """Give a topic more partitions.

        Args:
            topic: which one.
            count: how many it is to have in all, checked by `check_partitions`.
            done: see `TopicDone`; the error is KAFKA_STORAGE_ERROR, or UNKNOWN_TOPIC_OR_PARTITION if the topic was
                deleted meanwhile.
        """

    def configure(self, topic: TopicImage, changes: Mapping[str, str | None], done: TopicDone) -> None:
        """Change configurations of a topic; its logs go by them from then on.

        Args:
            topic: whose.
            changes: values by Kafka's names, checked; None stands for the default.
            done: see `TopicDone`; the error is KAFKA_STORAGE_ERROR, or UNKNOWN_TOPIC_OR_PARTITION if the topic was
                deleted meanwhile.
        """
