"""The checks before a topic is created: its name, partitions and configurations.

CreateTopics checks everything that a client may ask for; an auto-created topic takes the defaults.

Source: `Topic`, `ReplicationControlManager` in Apache Kafka, whose error texts are kept in substance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.config.topic_configs import InvalidConfig, check_together, check_topic_config
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.metadata.internal_topics import plan_topic
from kafkawire.reference_broker.storage.directory.log_directory import Topic
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC, TOPIC_NAME_CHARACTERS_MAX, TOPIC_NAME_PATTERN
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "DEFAULT",
    "PARTITIONS_MAX",
    "check_characters",
    "check_name",
    "create_by_default",
    "plan_configs",
    "plan_partitions",
]

#: Most partitions that one request may create, Kafka's `MAX_PARTITIONS_PER_BATCH`.
PARTITIONS_MAX = 10_000

#: What a client sends to get the broker's default.
DEFAULT = -1

#: A single broker keeps one replica of everything.
_REPLICAS = 1

_NAME = re.compile(TOPIC_NAME_PATTERN)


def check_name(core: Core, name: str) -> None:
    """Check that a topic of this name can be created.

    Raises:
        BrokerError: the name is not allowed, is taken, or differs from another only in periods and underscores.
    """
    if name == CLUSTER_METADATA_TOPIC:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_characters(name)
    if name in core.directory.topics or core.directory.is_creating(name):
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = core.similar_topic(name)
    if other is not None:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def check_characters(name: str) -> None:
    """Check that a topic could have this name.

    Raises:
        BrokerError: the name is empty, too long, or has characters that are not allowed.
    """
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = "'.' or '..' is not allowed"
    elif len(name) > TOPIC_NAME_CHARACTERS_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARACTERS_MAX}"
    elif not _NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        reason = ""
    if reason:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def plan_partitions(core: Core, topic: CreateTopicsRequest.CreatableTopic) -> int:
    """Return the number of partitions that a topic will have.

    Raises:
        BrokerError: the number, the replication factor or the assignment is not possible.
    """
    if topic.assignments:
        return _plan_assigned(core, topic)
    if topic.replication_factor != DEFAULT and topic.replication_factor <= 0:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions != DEFAULT and topic.num_partitions <= 0:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if topic.replication_factor > _REPLICAS:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {topic.replication_factor} time(s): The target replication factor of "
            f"{topic.replication_factor} cannot be reached because only {_REPLICAS} broker(s) are registered.",
        )
    return core.options.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions


def _plan_assigned(core: Core, topic: CreateTopicsRequest.CreatableTopic) -> int:
    if topic.replication_factor != DEFAULT:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != DEFAULT:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    numbers = sorted(assignment.partition_index for assignment in topic.assignments)
    if numbers != list(range(len(numbers))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    for assignment in topic.assignments:
        if list(assignment.broker_ids) != [core.options.node_id]:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} is assigned to brokers {list(assignment.broker_ids)}, "
                f"the only broker is {core.options.node_id}",
            )
    return len(numbers)


def plan_configs(core: Core, configs: Sequence[CreateTopicsRequest.CreatableTopicConfig]) -> Mapping[str, str]:
    """Return the configurations of a topic by name.

    Raises:
        BrokerError: INVALID_CONFIG, a name is unknown, a value refused, or two contradict each other.
    """
    try:
        own = {config.name: check_topic_config(config.name, config.value) for config in configs}
        check_together({**core.options.topic_defaults, **own})
        return own
    except InvalidConfig as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None


def create_by_default(core: Core, name: str, done: Callable[[Topic | BrokerError], None]) -> None:
    """Create a topic with the broker's defaults, an internal one with its own; if it is being created, wait for that.

    `done` is called with the topic, or with KAFKA_STORAGE_ERROR.

    Raises:
        BrokerError: the name is not allowed.
    """
    if not core.directory.is_creating(name):
        check_name(core, name)
    core.create_topic(name, *plan_topic(name, core.options), done)
