"""Records before the earliest needed snapshot are redundant.

Method: record made-up snapshots and deletions.
"""

from __future__ import annotations

from kafkawire.reference_broker.shares.redundant_offsets import RedundantOffsets
from kafkawire.reference_broker.shares.share_state import SharePartitionKey

A, B = (SharePartitionKey("g", b"t" * 16, number) for number in range(2))


def test_the_earliest_snapshot_is_needed():
    offsets = RedundantOffsets()
    assert offsets.redundant_to is None
    offsets.written(A, 0)
    assert offsets.redundant_to is None
    offsets.written(B, 5)
    assert offsets.redundant_to is None
    offsets.written(A, 9)
    assert offsets.redundant_to == 5
    offsets.written(B, 12)
    assert offsets.redundant_to == 9


def test_what_is_deleted_needs_no_snapshot():
    offsets = RedundantOffsets()
    offsets.written(A, 3)
    offsets.written(B, 5)
    offsets.written(A, 7, is_deletion=True)
    assert offsets.redundant_to == 5
    offsets.written(B, 8, is_deletion=True)
    assert offsets.redundant_to == 8, "the last tombstone is kept"
