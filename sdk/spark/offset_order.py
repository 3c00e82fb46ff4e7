"""Detect batches with impossible offsets in a partition: offsets that decrease, or extend into the next segment.

A batch's checksum does not cover its base offset, so nothing else reveals a flipped bit there. The batch before two
neighbours shows which of them is wrong: the one that follows it without a gap is right.

Source: `LogSegment.recover`, `UnifiedLog.analyzeAndValidateRecords` in Apache Kafka, which require increasing offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.stored import Damage, Stored

__all__ = ["InOrder", "first_offset"]

#: Offsets in a segment are relative to its base offset and have 31 bits.
_SEGMENT_SPAN: Final = 2**31

#: The highest offset of a partition.
_PARTITION_SPAN: Final = 2**63


def first_offset(batch: Batch) -> int:
    """Return the first offset of a batch; for a wrapper of magic 0 or 1, the last, the only one in its header."""
    return batch.base_offset if batch.magic == BATCH_MAGIC else batch.last_offset


class InOrder:
    """Yields batches and damage in order, treating batches with impossible offsets as damage.

    Args:
        found: the content of a part of a segment or of a fetch, in order. A batch may be yielded only after the next
            one is known, and must stay readable until then.
        lowest: the lowest possible offset.
        end_offset: the upper bound of offsets, exclusive; None if nothing follows.
        is_elsewhere: returns whether a batch beyond that end is also in a following segment. A crash while a broker is
            replacing segments leaves both copies; as in a broker, the one in the following segment is used.
        is_segment: whether everything is from one segment; otherwise cleaning may have left gaps of any size.

    Attributes:
        limit: the upper bound of offsets, exclusive.
        next_offset: a batch that begins with this offset is right and is yielded immediately; None while a batch is
            held back, and after damage.
    """

    def __init__(
        self,
        found: Iterable[Stored | Damage],
        lowest: int,
        end_offset: int | None,
        is_elsewhere: Callable[[Batch], bool] = lambda batch: False,
        *,
        is_segment: bool = True,
    ) -> None:
        span = _SEGMENT_SPAN if is_segment else _PARTITION_SPAN
        self.limit = lowest + span if end_offset is None else end_offset
        self.next_offset: int | None = lowest
        self._found = found
        self._lowest = lowest
        self._has_end = end_offset is not None
        self._is_elsewhere = is_elsewhere

    def pass_to(self, next_offset: int) -> None:
        """Continue after batches that the caller has taken itself, in order; `next_offset` must not have been None.

        Args:
            next_offset: the offset after the last batch.
        """
        self.next_offset = next_offset

    def __iter__(self) -> Iterator[Stored | Damage]:
        expected: int | None = self._lowest  # the offset after the last yielded batch; None after damage
        least = self._lowest
        held: Stored | None = None
        for each in self._found:
            if self.next_offset is not None:
                expected = least = self.next_offset
            if isinstance(each, Damage):
                if held is not None:
                    yield held
                    least = held.batch.last_offset + 1
                self.next_offset = expected = held = None
                yield each
                continue
            first, last = first_offset(each.batch), each.batch.last_offset
            if held is not None:
                if first > held.batch.last_offset or first < least:
                    yield held
                    expected = least = held.batch.last_offset + 1
                else:
                    yield _damage(held, f"offset {first} follows")
                held = None
            if last < first or first < least:
                yield _damage(each, f"it is not after offset {least - 1}")
            elif last >= self.limit:
                if self._has_end and first >= self.limit and self._is_elsewhere(each.batch):
                    return
                beyond = "the next batch begins with" if self._has_end else "no segment reaches"
                yield _damage(each, f"its last offset is {last}, and {beyond} {self.limit}")
            elif first == expected:
                yield each
                expected = last + 1
            else:
                held = each
            self.next_offset = expected if held is None else None
        if held is not None:
            yield held


def _damage(stored: Stored, reason: str) -> Damage:
    batch = stored.batch
    first = first_offset(batch)
    return Damage(stored.position, batch.size_in_bytes, f"offset {first} cannot be right: {reason}", first)
