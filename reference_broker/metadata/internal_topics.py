"""Internal topics, to which the broker itself writes, and the settings with which it creates them.

If a client creates an internal topic with CreateTopics, the client's settings are used, as in Apache Kafka.

Source: `AutoTopicCreationManager`, `GroupCoordinatorService`, `TransactionCoordinator` and `ShareCoordinatorService` in
Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

__all__ = ["INTERNAL_TOPICS", "plan_topic", "warn_of_removal"]

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})

#: Configurations that protect a coordinator's records from removal.
_KEEPING = ("cleanup.policy", "retention.ms")

_OFFSETS_CONFIGS = {"cleanup.policy": "compact", "compression.type": "producer"}

_TRANSACTIONS_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "min.insync.replicas": "1",
    "segment.bytes": str(100 * 1024 * 1024),
    "unclean.leader.election.enable": "false",
}

_SHARE_CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "min.insync.replicas": "1",
    "retention.ms": "-1",
}


def plan_topic(name: str, options: BrokerOptions) -> NewTopic:
    """Return the plan for a topic of which a request gives only the name."""
    if name == CONSUMER_OFFSETS_TOPIC:
        segment_bytes = {"segment.bytes": str(options.offsets_topic_segment_bytes)}
        return NewTopic(name, options.offsets_topic_num_partitions, configs=_OFFSETS_CONFIGS | segment_bytes)
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(name, options.transaction_state_log_num_partitions, configs=_TRANSACTIONS_CONFIGS)
    if name == SHARE_GROUP_STATE_TOPIC:
        segment_bytes = {"segment.bytes": str(options.share_coordinator_state_topic_segment_bytes)}
        return NewTopic(
            name, options.share_coordinator_state_topic_num_partitions, configs=_SHARE_CONFIGS | segment_bytes
        )
    return NewTopic(name, options.num_partitions)


def warn_of_removal(topics: Mapping[str, Mapping[str, str]], options: BrokerOptions, log: logging.Logger) -> None:
    """Log a warning for each internal topic that may lose records that a coordinator needs.

    Args:
        topics: the configurations that each topic overrides, keyed by topic name.
        options: broker options.
        log: where to write the warnings.
    """
    for name in sorted(INTERNAL_TOPICS & topics.keys()):
        configs = {**options.topic_defaults, **topics[name]}
        for config in _KEEPING:
            planned = plan_topic(name, options).configs.get(config)
            if planned is not None and configs.get(config) != planned:
                log.warning(
                    "the topic %s has %s=%s instead of %s and may lose records; delete it to have it recreated",
                    name,
                    config,
                    configs.get(config, "the default"),
                    planned,
                )
