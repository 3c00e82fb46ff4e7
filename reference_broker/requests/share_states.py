"""The common parts of the requests to a share coordinator, each of which names any number of share partitions.

Source: `ShareCoordinatorService` in Apache Kafka, whose texts are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from kafkawire.reference_broker.shares.shard import StateRefused
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["AskedPartition", "AskedTopic", "by_topic", "named_shares", "told"]


class AskedPartition(Protocol):
    """A partition in a request."""

    @property
    def partition(self) -> int: ...


D = TypeVar("D", bound=AskedPartition)
D_co = TypeVar("D_co", bound=AskedPartition, covariant=True)
P = TypeVar("P")


class AskedTopic(Protocol[D_co]):
    """A topic in a request."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[D_co]: ...


def named_shares(group_id: str, topics: Sequence[AskedTopic[D]]) -> Work[dict[SharePartitionKey, D]]:
    """Return the share partitions that a request names; none if it lacks a group or some partitions, as in Kafka."""
    if not group_id or not all(topic.partitions for topic in topics):
        return {}
    named = {}
    for topic in topics:
        for partition in topic.partitions:
            named[SharePartitionKey(group_id, bytes(topic.topic_id), partition.partition)] = partition
            yield
    return named


def by_topic(parts: Mapping[SharePartitionKey, P]) -> Work[dict[bytes, list[P]]]:
    """Return the parts of a response, collected by topic id."""
    topics: dict[bytes, list[P]] = {}
    for share, part in parts.items():
        topics.setdefault(share.topic_id, []).append(part)
        yield
    return topics


def told(outcome: object, action: str) -> tuple[ErrorCode, str | None]:
    """Return the code and the text for the outcome of an operation.

    Args:
        outcome: the outcome; anything but an error is a success.
        action: what was to be done, for errors that are not about the share partition itself.
    """
    if isinstance(outcome, StateRefused):
        return outcome.code, outcome.detail
    if isinstance(outcome, BrokerError):
        return outcome.code, f"Unable to {action}: {outcome.detail}"
    return ErrorCode.NONE, None
