"""The acknowledgements in ShareFetch and ShareAcknowledge: their checks, and their outcomes.

Source: `KafkaApis.validateAcknowledgementBatches`, `handleAcknowledgements` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, TopicImage
from kafkawire.reference_broker.shares.acknowledgement import AcknowledgedRange
from kafkawire.reference_broker.shares.share_partitions import SharePartitions
from kafkawire.reference_broker.shares.share_sessions import TopicIdPartition
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Acknowledger", "AskedBatch", "Outcome", "Outcomes", "Renewal"]


class AskedBatch(Protocol):
    """A range of offsets in a request."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> Sequence[int]: ...


class Outcome(NamedTuple):
    """The outcome for a partition: an error code, and the text that explains it."""

    code: int
    text: str | None


Outcomes = dict[TopicIdPartition, Outcome]


class Renewal(NamedTuple):
    """Whether locks can be renewed (KIP-1222).

    Attributes:
        is_known: whether the version of the request has the acknowledge type.
        is_asked: whether the request says that it renews locks.
    """

    is_known: bool
    is_asked: bool

    def allows(self, kind: int) -> bool:
        """Return whether an acknowledge type can be in the request."""
        if kind == AcknowledgeType.RENEW:
            return self.is_known and self.is_asked
        return ACKNOWLEDGE_GAP <= kind < AcknowledgeType.RENEW


class Acknowledger:
    """Acknowledges records for a member.

    Args:
        group_id, member_id: the member.
        renewal: see `Renewal`.
        topics: the topics, keyed by id.
        shares: the share partitions.
        may_read: returns whether the member may read a topic.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        renewal: Renewal,
        topics: Mapping[bytes, TopicImage],
        shares: SharePartitions,
        may_read: Callable[[str], bool],
    ) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._renewal = renewal
        self._topics = topics
        self._shares = shares
        self._may_read = may_read

    def acknowledge(
        self,
        asked: Iterable[tuple[TopicIdPartition, Sequence[AskedBatch]]],
        done: Callable[[Outcomes], None],
        now_ms: int,
    ) -> Work[None]:
        """Acknowledge records of several partitions.

        Args:
            asked: the partitions; if one is listed twice, the last entry applies.
            done: called once with the outcomes, immediately or later.
            now_ms: the current time.
        """
        refused: dict[TopicIdPartition, ErrorCode] = {}
        accepted: dict[TopicIdPartition, list[AcknowledgedRange]] = {}
        for partition, batches in asked:
            refused.pop(partition, None)
            accepted.pop(partition, None)
            outcome = yield from self._check(partition, batches)
            if isinstance(outcome, ErrorCode):
                refused[partition] = outcome
            else:
                accepted[partition] = outcome
        outcomes = {partition: Outcome(code, None) for partition, code in refused.items()}
        interested = {
            SharePartitionKey(self._group_id, *partition): ranges for partition, ranges in accepted.items() if ranges
        }
        if not interested:
            # Like Kafka, say nothing about partitions without acknowledgements.
            done(outcomes)
            return
        for partition, ranges in accepted.items():
            if not ranges:
                outcomes[partition] = Outcome(ErrorCode.NONE, None)
        self._shares.acknowledge(self._member_id, interested, partial(_ended, outcomes, done), now_ms)

    def _check(
        self, partition: TopicIdPartition, batches: Sequence[AskedBatch]
    ) -> Work[list[AcknowledgedRange] | ErrorCode]:
        """Return the ranges that are acknowledged, or why they cannot be."""
        yield
        topic = self._topics.get(partition.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        ranges: list[AcknowledgedRange] = []
        end = -1
        for batch in batches:
            acknowledged = AcknowledgedRange(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            if acknowledged.first_offset < end or not self._is_valid(acknowledged):
                return ErrorCode.INVALID_REQUEST
            end = acknowledged.last_offset
            ranges.append(acknowledged)
            yield
        if not self._may_read(topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic.partition(partition.partition) is UNKNOWN_PARTITION:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ranges

    def _is_valid(self, acknowledged: AcknowledgedRange) -> bool:
        first, last, types = acknowledged
        if first > last or len(types) not in (1, last - first + 1):
            return False
        return all(map(self._renewal.allows, set(types)))


def _ended(
    outcomes: Outcomes, done: Callable[[Outcomes], None], ended: Mapping[SharePartitionKey, BrokerError | None]
) -> None:
    for key, error in ended.items():
        outcome = Outcome(ErrorCode.NONE, None) if error is None else Outcome(error.code, error.detail or None)
        outcomes[TopicIdPartition(key.topic_id, key.partition)] = outcome
    done(outcomes)
