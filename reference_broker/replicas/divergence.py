"""The offset to which a follower must truncate its log when the leader reports that the two logs differ.

Source: `AbstractFetcherThread.getOffsetTruncationState` in Apache Kafka; KIP-101 (leader epochs instead of high
watermarks), KIP-279 (epochs that only one of the two logs has).
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["EpochLog", "cut_for"]


class EpochLog(Protocol):
    """A log and its leader epochs (see `PartitionLog`)."""

    @property
    def next_offset(self) -> int:
        """The end of the log."""
        ...

    @property
    def high_watermark(self) -> int:
        """The end of the committed records, as known to this log."""
        ...

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the highest known epoch up to `epoch` and its end offset; (-1, -1) if no epoch is known."""
        ...


def cut_for(log: EpochLog, epoch: int, end_offset: int) -> int:
    """Return the offset to which a follower must truncate its log; the next fetch shows whether the logs then agree.

    Args:
        log: the follower's log.
        epoch: the highest epoch that both logs may have, according to the leader; -1 if the leader named none.
        end_offset: where that epoch ends in the leader's log; -1 if the leader does not know, in which case only
            committed records are certain.
    """
    if end_offset < 0:
        return log.high_watermark
    own_epoch, own_end_offset = log.end_of_epoch(epoch)
    if own_epoch < 0:
        return min(end_offset, log.next_offset)
    if own_epoch != epoch:
        # This log lacks the epoch, so none of its later records can be the leader's. An earlier epoch may differ as
        # well.
        return min(own_end_offset, log.next_offset)
    return min(end_offset, own_end_offset, log.next_offset)
