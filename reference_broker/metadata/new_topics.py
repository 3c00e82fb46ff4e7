"""New topics, and checks on the requests that create them: names, partitions and configurations.

Source: `Topic`, `ReplicationControlManager` in Apache Kafka, whose error texts are kept in substance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.config.config_values import InvalidConfig
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.topic_configs import check_config_name, check_together, check_topic_config
from kafkawire.reference_broker.metadata.config_store import NO_CONFIGS
from kafkawire.reference_broker.metadata.new_partitions import check_brokers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TOPIC_NAME_CHARACTERS_MAX, TOPIC_NAME_PATTERN
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "DEFAULT",
    "PARTITIONS_MAX",
    "NewTopic",
    "check_characters",
    "check_no_nulls",
    "plan_configs",
    "plan_partitions",
]

#: Maximum number of partitions that one request may create: Kafka's `MAX_PARTITIONS_PER_BATCH`.
PARTITIONS_MAX = 10_000

#: Stands for the broker's default.
DEFAULT = -1

#: A single broker stores one replica of everything.
_REPLICAS = 1

_NAME = re.compile(TOPIC_NAME_PATTERN)


class NewTopic(NamedTuple):
    """A topic to be created.

    Attributes:
        name: the topic's name.
        partitions: the number of partitions; `DEFAULT` for the broker's default, or if there are assignments.
        replication_factor: the number of replicas of each partition; `DEFAULT` as above.
        assignments: the replicas of each partition, keyed by its number, the preferred leader first; if empty, the
            broker chooses.
        configs: unchecked configurations that differ from the defaults, keyed by Kafka's names; None if the client has
            sent null for one, even if it has also sent a value.
    """

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = NO_CONFIGS


def check_characters(name: str) -> None:
    """Check that a topic may have this name.

    Raises:
        BrokerError: the name is empty, too long, or contains characters that are not allowed.
    """
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_CHARACTERS_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARACTERS_MAX}"
    elif not _NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        reason = ""
    if reason:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def plan_partitions(options: BrokerOptions, topic: NewTopic) -> int:
    """Return the number of partitions that a topic on a single broker will have.

    Raises:
        BrokerError: the number, the replication factor or the assignment is invalid.
    """
    if topic.assignments:
        return _plan_assigned(options, topic)
    if topic.replication_factor != DEFAULT and topic.replication_factor <= 0:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions != DEFAULT and topic.partitions <= 0:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if topic.replication_factor > _REPLICAS:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {topic.replication_factor} time(s): The target replication factor of "
            f"{topic.replication_factor} cannot be reached because only {_REPLICAS} broker(s) are registered or some "
            "brokers have all their log directories cordoned.",
        )
    return options.num_partitions if topic.partitions == DEFAULT else topic.partitions


def _plan_assigned(options: BrokerOptions, topic: NewTopic) -> int:
    if topic.replication_factor != DEFAULT:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.partitions != DEFAULT:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    numbers = set()
    for number, broker_ids in topic.assignments:
        if number in numbers:
            text = f"Found multiple manual partition assignments for partition {number}"
            raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        numbers.add(number)
        check_brokers(broker_ids, (options.node_id,))
    if numbers != set(range(len(numbers))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return len(numbers)


def check_no_nulls(configs: Mapping[str, str | None]) -> None:
    """Check that each configuration of a new topic has a value.

    Raises:
        BrokerError: INVALID_CONFIG if one is null.
    """
    nulls = ",".join(name for name, value in configs.items() if value is None)
    if nulls:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}")


def plan_configs(options: BrokerOptions, configs: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the configurations of a new topic, keyed by name; unknown names are reported before refused values.

    Raises:
        BrokerError: INVALID_CONFIG if a name is unknown, a value is null or refused, or two values conflict.
    """
    check_no_nulls(configs)
    try:
        for name in configs:
            check_config_name(name)
        own = {name: check_topic_config(name, value) for name, value in configs.items()}
        check_together({**options.topic_defaults, **own})
        return own
    except InvalidConfig as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
