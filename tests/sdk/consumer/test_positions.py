"""The offsets of a partition move as records are fetched, handed out and finished; a seek drops what was fetched.

Method: each way to move an offset, by hand.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.positions import Positions
from kafkawire.sdk.errors import LocalProtocolError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def assigned(*partitions: TopicPartition) -> Positions:
    """Return positions of some partitions, all at offset 10."""
    positions = Positions()
    positions.assign(partitions)
    for partition in partitions:
        positions[partition].seek(10)
    return positions


def test_a_new_partition_has_no_position() -> None:
    positions = Positions()
    positions.assign([B, A])
    assert list(positions) == [A, B]
    assert positions.without_position() == [A, B]
    assert positions.to_commit() == {}


def test_assigning_again_keeps_positions_and_drops_revoked_partitions() -> None:
    positions = assigned(A, B)
    kept, gone = positions[A], positions[B]
    epoch = gone.epoch
    positions.assign([A])
    assert positions[A] is kept
    assert kept.position == 10
    assert gone.epoch != epoch
    assert positions.assigned == {A}
    assert positions.get(B) is None
    with pytest.raises(LocalProtocolError, match="partition t-1 is not assigned to this consumer"):
        positions[B]


def test_seek() -> None:
    state = assigned(A)[A]
    epoch = state.epoch
    state.queued_bytes = 5
    state.seek(3)
    assert (state.position, state.finished, state.fetch_offset) == (3, 3, 3)
    assert state.epoch != epoch
    assert state.queued_bytes == 0


def test_look_up() -> None:
    positions = assigned(A)
    positions[A].look_up("latest")
    assert positions.without_position() == [A]
    assert positions[A].reset == "latest"
    positions[A].seek(3)
    assert positions[A].reset is None


def test_commit_what_is_finished_and_not_committed_yet() -> None:
    positions = assigned(A, B)
    positions[A].position = 15
    assert positions.to_commit() == {A: 10, B: 10}
    positions.finish_all()
    assert positions.to_commit([A]) == {A: 15}
    positions.committed({A: 15, B: 10, TopicPartition("gone", 0): 1})
    assert positions.to_commit() == {}
    positions[B].position = 11
    positions.finish_all()
    assert positions.to_commit() == {B: 11}


def test_a_partition_assigned_again_drops_earlier_fetches() -> None:
    """An eager rebalance revokes all partitions and assigns most of them again: earlier fetches must not count."""
    partition = TopicPartition("t", 0)
    positions = Positions()
    positions.assign([partition])
    positions[partition].seek(0)
    before = positions[partition].epoch
    positions.assign([])
    positions.assign([partition])
    positions[partition].seek(0)
    assert positions[partition].epoch != before
