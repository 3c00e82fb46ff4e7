"""Batches of a segment whose offsets cannot be right: they go back, or reach into the next segment.

The checksum of a batch does not cover its base offset, so a flipped bit there shows in nothing else. Which of two
neighbours is wrong is seen by the batch before them: one that follows it without a gap is right.

Source: `LogSegment.recover`, `UnifiedLog.analyzeAndValidateRecords` in Apache Kafka, which demand rising offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.stored import Damage, Stored

__all__ = ["first_offset", "in_order"]

#: A segment's offsets count from its base offset in 31 bits.
_SPAN = 2**31


def first_offset(batch: Batch) -> int:
    """Return the first offset of a batch; of a wrapper of magic 0 or 1 the last one, which is all that it says."""
    return batch.base_offset if batch.magic == BATCH_MAGIC else batch.last_offset


def in_order(
    found: Iterable[Stored | Damage],
    lowest: int,
    end_offset: int | None,
    is_elsewhere: Callable[[Batch], bool] = lambda batch: False,
) -> Iterator[Stored | Damage]:
    """Yield what was found, a batch with impossible offsets as damage.

    Args:
        found: what is in a part of a segment, in order. A batch is yielded when the next one is known: it must be
            readable until then.
        lowest: no offset is lower.
        end_offset: no offset reaches it; None if nothing follows.
        is_elsewhere: returns whether a batch behind that end is in a following segment, too. A crash while a broker
            replaced segments leaves both; the following one counts, as for a broker.
    """
    limit = lowest + _SPAN if end_offset is None else end_offset
    next_offset: int | None = lowest  # after the last batch that was yielded; None where damage is before
    least = lowest
    held: Stored | None = None
    for each in found:
        if isinstance(each, Damage):
            if held is not None:
                yield held
                least = held.batch.last_offset + 1
            next_offset = held = None
            yield each
            continue
        first, last = first_offset(each.batch), each.batch.last_offset
        if held is not None:
            if first > held.batch.last_offset or first < least or next_offset == first_offset(held.batch):
                yield held
                next_offset = least = held.batch.last_offset + 1
            else:
                yield _damage(held, f"offset {first} follows")
            held = None
        if last < first or first < least:
            yield _damage(each, f"it is not behind offset {least - 1}")
        elif last >= limit:
            if end_offset is not None and first >= limit and is_elsewhere(each.batch):
                return
            beyond = "no segment reaches" if end_offset is None else "what follows begins with"
            yield _damage(each, f"its last one is {last}, {beyond} {limit}")
        else:
            held = each
    if held is not None:
        yield held


def _damage(stored: Stored, reason: str) -> Damage:
    batch = stored.batch
    first = first_offset(batch)
    return Damage(stored.position, batch.size_in_bytes, f"offset {first} cannot be right: {reason}", first)
