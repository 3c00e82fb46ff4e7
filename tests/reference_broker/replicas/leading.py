"""Leading replicas, for testing leaders."""

from __future__ import annotations

from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.roles import Term
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog

__all__ = ["leading", "term"]


def term(leader_epoch: int, leader: int = 1) -> Term:
    """Return a term of a partition on brokers 1 and 2."""
    return Term(leader, leader_epoch, isr=(1, 2), replicas=(1, 2))


def leading(log: PartitionLog) -> Replica:
    """Return a replica that leads its partition in the log's epoch, unless the log has failed."""
    replica = Replica(log)
    if log.error is None:
        replica.lead(term(log.leader_epoch))
    return replica
