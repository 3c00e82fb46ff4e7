"""The topic configurations: names, types, defaults, and the values that are refused.

One table serves CreateTopics (validation), DescribeConfigs (types and descriptions) and the log (`LogConfig`).
Configurations that have no effect yet (retention, compaction) are stored and shown.

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
        type: the type of the value.
        default: as text.
        check: raises ValueError for an invalid value; the text says what is allowed.
        about: what it does.
    """

    name: str
    type: ConfigType
    default: str
    check: Callable[[str], None]
    about: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from, empty if they cannot be listed."""
        return self.check.allowed if isinstance(self.check, _OneOf) else ()


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


class _OneOf:
    """Checks that a value is one of a few."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, value: str) -> None:
        if value not in self.allowed:
            raise ValueError(f"must be one of {', '.join(self.allowed)}")


def _list_of(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        for part in filter(None, (part.strip() for part in value.split(","))):
            if part not in allowed:
                raise ValueError(f"entries must be one of {', '.join(allowed)}")

    return check


def _replica_list(value: str) -> None:
    if value not in ("", "*") and not all(part.count(":") == 1 for part in value.split(",")):
        raise ValueError("must be * or partition:broker,partition:broker")


_boolean = _OneOf("true", "false")
_WEEK_MS = 7 * 24 * 3600 * 1000

#: Every topic configuration of Apache Kafka 4.3, by name.
TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    name: TopicConfig(name, kind, default, check, about)
    for name, kind, default, check, about in (
        ("cleanup.policy", ConfigType.LIST, "delete", _list_of("delete", "compact"), "How old records are removed."),
        (
            "compression.type",
            ConfigType.STRING,
            "producer",
            _OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "How batches are compressed; producer keeps the producer's compression.",
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
        (
            "file.delete.delay.ms",
            ConfigType.LONG,
            "60000",
            _number(0, _INT64_MAX),
            "Delay before the files of deleted logs are removed.",
        ),
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
        (
            "local.retention.bytes",
            ConfigType.LONG,
            "-2",
            _number(-2, _INT64_MAX),
            "Bytes kept locally after copying to remote storage.",
        ),
        (
            "local.retention.ms",
            ConfigType.LONG,
            "-2",
            _number(-2, _INT64_MAX),
            "Time kept locally after copying to remote storage.",
        ),
        (
            "max.compaction.lag.ms",
            ConfigType.LONG,
            str(_INT64_MAX),
            _number(1, _INT64_MAX),
            "Longest time before compaction.",
        ),
        ("max.message.bytes", ConfigType.INT, "1048588", _number(0, _INT32_MAX), "Largest record batch."),
        (
            "message.timestamp.after.max.ms",
            ConfigType.LONG,
            "3600000",
            _number(0, _INT64_MAX),
            "How far a record's timestamp may be in the future.",
        ),
        (
            "message.timestamp.before.max.ms",
            ConfigType.LONG,
            str(_INT64_MAX),
            _number(0, _INT64_MAX),
            "How far a record's timestamp may be in the past.",
        ),
        (
            "message.timestamp.type",
            ConfigType.STRING,
            "CreateTime",
            _OneOf("CreateTime", "LogAppendTime"),
            "Whose clock sets the timestamps: the producer's or the broker's.",
        ),
        (
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            "0.5",
            _ratio,
            "Uncompacted fraction of the log that triggers compaction.",
        ),
        ("min.compaction.lag.ms", ConfigType.LONG, "0", _number(0, _INT64_MAX), "Shortest time before compaction."),
        ("min.insync.replicas", ConfigType.INT, "1", _number(1, _INT32_MAX), "Replicas that acks=all waits for."),
        ("preallocate", ConfigType.BOOLEAN, "false", _boolean, "Whether files are preallocated."),
        (
            "remote.log.copy.disable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether copying to remote storage is disabled.",
        ),
        (
            "remote.log.delete.on.disable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether disabling remote storage deletes remote data.",
        ),
        (
            "remote.storage.enable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether segments are copied to remote storage.",
        ),
        ("retention.bytes", ConfigType.LONG, "-1", _number(-2, _INT64_MAX), "Bytes kept per partition."),
        ("retention.ms", ConfigType.LONG, str(_WEEK_MS), _number(-1, _INT64_MAX), "How long records are kept."),
        ("segment.bytes", ConfigType.INT, str(2**30), _number(2**20, _INT32_MAX), "Largest segment."),
        ("segment.index.bytes", ConfigType.INT, str(10 * 2**20), _number(4, _INT32_MAX), "Largest index."),
        ("segment.jitter.ms", ConfigType.LONG, "0", _number(0, _INT64_MAX), "Random jitter of rolling by age."),
        ("segment.ms", ConfigType.LONG, str(_WEEK_MS), _number(1, _INT64_MAX), "Age at which a segment is rolled."),
        (
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            "false",
            _boolean,
            "Whether an out-of-sync replica may become leader.",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configuration of a partition's log; the attributes are topic configurations, in the same units."""

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
    """Return the configuration of a topic's logs.

    Args:
        overrides: topic configurations that differ from the defaults, checked before.
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
    """Check a topic configuration and return its value.

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
