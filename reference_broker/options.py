"""The options of a broker: names, defaults, ranges.

Options are snake_case keywords; the dotted names of Kafka's documentation are accepted through `KAFKA_NAMES`. The
broker-wide defaults of topic configurations (`log.segment.bytes`, …) are options too. Defaults are Kafka's, except for
three that suit a broker for tests: one partition in the offsets topic, no initial rebalance delay, and session timeouts
from 1 s.

Source: Apache Kafka, `KafkaConfig`, `ServerLogConfigs`, `GroupCoordinatorConfig`, `SocketServerConfigs`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

from kafkawire.reference_broker.log.config import InvalidConfig, check_topic_config
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES

__all__ = ["KAFKA_NAMES", "TOPIC_DEFAULTS", "BrokerOptions", "read_options"]

_INT32_MAX = 2**31 - 1


def _number(default: int, low: int, high: int = _INT32_MAX) -> int:
    """Declare an integer option from `low` to `high`, both included."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The options of a broker.

    Attributes:
        node_id: the id of this broker.
        advertised_host: the host that clients are told to connect to; empty for the one it listens on.
        num_partitions: partitions of a topic created without a number.
        auto_create_topics: whether asking for a missing topic creates it.
        offsets_topic_num_partitions: partitions of `__consumer_offsets`, fixed when it is created.
        offset_metadata_max_bytes: longest metadata of a committed offset.
        group_min_session_timeout_ms: shortest session timeout of a group member.
        group_max_session_timeout_ms: longest session timeout of a group member.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members after the first.
        group_max_size: most members of a group.
        fetch_max_bytes: most bytes in one fetch response, whatever the client asks for.
        max_frame_bytes: largest request.
        max_connections: most clients at once; further connections are refused.
        connections_max_idle_ms: a connection idle for this long is closed.
        topic_defaults: topic configurations that apply unless a topic overrides them.
    """

    node_id: int = _number(1, 0)
    advertised_host: str = ""
    num_partitions: int = _number(1, 1)
    auto_create_topics: bool = True
    offsets_topic_num_partitions: int = _number(1, 1)
    offset_metadata_max_bytes: int = _number(4096, 0)
    group_min_session_timeout_ms: int = _number(1_000, 0)
    group_max_session_timeout_ms: int = _number(1_800_000, 0)
    group_initial_rebalance_delay_ms: int = _number(0, 0)
    group_max_size: int = _number(_INT32_MAX, 1)
    fetch_max_bytes: int = _number(55 * 1024 * 1024, 1024)
    max_frame_bytes: int = _number(MAX_FRAME_BYTES, 1)
    max_connections: int = _number(10_000, 1)
    connections_max_idle_ms: int = _number(600_000, 1)
    topic_defaults: Mapping[str, str] = field(default_factory=dict)


#: Dotted names of Kafka's documentation, and what they are called here.
KAFKA_NAMES: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "auto_create_topics",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "fetch.max.bytes": "fetch_max_bytes",
    "group.initial.rebalance.delay.ms": "group_initial_rebalance_delay_ms",
    "group.max.session.timeout.ms": "group_max_session_timeout_ms",
    "group.max.size": "group_max_size",
    "group.min.session.timeout.ms": "group_min_session_timeout_ms",
    "max.connections": "max_connections",
    "node.id": "node_id",
    "num.partitions": "num_partitions",
    "offset.metadata.max.bytes": "offset_metadata_max_bytes",
    "offsets.topic.num.partitions": "offsets_topic_num_partitions",
    "socket.request.max.bytes": "max_frame_bytes",
}

#: Broker options that are defaults of topic configurations, by Kafka's dotted name.
TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "compression.type": "compression.type",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
}


def read_options(given: Mapping[str, object]) -> BrokerOptions:
    """Check the options of a broker.

    Args:
        given: names, dotted or in snake_case, and values; numbers and booleans may be text, as on a command line.

    Raises:
        ConfigurationError: a name is unknown or given twice, or a value is out of range.
    """
    known = {option.name: option for option in fields(BrokerOptions) if option.name != "topic_defaults"}
    topic_names = {dotted.replace(".", "_"): dotted for dotted in TOPIC_DEFAULTS}
    values: dict[str, object] = {}
    topic_defaults: dict[str, str] = {}
    for given_name, value in given.items():
        dotted = topic_names.get(given_name, given_name)
        if dotted in TOPIC_DEFAULTS:
            topic_defaults[TOPIC_DEFAULTS[dotted]] = _topic_default(given_name, TOPIC_DEFAULTS[dotted], value)
            continue
        name = KAFKA_NAMES.get(given_name, given_name)
        if name not in known:
            raise ConfigurationError(given_name, value, _unknown(given_name, [*known, *KAFKA_NAMES, *TOPIC_DEFAULTS]))
        if name in values:
            raise ConfigurationError(given_name, value, f"{name} was given already")
        if isinstance(known[name].default, str):
            values[name] = str(value)
        elif isinstance(known[name].default, bool):
            values[name] = _boolean(given_name, value)
        else:
            values[name] = _integer(given_name, value, known[name].metadata["low"], known[name].metadata["high"])
    return BrokerOptions(**cast("dict[str, Any]", values), topic_defaults=topic_defaults)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"no such option; did you mean {near[0]}?" if near else "no such option"


def _boolean(name: str, value: object) -> bool:
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ConfigurationError(name, value, "expected true or false")
    return found


def _integer(name: str, value: object, low: int, high: int) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        number = int(value)
    except ValueError:
        raise ConfigurationError(name, value, "expected an integer") from None
    if not low <= number <= high:
        raise ConfigurationError(name, value, f"expected {low} to {high}")
    return number


def _topic_default(name: str, config: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        return check_topic_config(config, text)
    except InvalidConfig as error:
        raise ConfigurationError(name, value, str(error)) from None
