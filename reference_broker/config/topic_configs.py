"""The topic configurations: names, types, defaults, and the values that are refused.

One table serves CreateTopics (validation), DescribeConfigs (types and descriptions) and the log (`LogConfig`).

Source: Kafka's documentation, "Topic Configs"; `TopicConfig` and `LogConfig` in Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final, NamedTuple

from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.protocol.tables.enums import ConfigType
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records.java_integers import INT32_MAX
from kafkawire.sdk.records.produced import ProduceLimits

__all__ = [
    "NEVER_MS",
    "TOPIC_CONFIGS",
    "InvalidConfig",
    "LogConfig",
    "TopicConfig",
    "check_together",
    "check_topic_config",
    "log_config",
]

_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)

#: The default of `flush.ms`: never.
NEVER_MS: Final = _INT64_MAX

# What Java reads as numbers: digits of any script in integers, no underscores, and spaces only around them.
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:NaN|Infinity))[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")

#: What Java's `trim` removes.
_SPACES = "".join(map(chr, range(ord(" ") + 1)))


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
        return self.check.allowed if isinstance(self.check, _OneOf | _SomeOf) else ()


def _integer(value: str) -> int:
    text = value.strip(_SPACES)
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("not a number")
    return int(text)


def _number(low: int, high: int, *more: int) -> Callable[[str], None]:
    """Check for a number in a range, or one of some more."""

    def check(value: str) -> None:
        number = _integer(value)
        if not low <= number <= high and number not in more:
            raise ValueError(f"must be {low} to {high}" + "".join(f" or {other}" for other in more))

    return check


def _decimal(value: str) -> float:
    text = value.strip(_SPACES)
    if match := _DECIMAL.fullmatch(text):
        return float(match[1])
    if match := _HEXADECIMAL.fullmatch(text):
        return float.fromhex(match[1])
    raise ValueError("not a number")


def _ratio(value: str) -> None:
    number = _decimal(value)
    # NaN is neither, and Kafka takes it.
    if number < 0 or number > 1:
        raise ValueError("must be 0 to 1")


def _boolean(value: str) -> None:
    if value.strip(_SPACES).lower() not in ("true", "false"):
        raise ValueError("must be true or false")


class _OneOf:
    """Checks that a value is one of a few."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, value: str) -> None:
        if value.strip(_SPACES) not in self.allowed:
            raise ValueError(f"must be one of {', '.join(self.allowed)}")


def _parts(value: str) -> list[str]:
    text = value.strip(_SPACES)
    return re.split(r"\s*,\s*", text) if text else []


class _SomeOf:
    """Checks that each part of a value is one of a few."""

    def __init__(self, *allowed: str) -> None:
        self._parts = allowed
        counts = range(1, len(allowed) + 1)
        self.allowed = tuple(",".join(parts) for count in counts for parts in permutations(allowed, count))

    def __call__(self, value: str) -> None:
        if any(part not in self._parts for part in _parts(value)):
            raise ValueError(f"entries must be one of {', '.join(self._parts)}")


def _replica_list(value: str) -> None:
    parts = _parts(value)
    if "".join(parts) != "*" and any(re.fullmatch(r"(?:[0-9]+:[0-9]+)?", part) is None for part in parts):
        raise ValueError("must be * or partition:broker,partition:broker")


def _disabled(value: str) -> None:
    _boolean(value)
    if value.strip(_SPACES).lower() == "true":
        raise ValueError("this broker has no remote storage")


_WEEK_MS = 7 * 24 * 3600 * 1000

#: Every topic configuration of Apache Kafka 4.3, by name.
TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    name: TopicConfig(name, kind, default, check, about)
    for name, kind, default, check, about in (
        ("cleanup.policy", ConfigType.LIST, "delete", _SomeOf("delete", "compact"), "How old records are removed."),
        (
            "compression.type",
            ConfigType.STRING,
            "producer",
            _OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "How batches are compressed; producer keeps the producer's compression.",
        ),
        ("compression.gzip.level", ConfigType.INT, "-1", _number(1, 9, -1), "Level of gzip."),
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
            "How long the files of removed segments are kept.",
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
        ("index.interval.bytes", ConfigType.INT, "4096", _number(0, INT32_MAX), "Bytes between two index entries."),
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
        ("max.message.bytes", ConfigType.INT, "1048588", _number(0, INT32_MAX), "Largest record batch."),
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
        ("min.insync.replicas", ConfigType.INT, "1", _number(1, INT32_MAX), "Replicas that acks=all waits for."),
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
            _disabled,
            "Whether segments are copied to remote storage.",
        ),
        ("retention.bytes", ConfigType.LONG, "-1", _number(_INT64_MIN, _INT64_MAX), "Bytes kept per partition."),
        ("retention.ms", ConfigType.LONG, str(_WEEK_MS), _number(-1, _INT64_MAX), "How long records are kept."),
        ("segment.bytes", ConfigType.INT, str(2**30), _number(2**20, INT32_MAX), "Largest segment."),
        ("segment.index.bytes", ConfigType.INT, str(10 * 2**20), _number(4, INT32_MAX), "Largest index."),
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


