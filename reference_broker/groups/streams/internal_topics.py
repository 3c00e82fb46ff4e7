"""Creation of the internal topics of Kafka Streams applications, in the background: heartbeats do not wait for it.

If a topic cannot be created, the heartbeats of the next moments say why, and do not ask for it again.

Source: `AutoTopicCreationManager.createStreamsInternalTopics` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.groups.streams.topology import InternalTopic
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.new_topics import DEFAULT, PARTITIONS_MAX, NewTopic
from kafkawire.reference_broker.metadata.topic_controller import TopicController
from kafkawire.sdk.errors import BrokerError

__all__ = ["InternalTopics"]

#: Maximum number of topics whose errors are kept, as in Kafka; the oldest error is dropped first.
_ERRORS_MAX: Final = 1_000


class _Failure(NamedTuple):
    """Why a topic could not be created, and until when members are told so."""

    text: str
    until_ms: int


class InternalTopics:
    """The internal topics that are being created, and those that could not be.

    Args:
        topics: creates topics.
    """

    def __init__(self, topics: TopicController) -> None:
        self._topics = topics
        self._in_flight: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    def create(self, wanted: Iterable[InternalTopic], error_ms: int, now_ms: int) -> None:
        """Start to create topics, except those that are being created or have just failed.

        Args:
            wanted: the topics.
            error_ms: how long to keep an error.
            now_ms: the current time.
        """
        due = [
            topic
            for topic in wanted
            if topic.name not in self._in_flight and topic.name not in self.errors((topic.name,), now_ms)
        ]
        is_too_much = sum(topic.partitions for topic in due) > PARTITIONS_MAX
        for topic in due:
            if is_too_much:
                text = "Excessively large number of partitions per request."
                self._fail(topic.name, _Failure(text, now_ms + error_ms))
                continue
            self._in_flight.add(topic.name)
            new = NewTopic(
                topic.name, topic.partitions, topic.replication_factor or DEFAULT, configs=dict(topic.configs)
            )
            self._topics.create(new, partial(self._created, topic.name, now_ms + error_ms))

    def _created(self, name: str, until_ms: int, made: TopicImage | BrokerError) -> None:
        self._in_flight.discard(name)
        if isinstance(made, BrokerError):
            self._fail(name, _Failure(made.detail or made.code.name, until_ms))

    def _fail(self, name: str, failure: _Failure) -> None:
        self._failures.pop(name, None)
        self._failures[name] = failure
        if len(self._failures) > _ERRORS_MAX:
            del self._failures[next(iter(self._failures))]

    def errors(self, names: Collection[str], now_ms: int) -> Mapping[str, str]:
        """Return why topics could not be created, keyed by name."""
        found = {}
        for name in names:
            failure = self._failures.get(name)
            if failure is not None and failure.until_ms > now_ms:
                found[name] = failure.text
        return found
