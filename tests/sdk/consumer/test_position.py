"""A position is committed with the leader epoch of the record before it."""

from __future__ import annotations

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.routing.partitions import OffsetAndMetadata


def test_what_is_committed() -> None:
    assert Position(7, 3).to_commit() == OffsetAndMetadata(7, "", 3)
    assert Position(7).to_commit() == OffsetAndMetadata(7, "", -1)