#: The values of `compression.type` but `producer`.
_COMPRESSIONS = {"uncompressed": Compression.NONE} | {
    codec.name.lower(): codec for codec in Compression if codec is not Compression.NONE
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configuration of a partition's log; the attributes are topic configurations, in the same units.

    Those by which produced batches are checked are together in `produce_limits`. Batches keep their producer's
    compression if `compression` is None, and have the codec's own level if `compression_level` is. Old segments are
    deleted if `has_retention`; -1 stands for no limit. A compacted topic has a `segment_ms` of at most
    `max_compaction_lag_ms`, since the last segment is never compacted.
    """

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int
    flush_ms: int
    is_log_append_time: bool
    produce_limits: ProduceLimits
    has_retention: bool
    retention_ms: int
    retention_bytes: int
    file_delete_delay_ms: int
    is_compacted: bool
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    delete_retention_ms: int
    compression: Compression | None
    compression_level: int | None


def log_config(overrides: Mapping[str, str]) -> LogConfig:
    """Return the configuration of a topic's logs.

    Args:
        overrides: topic configurations that differ from the defaults, checked before.
    """

    def text(name: str) -> str:
        return overrides.get(name, TOPIC_CONFIGS[name].default).strip(_SPACES)

    def number(name: str) -> int:
        return _integer(text(name))

    kind = text("compression.type")
    compression = _COMPRESSIONS.get(kind)
    level = f"compression.{kind}.level"
    policies = _parts(text("cleanup.policy"))
    is_compacted = "compact" in policies
    is_log_append_time = text("message.timestamp.type") == "LogAppendTime"
    segment_ms = number("segment.ms")
    if is_compacted:
        segment_ms = min(segment_ms, number("max.compaction.lag.ms"))
    return LogConfig(
        segment_bytes=number("segment.bytes"),
        segment_ms=segment_ms,
        segment_jitter_ms=min(number("segment.jitter.ms"), segment_ms),
        segment_index_bytes=number("segment.index.bytes"),
        index_interval_bytes=number("index.interval.bytes"),
        flush_messages=number("flush.messages"),
        flush_ms=number("flush.ms"),
        is_log_append_time=is_log_append_time,
        produce_limits=ProduceLimits(
            max_bytes=number("max.message.bytes"),
            needs_keys=is_compacted,
            is_append_time=is_log_append_time,
            before_max_ms=number("message.timestamp.before.max.ms"),
            after_max_ms=number("message.timestamp.after.max.ms"),
        ),
        has_retention="delete" in policies,
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        is_compacted=is_compacted,
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        min_cleanable_dirty_ratio=_decimal(text("min.cleanable.dirty.ratio")),
        delete_retention_ms=number("delete.retention.ms"),
        compression=compression,
        compression_level=None if level not in TOPIC_CONFIGS else int(text(level)),
    )


def check_topic_config(name: str, value: str | None) -> str:
    """Check a topic configuration and return its value.

    Raises:
        InvalidConfig: the name is unknown or the value is refused.
    """
    if name not in TOPIC_CONFIGS:
        raise InvalidConfig(f"Unknown topic config name: {name}{did_you_mean(name, TOPIC_CONFIGS)}")
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    try:
        TOPIC_CONFIGS[name].check(value)
    except ValueError as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from None
    return value


def check_together(configs: Mapping[str, str]) -> None:
    """Check the values of a topic against each other.

    Args:
        configs: its own ones over the broker's defaults, each of them checked before.

    Raises:
        InvalidConfig: two contradict each other.
    """
    low, high = (
        _integer(configs.get(name, TOPIC_CONFIGS[name].default))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
