"""A fetch session with one broker: a request names only what has changed since the last one (KIP-227).

The broker keeps the partitions of the session; a request adds, changes or removes some of them, and the response
contains only partitions for which there is something new. After any error, the session restarts with a full request.
Consumers have sessions, as do brokers that follow a leader.

Source: Apache Kafka, `FetchSessionHandler`, `FetchMetadata`; KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.enums import INITIAL_FETCH_SESSION_EPOCH, NO_FETCH_SESSION_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["FetchSession", "Member"]

#: Epochs are int32; the highest one is followed by 1, since 0 would open another session.
_EPOCH_MAX = 2**31 - 1


class Member(Protocol):
    """A partition that is being fetched."""

    @property
    def partition(self) -> TopicPartition:
        """Its topic and number."""
        ...

    @property
    def topic_id(self) -> bytes:
        """The id of the topic; zeros if its name is used instead."""
        ...

    def to_fetch(self) -> FetchRequest.FetchPartition:
        """Return the partition's entry for a request."""
        ...


class _Plan(NamedTuple):
    """The variable part of a request."""

    session_id: int
    epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten: list[FetchRequest.ForgottenTopic]


class FetchSession:
    """The session with one broker.

    Attributes:
        names: the names of the session's topics, keyed by id.
    """

    def __init__(self) -> None:
        self._session_id = NO_FETCH_SESSION_ID
        self._epoch = INITIAL_FETCH_SESSION_EPOCH
        self._members: dict[TopicPartition, bytes] = {}
        self._changed: dict[TopicPartition, None] = {}
        self.names: dict[bytes, str] = {}

    def change(self, partition: TopicPartition) -> None:
        """Record that a partition must be added, removed, or fetched from another offset."""
        self._changed[partition] = None

    def restart(self, *, keeps_id: bool = False) -> None:
        """Restart the session with the next request.

        Args:
            keeps_id: whether the broker may still have the session, in which case it is told to drop it.
        """
        if not keeps_id:
            self._session_id = NO_FETCH_SESSION_ID
        self._epoch = INITIAL_FETCH_SESSION_EPOCH

    def plan(self, wanted: Mapping[TopicPartition, Member]) -> _Plan:
        """Return the variable part of the next request.

        Args:
            wanted: all partitions that the session should contain.
        """
        changed, self._changed = self._changed, {}
        members, forgotten, by_id = [], [], self.by_id
        for partition in changed:
            member = wanted.get(partition)
            if member is None:
                if partition in self._members:
                    forgotten.append((partition, self._members.pop(partition)))
                continue
            members.append(member)
            topic_id = member.topic_id
            # The topic was recreated, or the session switched between names and ids: it names either all topics by id,
            # or none.
            if self._members.get(partition, topic_id) != topic_id or (topic_id != ZERO_UUID) != by_id:
                self.restart(keeps_id=True)
        if self._epoch == INITIAL_FETCH_SESSION_EPOCH:
            members, forgotten = list(wanted.values()), []
            self.names, self._members = {}, {}
        for member in members:
            self._members[member.partition] = member.topic_id
            self.names[member.topic_id] = member.partition.topic
        return _Plan(self._session_id, self._epoch, _topics(members), _forgotten(forgotten) if forgotten else [])

    def accept(self, error_code: int, session_id: int) -> bool:
        """Handle the top-level fields of a response.

        Returns:
            Whether the response is valid; otherwise the next request begins a new session.
        """
        if error_code != ErrorCode.NONE:
            self.restart(keeps_id=error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            return False
        if session_id == NO_FETCH_SESSION_ID:  # the broker keeps no sessions, or has no room for another
            self.restart()
        else:
            self._session_id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    @property
    def by_id(self) -> bool:
        """Whether all topics in the session have ids."""
        return ZERO_UUID not in self.names


def _topics(members: Iterable[Member]) -> list[FetchRequest.FetchTopic]:
    topics: dict[tuple[str, bytes], list[FetchRequest.FetchPartition]] = {}
    for member in members:
        topics.setdefault((member.partition.topic, member.topic_id), []).append(member.to_fetch())
    return [FetchRequest.FetchTopic(name, topic_id, partitions) for (name, topic_id), partitions in topics.items()]


def _forgotten(partitions: Iterable[tuple[TopicPartition, bytes]]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = {}
    for partition, topic_id in partitions:
        topics.setdefault((partition.topic, topic_id), []).append(partition.partition)
    return [FetchRequest.ForgottenTopic(name, topic_id, numbers) for (name, topic_id), numbers in topics.items()]
