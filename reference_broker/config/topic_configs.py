"""Topic configurations: their checks, and the log configuration that results from them.

Names, types, defaults and ranges are in `schemas/configs.yaml`.

Source: `LogConfig` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkawire.reference_broker.config.config_values import (
    InvalidConfig,
    check_value,
    entries_of,
    parse_decimal,
    parse_integer,
    trimmed,
)
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.protocol.tables.configs import TOPIC_CONFIGS
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records.produced import ProduceLimits

__all__ = ["NEVER_MS", "LogConfig", "check_config_name", "check_together", "check_topic_config", "log_config"]

#: The default of `flush.ms`: never.
NEVER_MS: Final = 2**63 - 1

_REMOTE_STORAGE = "remote.storage.enable"

#: The values of `compression.type` except `producer`.
_COMPRESSIONS = {"uncompressed": Compression.NONE} | {
    codec.name.lower(): codec for codec in Compression if codec is not Compression.NONE
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configuration of a partition's log; the attributes are topic configurations, in the same units.

    `produce_limits` combines the limits against which produced batches are checked. If `compression` is None, batches
    keep their producer's compression; if `compression_level` is None, the codec's default level is used. Old segments
    are deleted if `has_retention`; -1 means no limit. The `segment_ms` of a compacted topic is at most
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
    min_insync_replicas: int


def log_config(overrides: Mapping[str, str]) -> LogConfig:
    """Return the configuration of a topic's logs.

    Args:
        overrides: topic configurations that differ from the defaults, already checked.
    """

    def text(name: str) -> str:
        return trimmed(overrides.get(name, TOPIC_CONFIGS[name].default or ""))

    def number(name: str) -> int:
        return _integer(text(name))

    kind = text("compression.type")
    compression = _COMPRESSIONS.get(kind)
    level = f"compression.{kind}.level"
    policies = entries_of(text("cleanup.policy"))
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
        min_insync_replicas=number("min.insync.replicas"),
    )


def check_config_name(name: str) -> None:
    """Check that a topic has a configuration with this name.

    Raises:
        InvalidConfig: the name is unknown.
    """
    if name not in TOPIC_CONFIGS:
        raise InvalidConfig(f"Unknown topic config name: {name}{did_you_mean(name, TOPIC_CONFIGS)}")


def check_topic_config(name: str, value: str | None) -> str:
    """Check a topic configuration and return its value.

    Raises:
        InvalidConfig: the name is unknown, or the value is refused.
    """
    check_config_name(name)
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    check_value(TOPIC_CONFIGS[name], value)
    if name == _REMOTE_STORAGE and trimmed(value).lower() == "true":
        reason = "Tiered Storage functionality is disabled in the broker."
        raise InvalidConfig(f"{reason} Topic cannot be configured with remote log storage.")
    return value


def check_together(configs: Mapping[str, str]) -> None:
    """Check the values of a topic against each other.

    Args:
        configs: the topic's own values and, for the rest, the broker's defaults, each already checked.

    Raises:
        InvalidConfig: two values conflict.
    """
    low, high = (
        _integer(trimmed(configs.get(name, TOPIC_CONFIGS[name].default or "")))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if low > high:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _integer(text: str) -> int:
    """Return a number that has already been checked.

    Raises:
        InvalidConfig: the number has not been checked, for example because the file is damaged.
    """
    number = parse_integer(text)
    if number is None:
        raise InvalidConfig(f"expected a number, got {text!r:.60}")
    return number


def _decimal(text: str) -> float:
    number = parse_decimal(text)
    if number is None:
        raise InvalidConfig(f"expected a number, got {text!r:.60}")
    return number
