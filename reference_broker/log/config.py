"""What a topic can be configured with: names, types, defaults, and the values that are refused.

One table serves CreateTopics (validation), DescribeConfigs (types and descriptions) and the log (`LogConfig`).
Configurations whose effect comes with a later part of the broker (retention, compaction) are kept and shown.

Source: Kafka's documentation, "Topic Configs"; `TopicConfig` and `LogConfig` in Apache Kafka.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.enums import ConfigType

__all__ = ["TOPIC_CONFIGS", "InvalidConfig", "LogConfig", "TopicConfig", "check_topic_config", "log_config"]

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class InvalidConfig(ValueError):
    """A configuration has an unknown name or a value that is refused."""


class TopicConfig(NamedTuple):
    """One configuration of a topic.

    Attributes:
        name: in Kafka's dotted form.
        type: of the value.
        default: as text.
        check: refuses a bad value with a ValueError, whose text says what is allowed.
        about: what it does.
    """

    name: str
    type: ConfigType
    default: str
    check: Callable[[str], None]
    about: str


def _number(low: int, high: int) -> Callable[[str], None]:
    def check(value: str) -> None:
        try:
            number = int(value)
        except ValueError:
            raise ValueError("not a number") from None
        if not low <= number <= high:
            raise ValueError(f"must be {low} to {high}")

    return check


def _ratio(value: str) -> None:
    try:
        number = float(value)
    except ValueError:
        raise ValueError("not a number") from None
    if not 0 <= number <= 1:
        raise ValueError("must be 0 to 1")


def _one_of(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")

    return check


def _list_of(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        for part in filter(None, (part.strip() for part in value.split(","))):
            if part not in allowed:
                raise ValueError(f"entries must be one of {', '.join(allowed)}")

    return check


def _replica_list(value: str) -> None:
    if value not in ("", "*") and not all(part.count(":") == 1 for part in value.split(",")):
        raise ValueError("must be * or partition:broker,partition:broker")


_boolean = _one_of("true", "false")
_WEEK_MS = 7 * 24 * 3600 * 1000

#: Every topic configuration of Apache Kafka 4.3, by name.
TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    name: TopicConfig(name, kind, default, check, about)
    for name, kind, default, check, about in (
        ("cleanup.policy", ConfigType.LIST, "delete", _list_of("delete", "compact"), "How old records go."),
        (
            "compression.type",
            ConfigType.STRING,
            "producer",
            _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "How batches are stored; producer keeps what the producer chose.",
        ),
        ("compression.gzip.level", ConfigType.INT, "-1", _number(-1, 9), "Level of gzip."),
        ("compression.lz4.level", ConfigType.INT, "9", _number(1, 17), "Level of LZ4."),
        ("compression.zstd.level", ConfigType.INT, "3", _number(-131072, 22), "Level of Zstandard."),
        (
            "delete.retention.ms",
            ConfigType.LONG,
            "86400000",
            _number(0, _INT64_MAX),
            "How long compaction keeps tombstones.",
        ),
        ("file.delete.delay.ms", ConfigType.LONG, "60000", _number(0, _INT64_MAX), "When files of deleted logs go."),
        (
            "flush.messages",
            ConfigType.LONG,
            str(_INT64_MAX),
            _number(1, _INT64_MAX),
            "Records after which the log is synced to disk.",
        ),
        (
            "flush.ms",
            ConfigType.LONG,
            str(_INT64_MAX),
            _number(0, _INT64_MAX),
            "Time after which the log is synced to disk.",
        ),
        (
            "follower.replication.throttled.replicas",
            ConfigType.LIST,
            "",
            _replica_list,
            "Followers whose replication is throttled.",
        ),
        ("index.interval.bytes", ConfigType.INT, "4096", _number(0, _INT32_MAX), "Bytes between two index entries."),
        (
            "leader.replication.throttled.replicas",
            ConfigType.LIST,
            "",
            _replica_list,
            "Leaders whose replication is throttled.",
        ),
        ("local.retention.bytes", ConfigType.LONG, "-2", _number(-2, _INT64_MAX), "Bytes kept beside a remote copy."),
        ("local.retention.ms", ConfigType.LONG, "-2", _number(-2, _INT64_MAX), "Time kept beside a remote copy."),
        ("max.compaction.lag.ms", ConfigType.LONG, str(_INT64_MAX), _number(1, _INT64_MAX), "Latest compaction."),
        ("max.message.bytes", ConfigType.INT, "1048588", _number(0, _INT32_MAX), "Largest record batch."),
        (
            "message.timestamp.after.max.ms",
            ConfigType.LONG,
            "3600000",
            _number(0, _INT64_MAX),
            "How far a record's timestamp may lie in the future.",
        ),
        (
            "message.timestamp.before.max.ms",
            ConfigType.LONG,
            str(_INT64_MAX),
            _number(0, _INT64_MAX),
            "How far a record's timestamp may lie in the past.",
        ),
        (
            "message.timestamp.type",
            ConfigType.STRING,
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            "Whose clock makes the timestamps: the producer's or the broker's.",
        ),
        ("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", _ratio, "Uncompacted share that starts compaction."),
        ("min.compaction.lag.ms", ConfigType.LONG, "0", _number(0, _INT64_MAX), "Earliest compaction."),
        ("min.insync.replicas", ConfigType.INT, "1", _number(1, _INT32_MAX), "Replicas that acks=all waits for."),
        ("preallocate", ConfigType.BOOLEAN, "false", _boolean, "Whether files get their size at once."),
        (
            "remote.log.copy.disable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether nothing is copied to remote storage.",
        ),
        (
            "remote.log.delete.on.disable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether remote data goes with remote storage.",
        ),
        ("remote.storage.enable", ConfigType.BOOLEAN, "false", _boolean, "Whether segments are copied away."),
        ("retention.bytes", ConfigType.LONG, "-1", _number(-2, _INT64_MAX), "Bytes that a partition keeps."),
        ("retention.ms", ConfigType.LONG, str(_WEEK_MS), _number(-1, _INT64_MAX), "Time that records are kept."),
        ("segment.bytes", ConfigType.INT, str(2**30), _number(2**20, _INT32_MAX), "Largest segment."),
        ("segment.index.bytes", ConfigType.INT, str(10 * 2**20), _number(4, _INT32_MAX), "Largest index."),
        ("segment.jitter.ms", ConfigType.LONG, "0", _number(0, _INT64_MAX), "Spread of rolling by time."),
        ("segment.ms", ConfigType.LONG, str(_WEEK_MS), _number(1, _INT64_MAX), "Age at which a segment is rolled."),
        (
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether a replica that lags may lead.",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a partition's log goes by; the attributes are topic configurations, units as there."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    flush_messages: int
    flush_ms: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    is_log_append_time: bool
    is_compacted: bool


def log_config(overrides: Mapping[str, str]) -> LogConfig:
    """Return the settings of a topic's logs.

    Args:
        overrides: topic configurations that differ from the defaults, already checked.
    """

    def text(name: str) -> str:
        return overrides.get(name, TOPIC_CONFIGS[name].default)

    return LogConfig(
        segment_bytes=int(text("segment.bytes")),
        segment_ms=int(text("segment.ms")),
        segment_index_bytes=int(text("segment.index.bytes")),
        index_interval_bytes=int(text("index.interval.bytes")),
        max_message_bytes=int(text("max.message.bytes")),
        flush_messages=int(text("flush.messages")),
        flush_ms=int(text("flush.ms")),
        timestamp_before_max_ms=int(text("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=int(text("message.timestamp.after.max.ms")),
        is_log_append_time=text("message.timestamp.type") == "LogAppendTime",
        is_compacted="compact" in text("cleanup.policy"),
    )


def check_topic_config(name: str, value: str | None) -> str:
    """Return the value of a topic configuration.

    Raises:
        InvalidConfig: the name is unknown or the value is refused.
    """
    if name not in TOPIC_CONFIGS:
        near = difflib.get_close_matches(name, TOPIC_CONFIGS, n=1)
        raise InvalidConfig(f"Unknown topic config name: {name}" + (f"; did you mean {near[0]}?" if near else ""))
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    try:
        TOPIC_CONFIGS[name].check(value)
    except ValueError as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from None
    return value
