"""Checks shared by OffsetCommit and TxnOffsetCommit: which offsets are passed to the group, and each one's result.

Source: `KafkaApis.handleOffsetCommitRequest`, `handleTxnOffsetCommitRequest` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkawire.reference_broker.groups.records import NO_EXPIRY, Committed
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, TopicImage
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["CheckedOffsets", "Wanted"]

OffsetCommitPartition = OffsetCommitRequest.OffsetCommitRequestPartition

Wanted = OffsetCommitPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition

#: The commit timestamp that means the broker's current time.
_BROKERS_TIME = -1

#: Partitions with these codes were passed to the group; if the commit fails, its error replaces the code.
_CODES_OF_THE_GROUP = (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)


class CheckedOffsets:
    """The offsets of a request, checked topic by topic.

    Args:
        max_metadata: maximum length of an offset's metadata.
        now_ms: the current time.
        unknown: the error code for a topic that does not exist.
        with_topic_ids: whether the offsets carry their topic's id.
        expire_timestamp: see `Committed`.

    Attributes:
        offsets: the offsets that can be committed.
        need_the_group: whether the group must be consulted; false if all partitions are unknown.
    """

    def __init__(
        self,
        max_metadata: int,
        now_ms: int,
        *,
        unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        with_topic_ids: bool = False,
        expire_timestamp: int = NO_EXPIRY,
    ) -> None:
        self._max_metadata = max_metadata
        self._now_ms = now_ms
        self._unknown = unknown
        self._with_topic_ids = with_topic_ids
        self._expire_timestamp = expire_timestamp
        #: The codes of all partitions, grouped by topic.
        self._codes: list[list[ErrorCode]] = []
        self.need_the_group = False
        self.offsets: dict[Partition, Committed] = {}

    def check(self, topic: TopicImage | None, partitions: Sequence[Wanted]) -> Work[None]:
        """Check the offsets of the next topic of the request (None if it does not exist); yield after each."""
        codes: list[ErrorCode] = []
        self._codes.append(codes)
        for wanted in partitions:
            number, metadata = wanted.partition_index, wanted.committed_metadata or ""
            if topic is None:
                codes.append(self._unknown)
            elif topic.partition(number) is UNKNOWN_PARTITION:
                codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif len(metadata) > self._max_metadata:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            else:
                codes.append(ErrorCode.NONE)
                self.offsets[topic.name, number] = Committed(
                    wanted.committed_offset,
                    wanted.committed_leader_epoch,
                    metadata,
                    self._time_of(wanted),
                    topic.topic_id if self._with_topic_ids else ZERO_UUID,
                    self._expire_timestamp,
                )
            self.need_the_group |= codes[-1] in _CODES_OF_THE_GROUP
            yield

    def refuse(self, partitions: Sequence[Wanted], code: ErrorCode) -> Work[None]:
        """Give all partitions of the next topic of the request an error; yield after each."""
        codes: list[ErrorCode] = []
        self._codes.append(codes)
        for _ in partitions:
            codes.append(code)
            yield

    def _time_of(self, wanted: Wanted) -> int:
        """Return the commit time of an offset, which only OffsetCommit 1 can specify."""
        given = wanted.commit_timestamp if isinstance(wanted, OffsetCommitPartition) else _BROKERS_TIME
        return self._now_ms if given == _BROKERS_TIME else given

    def codes(self, error: ErrorCode = ErrorCode.NONE) -> Iterator[Iterator[ErrorCode]]:
        """Return the codes, grouped by topic; an error from the group applies to all partitions passed to it."""

        def final(code: ErrorCode) -> ErrorCode:
            return error if error and code in _CODES_OF_THE_GROUP else code

        return (map(final, of_topic) for of_topic in self._codes)
