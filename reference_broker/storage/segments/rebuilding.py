"""Rebuild the missing or damaged indexes of a segment from its batches.

Source: `LogSegment.recover` in Apache Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.reference_broker.storage.disk.disk import File
from kafkawire.reference_broker.storage.segments.index import OffsetIndex, TimeIndex
from kafkawire.reference_broker.storage.segments.stored_batches import survey_file
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.survey import Survey, SurveyEntry

__all__ = ["Rebuilt", "rebuild"]


class Rebuilt(NamedTuple):
    """Rebuilt indexes.

    Attributes:
        offsets: the index by offset.
        times: the index by time.
        survey: the combined properties of the batches.
        problem: what is wrong with the first damaged batch, before which the indexes end; None if there is none.
    """

    offsets: OffsetIndex
    times: TimeIndex
    survey: Survey
    problem: DecodeError | None


def rebuild(file: File, base_offset: int, interval_bytes: int, index: OffsetIndex, time_index: TimeIndex) -> Rebuilt:
    """Fill the indexes of a segment up to the first damaged batch, on any thread.

    Args:
        file: holds the batches.
        base_offset: base offset of the segment.
        interval_bytes: the distance between entries.
        index: an empty index by offset.
        time_index: an empty index by time.

    Raises:
        OSError: the disk failed.
    """

    def note(entry: SurveyEntry) -> None:
        last_offset, position, max_timestamp, max_timestamp_offset = entry
        index.append(last_offset, position)
        time_index.append(max_timestamp, max_timestamp_offset)

    survey = Survey(base_offset, interval_bytes)
    problem = survey_file(file, survey, note)
    return Rebuilt(index, time_index, survey, problem)
