"""The topics of a broker that is alone: created and deleted in its own data directory.

Source: `Topic`, `AutoTopicCreationManager` and `ReplicationControlManager` in Apache Kafka, whose error texts are kept
in substance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.internal_topics import plan_topic
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, Topic
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Done", "LocalTopics"]

#: Called with the topic, or with KAFKA_STORAGE_ERROR if it could not be written.
Done = Callable[[Topic | BrokerError], None]


class LocalTopics:
    """The topics of a broker.

    Args:
        directory: where they are.
        options: of the broker.
        timers: of the broker.
        gone: called with a topic that is being deleted, before its logs end.
        forget: called with a topic that is deleted, with what is to be called when nothing of it is left, and with the
            time.
    """

    def __init__(
        self,
        directory: LogDirectory,
        options: BrokerOptions,
        timers: Timers,
        gone: Callable[[Topic], None],
        forget: Callable[[Topic, Callable[[], None], int], None],
    ) -> None:
        self._directory = directory
        self._options = options
        self._timers = timers
        self._gone = gone
        self._forget = forget
        #: By name with underscores for periods, which metrics cannot tell apart.
        self._similar_names = {_folded(name): name for name in directory.topics}

    def check_name(self, name: str) -> None:
        """Check that a topic of this name can be created.

        Raises:
            BrokerError: the name is not allowed, is taken, or differs from another only in periods and underscores.
        """
        if name == CLUSTER_METADATA_TOPIC:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        check_characters(name)
        if name in self._directory.topics or self._directory.is_creating(name):
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if (other := self.similar(name)) is not None:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def similar(self, name: str) -> str | None:
        """Return the topic, created or being created, whose name is this one or differs in periods and underscores."""
        known = self._similar_names.get(_folded(name))
        is_there = known is not None and (known in self._directory.topics or self._directory.is_creating(known))
        return known if is_there else None

    def create(self, name: str, partitions: int, configs: Mapping[str, str], done: Done) -> None:
        """Create a topic that does not exist; name, partition count and configurations must have been checked."""

        def created(made: Topic | BrokerError) -> None:
            if isinstance(made, BrokerError):
                self._forget_name(name)
            done(made)

        self._similar_names[_folded(name)] = name
        self._directory.create(name, partitions, configs, created)

    def create_by_default(self, name: str, done: Done) -> None:
        """Create a topic with the broker's defaults, or wait until it is, if it is being created.

        Raises:
            BrokerError: the name is not allowed.
        """
        if not self._directory.is_creating(name):
            self.check_name(name)
        self.create(name, *plan_topic(name, self._options), done)

    def ensure(self, name: str, done: Done) -> None:
        """Create a topic of the broker's own, if it does not exist."""
        topic = self._directory.topics.get(name)
        if topic is not None:
            done(topic)
        else:
            self.create(name, *plan_topic(name, self._options), done)

    def delete(self, topic: Topic, now_ms: int, done: Callable[[BrokerError | None], None]) -> None:
        """Delete a topic, its data and what the broker knows of it; `done` is called with None or the error."""

        def gone() -> None:
            self._forget_name(topic.name)
            self._gone(topic)

        def deleted(error: BrokerError | None) -> None:
            if error is not None:
                done(error)
            else:
                self._forget(topic, lambda: done(None), now_ms)

        self._directory.delete(topic, self._timers.as_of_now(deleted), gone)

    def _forget_name(self, name: str) -> None:
        """Forget a name that no topic has any more, or ever got: clients may try any number of them."""
        if self._similar_names.get(_folded(name)) == name and self.similar(name) is None:
            del self._similar_names[_folded(name)]


def _folded(name: str) -> str:
    return name.replace(".", "_")
