"""At startup, read all batches of a segment in pieces, for its indexes and for the producers of the log.

The record engine reads a piece without creating objects for most batches. It stops at a batch that is damaged or larger
than a piece, and that batch is then checked separately.

Source: `LogSegment.recover` in Apache Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from kafkawire.reference_broker.storage.batches import (
    BatchHeader,
    DamagedSegment,
    Window,
    check_no_gap,
    check_offsets,
    check_stored,
    parse_header,
)
from kafkawire.reference_broker.storage.disk.disk import File
from kafkawire.reference_broker.storage.producers.producers import BATCHES_KEPT
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.last_batches import last_batches
from kafkawire.sdk.records.survey import Survey, SurveyEntry

__all__ = ["PIECE_BYTES", "epoch_starts", "producer_batches", "survey_file"]

#: The number of bytes read at once. They hold up to 15,000 of the smallest batches, which the extension reads in a
#: millisecond.
PIECE_BYTES = 1024 * 1024


def survey_file(file: File, survey: Survey, note: Callable[[SurveyEntry], None]) -> DecodeError | None:
    """Add the batches of a file to a survey, up to the first truncated, damaged or misordered one.

    Args:
        file: the file, which begins with the batches that are already in the survey.
        survey: receives the rest of the batches.
        note: called with each index entry.

    Returns:
        What is wrong with the next batch; None at the end of the file.

    Raises:
        OSError: the disk failed.
    """
    size_bytes = PIECE_BYTES
    while (position := survey.size_bytes) < file.size_bytes:
        entries: list[SurveyEntry] = []
        if survey.add(file.read(position, size_bytes), entries):
            size_bytes = PIECE_BYTES
        else:
            try:
                header = Window(file).header(position)
                check_stored(file, header, survey.next_offset, survey.base_offset + INT32_MAX)
            except DecodeError as error:
                return error
            if header.size_bytes <= size_bytes:  # reached only if the file changes in the meantime
                return DecodeError("batch", position, "the batch changed while it was being read")
            size_bytes = header.size_bytes
        for entry in entries:
            note(entry)
    return None


def epoch_starts(
    file: File, base_offset: int, headers: Callable[[int], Iterator[BatchHeader]]
) -> Iterator[tuple[int, int]]:
    """Yield the leader epochs of the batches of a file, each with the base offset of its first batch.

    No checksum covers the epoch, so batches after a damaged one are included as long as their headers can be found.

    Args:
        file: the file of a segment.
        base_offset: base offset of the segment.
        headers: yields batch headers, starting at a position, until the next one cannot be found.

    Raises:
        DamagedSegment: a batch is damaged, and there may be more epochs than those yielded.
        OSError: the disk failed.
    """
    survey = Survey(base_offset, INT32_MAX)
    problem = survey_file(file, survey, lambda entry: None)
    yield from survey.epochs
    if problem is None:
        return
    with contextlib.suppress(DecodeError):
        for header in headers(survey.size_bytes):
            if header.base_offset >= survey.next_offset:
                yield header.leader_epoch, header.base_offset
    raise DamagedSegment(base_offset, problem.path, problem.offset, problem.reason)


def producer_batches(
    file: File, base_offset: int, from_offset: int, end_offset: int, next_offset: int, size_bytes: int = PIECE_BYTES
) -> Iterator[BatchHeader]:
    """Yield the headers of the batches of a file that determine the state of producers (see `last_batches`).

    Args:
        file: the file of a segment.
        base_offset: base offset of the segment.
        from_offset: batches that begin before this offset are skipped.
        end_offset: batches that begin at or after this offset are skipped.
        next_offset: the offset after the segment.
        size_bytes: the number of bytes to read at once.

    Raises:
        DecodeError: a batch is damaged or out of order, or the file ends inside it; the batch has been yielded if it
            may be complete.
        OSError: the disk failed.
    """
    position, lowest, before = 0, base_offset, None
    while position < file.size_bytes:
        data = file.read(position, size_bytes)
        chosen, passed, last = last_batches(data, from_offset, min(end_offset, next_offset), BATCHES_KEPT)
        header = Window(file).header(position)
        check_offsets(header, lowest, next_offset - 1)
        if before is not None:
            check_no_gap(file, before, header.base_offset)
        if last is None:
            if header.base_offset >= end_offset:
                return
            if header.base_offset >= from_offset and (header.producer_id >= 0 or header.is_control):
                yield header
            passed = header.size_bytes
        else:
            header = parse_header(data, last, position + last)
        for at in chosen:
            yield parse_header(data, at, position + at)
        before, lowest = header, header.last_offset + 1
        position += passed
    if before is not None:
        check_offsets(before, base_offset, next_offset - 1)
        check_no_gap(file, before, next_offset)
