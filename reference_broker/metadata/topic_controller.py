"""The controller for topics: a broker requests changes here, and they come back as deltas to the metadata image.

A single broker decides on its own (`local_topics.py`); the brokers of a cluster write to its registry
(`cluster/registry_topics.py`). Errors are KAFKA_STORAGE_ERROR for a failed disk, UNKNOWN_SERVER_ERROR for a failed
registry, NOT_CONTROLLER for a cluster without a controller, and REQUEST_TIMED_OUT if the image never shows a change.

Source: `Controller`, `ZkAdminManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from kafkawire.reference_broker.metadata.config_store import Revise
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError

__all__ = ["WAIT_MS_MAX", "Permit", "TopicController", "TopicDone", "TopicTexts", "unlimited"]

#: Maximum time that a client's change waits for the image. The request has its own timeout, which is shorter in all
#: known clients.
WAIT_MS_MAX: Final = 600_000

#: Called with the changed topic once it is in the image, or with an error.
TopicDone = Callable[[TopicImage | BrokerError], None]

#: Called with a number of partitions that are about to be created; raises `BrokerError` if a quota forbids that.
Permit = Callable[[int], None]


def unlimited(partitions: int) -> None:
    """Permit any number of partitions."""


class TopicTexts(NamedTuple):
    """Texts for errors found before the topic controller is asked; they follow the emulated release.

    Attributes:
        created_twice: a request creates the same topic more than once.
        extended_twice: a request adds partitions to the same topic more than once.
        missing: the topic to extend does not exist; the text has a placeholder for the topic's name.
        may_not_be_extended: the client may not add partitions to the topic; empty for no text.
    """

    created_twice: str
    extended_twice: str
    missing: str
    may_not_be_extended: str = ""


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class TopicController(Protocol):
    """Creates, changes and deletes topics. Once completed, a change is durable and in the metadata image.

    Attributes:
        acts_without_time: whether changes are made even if the client's timeout is zero, in which case the client gets
            REQUEST_TIMED_OUT.
        answers_each: whether each of several entries for the same topic in CreateTopics and DeleteTopics gets a result;
            otherwise, they share one.
        deletes_topics: whether clients may delete topics.
        texts: see `TopicTexts`.
    """

    acts_without_time: bool
    answers_each: bool
    deletes_topics: bool
    texts: TopicTexts

    def check_name(self, name: str) -> None:
        """Check that a topic with this name can be created.

        Raises:
            BrokerError: the name is not allowed, is taken, or differs from another one only in periods and underscores.
        """

    def create(
        self,
        new: NewTopic,
        done: TopicDone,
        *,
        wait_ms: int = WAIT_MS_MAX,
        validate_only: bool = False,
        permit: Permit = unlimited,
    ) -> None:
        """Check a topic that a client asks for, and create it.

        Args:
            new: the topic. If several things are wrong with it, the emulated release decides which is reported.
            done: see `TopicDone`.
            wait_ms: how long to wait, once the topic is stored, until the image shows it; after that, `done` gets
                REQUEST_TIMED_OUT.
            validate_only: whether to create nothing; `done` then gets the image that the topic would have, with an id
                of zeros.
            permit: see `Permit`; it depends on the emulated release whether it is also called if the topic is only
                validated.
        """

    def create_by_default(self, name: str, done: TopicDone, permit: Permit = unlimited) -> None:
        """Create a topic with the cluster's defaults, or wait for a creation already in progress.

        Args:
            name: its name.
            done: see `TopicDone`.
            permit: see `Permit`.

        Raises:
            BrokerError: the name is not allowed, or raised by `permit`, unless `done` gets that error.
        """

    def ensure(self, name: str, done: TopicDone) -> None:
        """Create an internal topic if it does not exist."""

    def size_of(self, topic: TopicImage) -> int:
        """Return an internal topic's number of partitions, which determines its coordinators; 0 while unknown.

        The number is known once `ensure` is done. It may be higher than in the topic's image, which may lack the last
        partitions; see `UNKNOWN_PARTITION`.
        """
        ...

    def delete(self, topic: TopicImage, now_ms: int, done: Callable[[BrokerError | None], None]) -> None:
        """Delete a topic, its data and the broker's state for it.

        Args:
            topic: the topic to delete.
            now_ms: the current time.
            done: called with None once the deletion is durable, or with the error: UNKNOWN_TOPIC_OR_PARTITION if the
                topic has already been deleted.
        """

    def check_partitions(self, topic: TopicImage, count: int) -> int:
        """Check that partitions can be added to a topic; return the number to add.

        Args:
            topic: the topic.
            count: the new total number of partitions.

        Raises:
            BrokerError: INVALID_PARTITIONS if the topic already has that many partitions, or is being given that many.
        """
        ...

    def check_assignments(self, assignments: Sequence[Sequence[int]], additional: int) -> Work[None]:
        """Check the replicas that a client chose for new partitions; yield from time to time.

        Args:
            assignments: the ids of the brokers of each new partition.
            additional: the number of new partitions.

        Raises:
            BrokerError: INVALID_REPLICA_ASSIGNMENT if the number of assignments is wrong, or one is impossible.
        """
        ...

    def add_partitions(
        self,
        topic: TopicImage,
        count: int,
        done: TopicDone,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        wait_ms: int = WAIT_MS_MAX,
        validate_only: bool = False,
        permit: Permit = unlimited,
    ) -> None:
        """Add partitions to a topic.

        Args:
            topic: the topic.
            count: the new total number of partitions, checked by `check_partitions`.
            done: see `TopicDone`; the error may be about the assignments, or be UNKNOWN_TOPIC_OR_PARTITION if the topic
                has been deleted in the meantime.
            assignments: the replicas of each new partition, checked by `check_assignments`; if None, the broker
                chooses.
            wait_ms: see `create`.
            validate_only: whether to add nothing; `done` then gets the topic as it is.
            permit: see `create`.
        """

    def configure(self, topic: TopicImage, revise: Revise, done: TopicDone) -> None:
        """Change configurations of a topic, which its logs use from then on.

        Args:
            topic: the topic.
            revise: called with the stored configurations, which the image may not show yet; see `Revise`.
            done: see `TopicDone`; the error may come from `revise`, or be UNKNOWN_TOPIC_OR_PARTITION if the topic has
                been deleted in the meantime.
        """
