"""The options of a broker: names, defaults, ranges.

Options are snake_case keywords; the dotted names of Kafka's documentation are accepted too. The broker-wide defaults of
topic configurations (`log.segment.bytes`, …) are options like the others. Defaults are Kafka's, except for three that
suit a broker for tests: one partition in the offsets topic, no initial rebalance delay, and session timeouts from 1 s.

Source: Apache Kafka, `KafkaConfig`, `ServerLogConfigs`, `GroupCoordinatorConfig`, `SocketServerConfigs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkawire.reference_broker.log.config import TOPIC_CONFIGS, InvalidConfig, check_topic_config
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, Option, Options, flag, literal, number, text
from kafkawire.sdk.protocol.frames import MAX_FRAME_BYTES
from kafkawire.sdk.protocol.tables.enums import ConfigType

__all__ = ["TOPIC_DEFAULTS", "BrokerOptions", "read_options"]

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

#: How the values of topic configurations are written in Python; `log.cleanup.policy`, a list, is text.
_TYPES: Final[Mapping[ConfigType, str]] = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.DOUBLE: "float",
    ConfigType.INT: "int",
    ConfigType.LIST: "str",
    ConfigType.LONG: "int",
    ConfigType.STRING: "str",
}


def _own_name(dotted: str) -> str:
    return dotted.replace(".", "_")


def _topic_options() -> dict[str, Option]:
    """Return an option for each topic configuration that a broker has a default for; None leaves Kafka's."""
    return {_own_name(name): _topic_option(name, config) for name, config in TOPIC_DEFAULTS.items()}


def _topic_option(kafka_name: str, config: str) -> Option:
    def read(name: str, value: object) -> str:
        try:
            return check_topic_config(config, str(value).lower() if isinstance(value, bool) else str(value))
        except InvalidConfig as error:
            raise ConfigurationError(name, value, str(error)) from None

    known = TOPIC_CONFIGS[config]
    accepts = literal(*known.choices) if known.choices and known.type is ConfigType.STRING else _TYPES[known.type]
    return Option(None, read, kafka_name, accepts=accepts)


class BrokerOptions(Options, from_text=True, more=_topic_options()):
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
    """

    node_id: int = number(1, 0, kafka="node.id")
    advertised_host: str = text("")
    num_partitions: int = number(1, 1, kafka="num.partitions")
    auto_create_topics: bool = flag(True, kafka="auto.create.topics.enable")
    offsets_topic_num_partitions: int = number(1, 1, kafka="offsets.topic.num.partitions")
    offset_metadata_max_bytes: int = number(4096, 0, kafka="offset.metadata.max.bytes")
    group_min_session_timeout_ms: int = number(1_000, 0, kafka="group.min.session.timeout.ms")
    group_max_session_timeout_ms: int = number(1_800_000, 0, kafka="group.max.session.timeout.ms")
    group_initial_rebalance_delay_ms: int = number(0, 0, kafka="group.initial.rebalance.delay.ms")
    group_max_size: int = number(INT32_MAX, 1, kafka="group.max.size")
    fetch_max_bytes: int = number(55 * 1024 * 1024, 1024, kafka="fetch.max.bytes")
    max_frame_bytes: int = number(MAX_FRAME_BYTES, 1, kafka="socket.request.max.bytes")
    max_connections: int = number(10_000, 1, kafka="max.connections")
    connections_max_idle_ms: int = number(600_000, 1, kafka="connections.max.idle.ms")

    @property
    def topic_defaults(self) -> dict[str, str]:
        """The topic configurations that were given; they apply unless a topic overrides them."""
        given = ((config, getattr(self, _own_name(name))) for name, config in TOPIC_DEFAULTS.items())
        return {config: value for config, value in given if value is not None}


def read_options(given: Mapping[str, object]) -> BrokerOptions:
    """Check the options of a broker.

    Args:
        given: names, dotted or in snake_case, and values; numbers and booleans may be text, as on a command line.

    Raises:
        ConfigurationError: a name is unknown or given twice, or a value is out of range.
    """
    return BrokerOptions.read(given.items())
