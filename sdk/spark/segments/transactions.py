"""The outcomes of transactions in a part of a segment, determined by their markers, which may be in later segments.

Nothing is read ahead until the first transactional batch. From then on, headers are read up to the markers of the
transactions found; `.txnindex` files list the aborted transactions even if a marker is damaged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.sound_batches import StoredBytes
from kafkawire.sdk.spark.data_loss import report_loss
from kafkawire.sdk.spark.isolation import Outcomes
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.headers import batch_at, batch_headers
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.file_names import TRANSACTION_INDEX_SUFFIX
from kafkawire.sdk.storage.transaction_index import parse_transactions

__all__ = ["Aborted", "Transactions", "aborted_transactions"]

#: For each producer, the first offsets of its aborted transactions and the offsets of their markers, in order.
Aborted = dict[int, tuple[list[int], list[int]]]


class Transactions:
    """The transactions in a partition that is being read.

    Args:
        files: the files of the partition.
        segment: the segment that is being read.
        file: the open file, whose content may be needed after a broker has removed or replaced it.
        fails_on_loss: whether it is an error if a following segment is gone and an outcome is therefore unknown.
    """

    def __init__(self, files: SegmentFiles, segment: FoundSegment, file: OpenFile, *, fails_on_loss: bool) -> None:
        self._files = files
        self._segment = segment
        self._file = file
        self._fails_on_loss = fails_on_loss
        self._outcomes = Outcomes()
        self._aborted: Aborted = {}
        #: The markers to read next; None before the first transactional batch.
        self._steps: Iterator[None] | None = None

    def is_visible(self, batch: Batch, position: int) -> bool:
        """Return whether a batch is committed; pass batches in order.

        Args:
            batch: a batch that is not a control batch.
            position: its position in the segment.

        Raises:
            LocalProtocolError: a following segment is gone, and the options make that an error.
            OSError: a file cannot be read.
        """
        if not batch.is_transactional:
            return True
        if self._steps is None:
            self._steps = self._looked_at(position)
        while True:
            firsts, lasts = self._aborted.get(batch.producer_id, ((), ()))
            index = bisect_left(lasts, batch.base_offset)
            if index < len(lasts) and firsts[index] <= batch.base_offset:
                return False
            is_committed = self._outcomes.is_committed(batch.producer_id, batch.base_offset)
            if is_committed is not None:
                return is_committed
            try:
                next(self._steps)
            except StopIteration:
                return False  # its transaction has not ended

    def _looked_at(self, position: int) -> Iterator[None]:
        """Record one marker after another, or the entries of an index."""
        self._note_aborted(self._segment, 0)
        yield
        yield from self._segment_markers(self._file, position, 0)
        expected = self._segment.end_offset
        for segment in self._files.after(self._segment):
            start = segment.base_offset if expected is None else expected
            if segment.base_offset > start:
                self._lose(start)
            expected = segment.end_offset
            self._note_aborted(segment, start)
            yield
            try:
                file = self._files.open(segment)
            except FileNotFoundError:
                self._lose(segment.base_offset)
                continue
            with file:
                yield from self._segment_markers(file, 0, start)
        if expected is not None:
            self._lose(expected)

    def _note_aborted(self, segment: FoundSegment, start_offset: int) -> None:
        content = self._files.read(segment.sibling(TRANSACTION_INDEX_SUFFIX))
        for producer_id, (firsts, lasts) in aborted_transactions(segment, content).items():
            known = self._aborted.setdefault(producer_id, ([], []))
            begin = bisect_left(lasts, start_offset)
            known[0].extend(firsts[begin:])
            known[1].extend(lasts[begin:])

    def _segment_markers(self, file: OpenFile, position: int, start_offset: int) -> Iterator[None]:
        source = file.leaps()
        for header in batch_headers(source, position):
            if header.is_control and header.is_transactional and header.base_offset >= start_offset:
                self._note(source, header.position)
                yield

    def _lose(self, base_offset: int) -> None:
        what = f"{self._segment.folder}: the segment at offset {base_offset}, which shows how transactions ended"
        report_loss(f"{what}, has been removed since the work was planned", fails=self._fails_on_loss)

    def _note(self, source: StoredBytes, position: int) -> None:
        batch = batch_at(source, position)
        try:
            if batch is not None:
                self._outcomes.add(batch)
        except DecodeError:
            pass  # the reader of that part of the segment reports the damage


def aborted_transactions(segment: FoundSegment, content: bytes) -> Aborted:
    """Return the aborted transactions in the `.txnindex` of a segment; empty if it is damaged.

    Args:
        segment: the segment to which the index belongs.
        content: the content of the index.
    """
    found: Aborted = {}
    try:
        for entry in parse_transactions([content], segment.base_offset, segment.end_offset):
            firsts, lasts = found.setdefault(entry.producer_id, ([], []))
            firsts.append(entry.first_offset)
            lasts.append(entry.last_offset)
    except DamagedContent:
        return {}
    return found
