"""The offset before which a share coordinator's log is redundant, since later snapshots replace all earlier records.

Source: `ShareCoordinatorOffsetsManager` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.shares.share_state import SharePartitionKey

__all__ = ["RedundantOffsets"]


class RedundantOffsets:
    """The offsets of the last snapshots in one partition of `__share_group_state`."""

    def __init__(self) -> None:
        self._snapshots: dict[SharePartitionKey, int] = {}
        #: The offset of the last tombstone, which is the first one needed if no snapshots are left.
        self._deletion = 0
        #: The lowest offset of a snapshot, or None if it has to be computed.
        self._lowest: int | None = None

    def written(self, key: SharePartitionKey, offset: int, *, is_deletion: bool = False) -> None:
        """Record a snapshot, or the tombstone that deletes a share partition's state, at an offset."""
        self._lowest = None
        if is_deletion:
            self._deletion = offset
            self._snapshots.pop(key, None)
        else:
            self._snapshots[key] = offset

    @property
    def redundant_to(self) -> int | None:
        """The first offset that is needed; None if every record is."""
        if self._lowest is None:
            self._lowest = min(self._snapshots.values(), default=self._deletion)
        return self._lowest or None
