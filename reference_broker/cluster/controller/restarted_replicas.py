"""On failover, replaces leaders and in-sync replicas whose brokers have restarted while there was no controller.

A broker that loses power can lose records, so it must not continue in the same leader epoch: it would append other
records at offsets where its followers still have the lost ones. A controller notices a restart by the broker's epoch,
but a controller that has just been elected knows no earlier epoch. It compares the epoch with the transaction that
stored the leadership instead, since the registry numbers both in a single sequence.

Source: `KafkaController.processBrokerChange` for bounced brokers in Apache Kafka, which has no such step on failover.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkawire.reference_broker.cluster.controller.context import Context, Leadership
from kafkawire.reference_broker.cluster.controller.leader_elections import elect_offline
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore, StoredLeadership
from kafkawire.sdk.registry.steps import Steps
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["replace_restarted"]

_log = logging.getLogger("kafkawire.broker")

#: The leadership of partitions as read from the registry.
_Read = Mapping[TopicPartition, StoredLeadership]


def replace_restarted(context: Context, store: LeadershipStore, read: _Read) -> Steps[None]:
    """Store new leadership where the stored one counts on replicas that have restarted since; send nothing.

    Must be called before brokers are told about their replicas.

    Args:
        context: holds the brokers, and receives the new leadership.
        store: writes the leadership.
        read: the leadership of all partitions, which must have been read after the brokers.

    Raises:
        CheckFailed: another controller has been elected.
        RegistryError: the session has ended.
    """
    changed = {
        partition: leadership
        for partition, stored in read.items()
        if partition.topic not in context.deletions
        and (leadership := _without_restarted(context, partition, stored)) is not None
    }
    if not changed:
        return
    _log.info("brokers have restarted since the leaders or the ISRs of %d partitions were stored", len(changed))
    writes = yield from store.write(changed)
    context.leaderships.update(writes.done)
    for partition, error in writes.failed.items():
        _log.error("a restarted broker stays in the ISR of %s: %s", partition, error)
    if writes.stale:
        # Another program has written these partitions after the brokers registered, so they need no new leadership.
        again = yield from store.read(writes.stale)
        context.leaderships.update(
            (partition, each) for partition, each in again.items() if isinstance(each, Leadership)
        )


def _without_restarted(context: Context, partition: TopicPartition, stored: StoredLeadership) -> Leadership | None:
    """Return the leadership without the replicas that have restarted, in a new leader epoch; None if it can stay.

    If all live in-sync replicas have restarted, none of them knows more than the others. They stay in sync, and a live
    leader continues to lead; without one, a leader is elected as usual.
    """
    leadership = stored.leadership
    if leadership.controller_epoch > context.epoch:
        return None  # only a later controller may change it
    online = tuple(each for each in leadership.isr if context.is_online(each, partition))
    steady = tuple(each for each in online if context.brokers[each].epoch < stored.zxid)
    if steady == online:
        return None
    if leadership.leader in (steady or online):
        return leadership.led_by(leadership.leader, steady or online)
    replicas = context.assignment(partition).replicas
    elected = elect_offline(leadership, replicas, steady.__contains__, is_unclean_allowed=False)
    return None if elected is None else elected.leadership
