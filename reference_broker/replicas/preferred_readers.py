"""Choose the replica from which a consumer should fetch: one in its own rack (KIP-392).

Source: `ReplicaManager.findPreferredReadReplica`, `RackAwareReplicaSelector` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkawire.reference_broker.replicas.follower_positions import FollowerPosition

__all__ = ["preferred_reader"]


def preferred_reader(
    rack: str, leader_id: int, followers: Iterable[FollowerPosition], rack_of: Callable[[int], str | None]
) -> int | None:
    """Return the follower from which a consumer should fetch: the one in its rack that has the most records.

    Args:
        rack: the consumer's rack.
        leader_id: the leader's broker; the consumer keeps reading from it if it is in the same rack.
        followers: the followers that are in sync and have the offset that the consumer fetches.
        rack_of: returns the rack of the live broker with a given id; None if it has none.

    Returns:
        The id of the follower's broker; None for the leader.
    """
    if not rack or rack_of(leader_id) == rack:
        return None
    near = [each for each in followers if rack_of(each.broker_id) == rack]
    best = max(near, key=lambda each: (each.end_offset, each.last_caught_up_ms(), each.broker_id), default=None)
    return None if best is None else best.broker_id
