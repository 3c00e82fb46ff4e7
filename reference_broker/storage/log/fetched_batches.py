"""Batches that a follower has fetched, to be checked and then appended unchanged.

The records in the batches are not checked, since the leader has checked them.

Source: `UnifiedLog.analyzeAndValidateRecords` in Apache Kafka, with the origin `REPLICATION`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.storage.batches import BatchHeader, check_crc, check_offsets, parse_header
from kafkawire.reference_broker.storage.log.appends import LogOwner
from kafkawire.reference_broker.storage.log.epochs import LeaderEpochs
from kafkawire.reference_broker.storage.producers.markers import StoredMarker, markers_in
from kafkawire.reference_broker.storage.producers.producers import Producers
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.segments.segments import Segments
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import BATCH_CRC_COVERS_FROM, BATCH_HEADER_BYTES, BATCH_MAGIC
from kafkawire.sdk.records.java_integers import INT32_MAX, OFFSET_MAX
from kafkawire.sdk.records.survey import Survey

__all__ = ["FetchedBatches", "check_fetched"]


class FetchedBatches(NamedTuple):
    """Batches in a buffer.

    Attributes:
        data: the buffer.
        batches: their headers; their positions are relative to the start of the buffer.
        markers: the markers in control batches, keyed by the position of the batch.
    """

    data: memoryview
    batches: Sequence[BatchHeader]
    markers: Mapping[int, Sequence[StoredMarker]]

    def slice(self, first: int, end: int) -> memoryview:
        """Return the bytes of the batches from index `first` up to, but not including, index `end`."""
        last = self.batches[end - 1]
        return self.data[self.batches[first].position : last.position + last.size_bytes]

    def can_follow(self, number: int, segments: Segments, log_start_offset: int) -> bool:
        """Return whether the batch at an index can follow the log; compaction may have left a gap before it.

        The first batch of an empty log may begin before the log does, if records in the batch have been deleted.

        Args:
            number: the index of the batch.
            segments: the segments of the log.
            log_start_offset: the first readable offset.
        """
        batch, end_offset = self.batches[number], segments.last.next_offset
        if batch.base_offset >= end_offset:
            return True
        return batch.last_offset >= end_offset == log_start_offset and not segments.size_bytes

    def fit(self, number: int, segment: Segment, now_ms: int) -> tuple[int, int | None]:
        """Return which batches to append next to a segment, so it is rolled where the leader's segment was.

        Args:
            number: the index of the next batch.
            segment: the last segment.
            now_ms: the current time.

        Returns:
            The index of the batch to stop before, which is `number` if a new segment is needed; and the base offset of
            the new segment, None if it begins at the end of the log.
        """
        batch = self.batches[number]
        if not segment.takes_offsets_of(batch):
            return number, None if segment.size_bytes else batch.base_offset
        return segment.fitting(self.batches, number, now_ms), None

    def note(
        self,
        first: int,
        end: int,
        segment: Segment,
        epochs: LeaderEpochs,
        producers: Producers,
        owner: LogOwner | None,
    ) -> None:
        """Apply appended batches to the state of their log.

        Args:
            first: index of the first batch.
            end: index after that of the last batch.
            segment: the segment with the batches.
            epochs: leader epochs of the log.
            producers: producers of the log.
            owner: owner of the log.
        """
        for batch in self.batches[first:end]:
            if batch.leader_epoch != epochs.current:
                epochs.note(batch.leader_epoch, batch.base_offset)
            if batch.is_control:
                for marker in self.markers[batch.position]:
                    ended = producers.note_marker(*marker)
                    if ended is not None and ended.is_aborted:
                        segment.transactions.append(ended)
            elif batch.producer_id >= 0:
                producers.note(batch, batch.base_offset)
                if owner is not None and producers.has_transaction_from(batch.base_offset):
                    owner.transaction_begun(batch.base_offset)
            if owner is not None:
                owner.appended(batch.last_offset + 1, batch.size_bytes)
        producers.end_offset = segment.next_offset


class _Content:
    """A buffer that is read like a file."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def read(self, position: int, size_bytes: int) -> bytes:
        return bytes(self._data[position : position + size_bytes])


def check_fetched(data: Buffer, leader_epoch: int) -> FetchedBatches:
    """Return the complete batches at the start of a buffer; a partial batch at the end is left out.

    Args:
        data: the records of a partition in a fetch response.
        leader_epoch: the epoch of the leader that was asked. The first batch of a later epoch and all after it are left
            out, since this broker does not know of that leader yet (KAFKA-18723).

    Raises:
        BrokerError: CORRUPT_MESSAGE if a batch is damaged, or its offsets are not higher than those of the previous
            batch; UNSUPPORTED_FOR_MESSAGE_FORMAT if a batch has magic 0 or 1.
    """
    view = memoryview(data)
    size_bytes = _checked_bytes(view)
    batches: list[BatchHeader] = []
    markers: dict[int, Sequence[StoredMarker]] = {}
    position = 0
    while position < size_bytes:
        batch = parse_header(view, position, position)
        if batch.leader_epoch > leader_epoch:
            break
        if batch.leader_epoch < 0:
            raise _damaged(batch.base_offset, f"the leader epoch must be 0 or higher, got {batch.leader_epoch}")
        if batch.is_control:
            try:
                markers[position] = list(markers_in(_Content(view), batch))
            except DecodeError as error:
                raise _damaged(batch.base_offset, str(error)) from error
        batches.append(batch)
        position += batch.size_bytes
    return FetchedBatches(view, batches, markers)


def _checked_bytes(view: memoryview) -> int:
    """Check the complete batches at the start of a buffer, and return their total size."""
    position, next_offset = 0, 0
    while (header := _whole_header(view, position)) is not None:
        if header.base_offset >= next_offset:
            # One call covers all remaining batches, unless their offsets are too far above the first.
            survey = Survey(header.base_offset, INT32_MAX)
            added_bytes = survey.add(view[position:], [])
            if added_bytes:
                position, next_offset = position + added_bytes, survey.next_offset
                continue
        try:
            check_crc(header, view[position + BATCH_CRC_COVERS_FROM : position + header.size_bytes])
            check_offsets(header, next_offset, OFFSET_MAX)
        except DecodeError as error:
            raise _damaged(header.base_offset, str(error)) from error
        raise _damaged(header.base_offset, f"offset {header.last_offset} is too far above the first offset")
    return position


def _whole_header(view: memoryview, position: int) -> BatchHeader | None:
    """Return the header of a batch, or None if it is partial."""
    if len(view) - position < BATCH_HEADER_BYTES:
        return None
    header = parse_header(view, position, position)
    if header.magic != BATCH_MAGIC:
        reason = f"the batch at offset {header.base_offset} must have magic {BATCH_MAGIC}, got {header.magic}"
        code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if header.magic in (0, 1) else ErrorCode.CORRUPT_MESSAGE
        raise BrokerError(code, reason)
    if header.size_bytes < BATCH_HEADER_BYTES:
        raise _damaged(
            header.base_offset, f"a batch must have at least {BATCH_HEADER_BYTES} bytes, got {header.size_bytes}"
        )
    return header if header.size_bytes <= len(view) - position else None


def _damaged(offset: int, reason: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the fetched batch at offset {offset} is damaged: {reason}")
