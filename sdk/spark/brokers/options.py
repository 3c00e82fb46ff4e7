"""The data source's options, which are those of Spark's Kafka connector: names, defaults and conflicts.

Source: `KafkaSourceProvider` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX
from kafkawire.sdk.spark import schema
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.damage import Mode, parse_mode
from kafkawire.sdk.spark.isolation import parse_committed_only
from kafkawire.sdk.spark.option_values import (
    CLIENT_PREFIX,
    OptionTable,
    one_of,
    parse_columns,
    parse_duration,
    parse_flag,
    parse_number,
    parse_time,
    parse_topics,
    split_client_options,
    warn_of_streams,
)
from kafkawire.sdk.spark.selection import (
    EARLIEST,
    LATEST,
    Bound,
    Offsets,
    Selection,
    Times,
    check_not_empty,
    parse_offsets,
    parse_partitions,
    parse_pattern,
    parse_times,
    place_text,
)

__all__ = ["TRIGGER_DELAY_MS", "WireOptions", "parse_options"]

#: How long a micro-batch waits by default for its minimum number of offsets, as in the connector.
TRIGGER_DELAY_MS: Final = 15 * 60_000

#: How many times the driver tries to look up where partitions begin and end.
_ATTEMPTS_MAX = 1000


class WireOptions(NamedTuple):
    """The options given by a user.

    Attributes:
        client: the client options.
        selection: the selected partitions.
        starting: where to begin; None if unset.
        ending: where to end; None if unset.
        takes_latest: whether a partition is read from its end if it has no record at or after the starting time.
        fails_on_loss: whether missing records are an error.
        columns: the columns to return if the user gives no schema.
        tasks_min: the approximate minimum number of tasks.
        task_records_max: the maximum number of records per task, as a number of offsets.
        trigger_offsets_max: the maximum number of offsets per micro-batch.
        trigger_offsets_min: the number of offsets for which a micro-batch waits, but no longer than
            `trigger_delay_max_ms`.
        trigger_delay_max_ms: the maximum time to wait for them; None for `TRIGGER_DELAY_MS`.
        poll_timeout_ms: how long a task waits for the next record.
        attempts: how many times the driver asks for offsets before giving up.
        retry_interval_ms: the time between two attempts.
    """

    client: ClientSettings
    selection: Selection
    starting: Bound | None = None
    ending: Bound | None = None
    takes_latest: bool = False
    fails_on_loss: bool = True
    columns: tuple[str, ...] = schema.CONNECTOR
    tasks_min: int | None = None
    task_records_max: int | None = None
    trigger_offsets_max: int | None = None
    trigger_offsets_min: int | None = None
    trigger_delay_max_ms: int | None = None
    poll_timeout_ms: int = 120_000
    attempts: int = 3
    retry_interval_ms: int = 1000

    def check_batch(self) -> None:
        """Refuse options that only streams support, and warn about options that only streams use.

        Raises:
            ConfigurationError: the query begins at the latest offset, or ends at the earliest.
        """
        for bound, end in ((self.starting, LATEST), (self.ending, EARLIEST)):
            if bound is not None and isinstance(bound.place, Offsets):
                check_not_empty(bound.option, bound.place, end)
        warn_of_streams(
            {
                "maxOffsetsPerTrigger": self.trigger_offsets_max,
                "minOffsetsPerTrigger": self.trigger_offsets_min,
                "maxTriggerDelay": self.trigger_delay_max_ms,
            }
        )

    def check_stream(self) -> None:
        """Refuse options that streams do not support.

        Raises:
            ConfigurationError: the options set an end.
        """
        if self.ending is not None:
            raise ConfigurationError(
                self.ending.option, place_text(self.ending.place), "only batch queries support this option"
            )


def parse_options(given: Mapping[str, str]) -> WireOptions:
    """Parse options from text.

    Args:
        given: values by names in any case.

    Raises:
        ConfigurationError: an option is unknown or missing, its value is refused, or two options conflict.
    """
    client, own = split_client_options(given)
    values = _OPTIONS.read(own)
    _take_isolation(client, values)
    settings = ClientSettings(client)
    if one_of(values, own, _TOPICS) is None:
        raise ConfigurationError("subscribe", None, f"one of {', '.join(_TOPICS)} is required")
    if values.get("assign") == frozenset():
        raise ConfigurationError("assign", "{}", "expected at least one partition")
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigurationError("minOffsetsPerTrigger", least, f"expected at most maxOffsetsPerTrigger={most}")
    fields: dict[str, Any] = {field: values[name] for name, field in _FIELDS.items() if name in values}
    return WireOptions(
        client=settings,
        selection=Selection(values.get("subscribe"), values.get("subscribePattern"), values.get("assign")),
        starting=_bound(values, _STARTING),
        ending=_bound(values, _ENDING),
        columns=schema.chosen(headers=values.get("includeHeaders", False), extra=values.get("extra", ())),
        **fields,
    )


def _take_isolation(client: dict[str, str], values: Mapping[str, Any]) -> None:
    """Move the isolation level to the client options."""
    if "isolationLevel" not in values:
        return
    level = "read_committed" if values["isolationLevel"] else "read_uncommitted"
    for name in ("isolation.level", "isolation_level"):
        if client.pop(name, level) != level:
            raise ConfigurationError(
                "isolationLevel", level, f"{CLIENT_PREFIX}{name} is also given, with a different value"
            )
    client["isolation.level"] = level


def _bound(values: Mapping[str, Any], names: tuple[str, ...]) -> Bound | None:
    """Return where to begin or end; if several options are given, the first one applies, as in the connector."""
    for name in names:
        if name in values:
            place = values[name]
            return Bound(name, Times(place) if isinstance(place, int) else place)
    return None


def _extra(option: str, text: str) -> tuple[str, ...]:
    names = parse_columns(option, text)
    if of_files := [name for name in names if name in schema.OF_FILES]:
        raise ConfigurationError(option, text, f"{of_files[0]} is only available when files are read")
    return names


def _strategy(option: str, text: str) -> bool:
    if text.lower() not in ("error", "latest"):
        raise ConfigurationError(option, text, "expected error or latest")
    return text.lower() == "latest"


def _mode(option: str, text: str) -> Mode:
    mode = parse_mode(text)
    if mode is not Mode.FAILFAST:
        reason = (
            "a consumer cannot continue after a damaged batch, whose end is unknown; expected FAILFAST. "
            "The format kafka_segments reads the rest from the broker's files"
        )
        raise ConfigurationError(option, text, reason)
    return mode


#: Alternatives: either only one may be given, or the first one applies.
_TOPICS: Final = ("subscribe", "subscribePattern", "assign")
_STARTING: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")

#: Options that are used unchanged.
_FIELDS: Final = {
    "startingOffsetsByTimestampStrategy": "takes_latest",
    "failOnDataLoss": "fails_on_loss",
    "minPartitions": "tasks_min",
    "maxRecordsPerPartition": "task_records_max",
    "maxOffsetsPerTrigger": "trigger_offsets_max",
    "minOffsetsPerTrigger": "trigger_offsets_min",
    "maxTriggerDelay": "trigger_delay_max_ms",
    "kafkaConsumer.pollTimeoutMs": "poll_timeout_ms",
    "fetchOffset.numRetries": "attempts",
    "fetchOffset.retryIntervalMs": "retry_interval_ms",
}

_OPTIONS: Final = OptionTable(
    {
        "subscribe": parse_topics,
        "subscribePattern": parse_pattern,
        "assign": parse_partitions,
        "startingOffsets": lambda option, text: parse_offsets(option, text, EARLIEST),
        "endingOffsets": lambda option, text: parse_offsets(option, text, LATEST),
        "startingTimestamp": parse_time,
        "endingTimestamp": parse_time,
        "startingOffsetsByTimestamp": parse_times,
        "endingOffsetsByTimestamp": parse_times,
        "startingOffsetsByTimestampStrategy": _strategy,
        "failOnDataLoss": parse_flag,
        "minPartitions": parse_number(1, INT32_MAX),
        "maxRecordsPerPartition": parse_number(1),
        "maxOffsetsPerTrigger": parse_number(1),
        "minOffsetsPerTrigger": parse_number(1),
        "maxTriggerDelay": parse_duration,
        "includeHeaders": parse_flag,
        "extra": _extra,
        "mode": _mode,
        "isolationLevel": parse_committed_only,
        "groupIdPrefix": lambda option, text: text,
        "kafkaConsumer.pollTimeoutMs": parse_number(1),
        "fetchOffset.numRetries": parse_number(1, _ATTEMPTS_MAX),
        "fetchOffset.retryIntervalMs": parse_number(0, INT32_MAX),
    },
    clients=ConsumerOptions,
    advice=dict.fromkeys(("topic", "topics", "path"), "use subscribe to select topics"),
    hint=f"; client options begin with {CLIENT_PREFIX}, as in {CLIENT_PREFIX}bootstrap.servers",
)
