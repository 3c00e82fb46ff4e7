"""The KRaft quorum as an admin returns it.

Source: KIP-595, KIP-836 (times), KIP-853 (directories and endpoints).
"""

from typing import NamedTuple

from kafkawire.sdk.transport.wire import Address

__all__ = ["QuorumInfo", "QuorumReplica"]


class QuorumReplica(NamedTuple):
    """A node that has a copy of the metadata log.

    Attributes:
        replica_id: the node's id.
        directory_id: the directory that holds its log, as 22 characters; None if it is unknown.
        log_end_offset: the end of its log; -1 if it is unknown.
        last_fetch_timestamp_ms: when the leader last got a fetch from it, in ms since the epoch; None if it is unknown.
        last_caught_up_timestamp_ms: when it last had everything that the leader had; None if it is unknown.
    """

    replica_id: int
    directory_id: str | None
    log_end_offset: int
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


class QuorumInfo(NamedTuple):
    """The quorum of a cluster.

    Attributes:
        leader_id: the node that leads it, the active controller.
        leader_epoch: its epoch.
        high_watermark: the offset up to which the metadata is committed.
        voters: the nodes that take part in elections.
        observers: the nodes that only copy the log, such as brokers.
        endpoints: the voters' addresses, keyed by node id and by the name of the listener; empty if the broker does not
            tell (before Apache Kafka 3.9).
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, dict[str, Address]]
