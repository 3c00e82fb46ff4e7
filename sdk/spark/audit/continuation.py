"""Check that partitions in files are still those that an earlier audit read; does not need Spark.

In each partition, the last batch that was read is looked up by its header, starting from the index entry before it. If
a topic was deleted and recreated, if the files are an older backup, or if the log was truncated, there is no batch or a
different one at that position. The tables would then mix old and new data, so such a partition is refused.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.records import Batch
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.end_offsets import start_position
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import batch_at, batch_headers
from kafkawire.sdk.spark.segments.storage import FILES_AT_A_TIME, SegmentFiles

__all__ = ["LAST_BATCH", "WAY_OUT", "check_continuation", "check_end", "still_there"]

_log = logging.getLogger("kafkawire.spark")

#: Facts that distinguish the last batch of a partition from any other batch at the same offsets. If log cleaning
#: removes records, the facts after `baseSequence` change.
LAST_BATCH: Final = ("baseOffset", "producerId", "producerEpoch", "baseSequence", "maxTimestampMs", "records")

#: The advice to give if a partition is not the one that was read.
WAY_OUT: Final = "choose another folder, or use reread, which starts over"

_NOT_CLEANED: Final = LAST_BATCH.index("baseSequence") + 1


def check_continuation(
    files: SegmentFiles,
    segments: Iterable[FoundSegment],
    next_offsets: Mapping[str, Mapping[str, int]],
    last_batches: Mapping[str, Mapping[str, Sequence[int]]],
    out: str,
) -> None:
    """Check that each partition continues from where it was read.

    Args:
        files: the segment files.
        segments: all segments, sorted by topic, partition and offset.
        next_offsets: the offset up to which each partition was read, `[topic][partition]`; partitions without an entry
            are new.
        last_batches: the `LAST_BATCH` facts of the last batch read from each partition, `[topic][partition]`.
        out: the folder of the audit, for error messages.

    Raises:
        ConfigurationError: a partition ends before that offset, or has a different batch there.
        OSError: a file cannot be read.
    """

    def check(item: tuple[TopicPartition, list[FoundSegment]]) -> None:
        partition, its_segments = item
        number = str(partition.partition)
        next_offset = next_offsets.get(partition.topic, {}).get(number, 0)
        noted = last_batches.get(partition.topic, {}).get(number)
        index = bisect_left(its_segments, next_offset, key=lambda each: each.base_offset) - 1
        if index >= 0:  # if not, all data that was read has been removed, or none was read
            _check_segment(files, its_segments[index], next_offset, noted, out)

    partitions = [(partition, [*each]) for partition, each in groupby(segments, lambda segment: segment.folder)]
    with ThreadPoolExecutor(FILES_AT_A_TIME, "kafkawire-audit") as threads:
        for _ in threads.map(check, partitions):
            pass


def check_end(partition: TopicPartition, next_offset: int, end_offset: int, out: str) -> None:
    """Check that a partition does not end before the offset that was reached.

    Args:
        partition: the partition to check.
        next_offset: the offset up to which it was read.
        end_offset: the offset at which it ends.
        out: the folder of the audit, for error messages.

    Raises:
        ConfigurationError: the partition ends before that offset.
    """
    if next_offset > end_offset:
        reason = f"{partition} was read up to offset {next_offset}, but now ends at {end_offset}; {WAY_OUT}"
        raise ConfigurationError("out", out, reason)


def still_there(
    topics: Sequence[str], there: Container[str], next_offsets: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return the topics that still exist; facts about those that have been deleted remain in the audit.

    Args:
        topics: the requested names.
        there: all topics that exist.
        next_offsets: the offset up to which each partition was read before, `[topic][partition]`.
    """
    gone = [name for name in topics if name not in there and name in next_offsets]
    if gone:
        _log.warning("partitions deleted since the last audit, whose facts are kept: %s", ", ".join(gone))
    return [name for name in topics if name not in gone]


def _check_segment(
    files: SegmentFiles, segment: FoundSegment, next_offset: int, noted: Sequence[int] | None, out: str
) -> None:
    """Check the batch before an offset; if it does not exist but other segments follow, cleaning has removed it."""
    try:
        start = start_position(files, segment, next_offset - 1)
        file = files.open(segment)
    except FileNotFoundError:  # retention has just removed the segment
        return
    with file:
        source = file.leaps()
        end_offset = segment.base_offset
        for header in batch_headers(source, start):
            end_offset = max(end_offset, header.last_offset + 1)
            if end_offset >= next_offset:
                batch = batch_at(source, header.position) if end_offset == next_offset else None
                is_another = batch is not None and noted is not None and not _is_noted(batch, noted)
                if is_another or header.base_offset < next_offset <= header.last_offset:
                    reason = f"has a different batch there now; {WAY_OUT}"
                    reason = f"{segment.folder} was read up to offset {next_offset} and {reason}"
                    raise ConfigurationError("out", out, reason)
                return
    if segment.end_offset is None:
        check_end(segment.folder, next_offset, end_offset, out)


def _is_noted(batch: Batch, noted: Sequence[int]) -> bool:
    """Return whether a batch is the noted one, or what cleaning has left of it."""
    if batch.magic != BATCH_MAGIC:  # cleaning may change anything in it
        return True
    said = (batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    if said != tuple(noted[:_NOT_CLEANED]):
        return False
    timestamp_ms, records = noted[_NOT_CLEANED:]
    return batch.records_count < records or (batch.max_timestamp, batch.records_count) == (timestamp_ms, records)
