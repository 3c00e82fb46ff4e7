"""The data source's options. Those that Spark's Kafka connector also has have the same names and meanings.

Source: `KafkaSourceProvider` in Apache Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from numbers import Number
from os import PathLike
from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark import schema
from kafkawire.sdk.spark.damage import Mode, parse_mode
from kafkawire.sdk.spark.isolation import parse_committed_only
from kafkawire.sdk.spark.option_values import (
    CLIENT_PREFIX,
    OptionTable,
    one_of,
    parse_columns,
    parse_flag,
    parse_number,
    parse_size,
    parse_time,
    parse_topics,
    there_are,
    warn_of_streams,
)
from kafkawire.sdk.spark.segments.files import FOLDER_PATTERN, FoundSegment
from kafkawire.sdk.spark.segments.plan import SPLIT_BYTES, Wanted
from kafkawire.sdk.spark.selection import (
    EARLIEST,
    LATEST,
    Bound,
    Offsets,
    Selection,
    check_not_empty,
    check_order,
    parse_offsets,
    parse_partitions,
    parse_pattern,
    place_text,
)

__all__ = ["SPLIT_BYTES_MIN", "SegmentOptions", "option_texts", "parse_options", "shown_paths"]

#: Matches a comma between paths: one that is not followed by a closing brace without an opening brace in between.
_COMMA: Final = re.compile(r",(?![^{}]*\})")

#: Smaller parts would take longer to start than to read, and each part stores the starting positions of all other parts
#: of its segment.
SPLIT_BYTES_MIN: Final = 1024 * 1024


class SegmentOptions(NamedTuple):
    """The options given by a user.

    Attributes:
        paths: the paths of the segments.
        path_pattern: a regular expression for the path of a segment.
        selection: the selected partitions.
        starting_offsets: the offset at which to begin in each partition; None if unset.
        ending_offsets: the offset at which to end in each partition.
        starting_timestamp_ms: earlier records are omitted.
        ending_timestamp_ms: records from this time onward are omitted.
        split_bytes: the size in bytes of the part that a task reads.
        columns: the columns to return if the user gives no schema.
        mode: how damage is handled.
        is_committed_only: whether to omit records of transactions that were aborted or have not ended.
        decompressed_bytes_max: the maximum size of a batch's records after decompression, in bytes.
        pushdown: whether Spark passes its filters to the data source.
        trigger_bytes_max: the maximum number of bytes per micro-batch.
        trigger_offsets_max: the maximum number of offsets per micro-batch.
        fails_on_loss: whether missing records are an error; None to let the mode decide.
        topics_option: the option that names the topics, for error messages.
    """

    paths: tuple[str, ...]
    path_pattern: str = FOLDER_PATTERN
    selection: Selection = Selection()
    starting_offsets: Offsets | None = None
    ending_offsets: Offsets | None = None
    starting_timestamp_ms: int | None = None
    ending_timestamp_ms: int | None = None
    split_bytes: int = SPLIT_BYTES
    columns: tuple[str, ...] = schema.CONNECTOR
    mode: Mode = Mode.FAILFAST
    is_committed_only: bool = False
    decompressed_bytes_max: int = MAX_DECOMPRESSED_BYTES
    pushdown: bool = False
    trigger_bytes_max: int | None = None
    trigger_offsets_max: int | None = None
    fails_on_loss: bool | None = None
    topics_option: str = "topics"

    @property
    def fails_batch_on_loss(self) -> bool:
        """Whether missing records are an error for a batch query."""
        return self.mode is Mode.FAILFAST if self.fails_on_loss is None else self.fails_on_loss

    def wanted(self, segment: FoundSegment) -> Wanted | None:
        """Return the records that a batch query wants from a segment's partition; None for none."""
        if not self.selection.has(segment.folder):
            return None
        start = EARLIEST if self.starting_offsets is None else self.starting_offsets.of(segment.folder)
        end = LATEST if self.ending_offsets is None else self.ending_offsets.of(segment.folder)
        return Wanted(
            max(start, 0), None if end == LATEST else end, self.starting_timestamp_ms, self.ending_timestamp_ms
        )

    def check_batch(self) -> None:
        """Refuse options that only streams support, and warn about options that only streams use.

        Raises:
            ConfigurationError: the query begins at the latest offset or ends at the earliest; or the offsets name a
                partition that is not selected, or begin after their end.
        """
        starts, ends = self.starting_offsets or Offsets(EARLIEST), self.ending_offsets or Offsets(LATEST)
        for option, offsets, end in (("startingOffsets", starts, LATEST), ("endingOffsets", ends, EARLIEST)):
            check_not_empty(option, offsets, end)
            self._check_selected(option, offsets)
        starting, ending = Bound("startingOffsets", starts), Bound("endingOffsets", ends)
        for partition in sorted(starts.named.keys() & ends.named.keys()):
            if ends.of(partition) != LATEST:
                check_order(starting, ending, partition, starts.of(partition), ends.of(partition))
        warn_of_streams(
            {"maxBytesPerTrigger": self.trigger_bytes_max, "maxOffsetsPerTrigger": self.trigger_offsets_max}
        )

    def check_new_stream(self) -> None:
        """Refuse offsets for partitions that a new stream can never have; other partitions may be added later.

        Raises:
            ConfigurationError: there are offsets for such a partition.
        """
        if self.starting_offsets is not None:
            self._check_selected("startingOffsets", self.starting_offsets)

    def _check_selected(self, option: str, offsets: Offsets) -> None:
        """Refuse offsets for partitions that are not selected, for example because a topic name is mistyped."""
        if others := [partition for partition in offsets.named if not self.selection.has(partition)]:
            selecting = "subscribePattern" if self.selection.pattern is not None else self.topics_option
            if self.selection.partitions is not None:
                selecting = "assign"
            shown = ", ".join(map(str, sorted(others)))
            raise ConfigurationError(option, shown, f"expected only partitions that {selecting} selects")

    def check_without_columns(self) -> None:
        """Refuse extra columns if no record columns are read, as is the case for rows that describe batches.

        Raises:
            ConfigurationError: headers or extra columns are requested.
        """
        if schema.HEADERS in self.columns:
            raise ConfigurationError("includeHeaders", "true", "only supported when records are read")
        if extra := [name for name in self.columns if name in schema.EXTRAS]:
            raise ConfigurationError("extra", ", ".join(extra), "only supported when records are read")

    def check_there(self, segments: Iterable[FoundSegment]) -> None:
        """Refuse named topics or partitions that do not exist; a pattern may match nothing.

        Args:
            segments: all segments found.

        Raises:
            ConfigurationError: a named topic or partition has no segment.
        """
        self.check_partitions({segment.folder for segment in segments})

    @property
    def has_names(self) -> bool:
        """Whether topics or partitions are named and must exist."""
        return self.selection.topics is not None or self.selection.partitions is not None

    def check_partitions(self, there: Collection[TopicPartition]) -> None:
        """Refuse named topics or partitions that do not exist; see `check_there`.

        Args:
            there: all partitions with a segment.

        Raises:
            ConfigurationError: a named topic or partition has no segment.
        """
        topics = {folder.topic for folder in there}
        if missing := (self.selection.topics or frozenset()) - topics:
            raise ConfigurationError(self.topics_option, ", ".join(sorted(missing)), there_are(topics, asked=missing))
        if lacking := (self.selection.partitions or frozenset()) - set(there):
            near = {folder for folder in there if any(folder.topic == each.topic for each in lacking)}
            shown = ", ".join(map(str, sorted(lacking)))
            raise ConfigurationError("assign", shown, there_are(near or there, "partitions"))

    def check_mapped(self) -> None:
        """Refuse options that cannot be used with a function on Arrow batches.

        Raises:
            ConfigurationError: pushdown of filters is requested.
        """
        if self.pushdown:
            reason = "map_batches is given, and Spark would apply conditions on its result to the records that are read"
            raise ConfigurationError("pushdown", "true", reason)

    def check_stream(self) -> None:
        """Refuse options that streams do not support.

        Raises:
            ConfigurationError: the options set an end, pushdown of filters, or two limits.
        """
        for option, value in (
            ("endingOffsets", self.ending_offsets),
            ("endingTimestamp", self.ending_timestamp_ms),
            ("pushdown", self.pushdown or None),
        ):
            if value is not None:
                shown = place_text(value) if isinstance(value, Offsets) else value
                raise ConfigurationError(option, shown, "only batch queries support this option")
        if self.trigger_bytes_max is not None and self.trigger_offsets_max is not None:
            reason = "maxBytesPerTrigger is also given, and Spark accepts only one limit"
            raise ConfigurationError("maxOffsetsPerTrigger", self.trigger_offsets_max, reason)


def option_texts(
    path: str | PathLike[str] | Iterable[str | PathLike[str]], options: Mapping[str, object]
) -> dict[str, str]:
    """Return the path and the options in the form that Spark passes on.

    Args:
        path: folders or segments; pass several as a list, or as comma-separated text.
        options: numbers, booleans, lists and dictionaries are accepted as they are; None means not given.

    Raises:
        ConfigurationError: a path or an option has an unsupported type.
    """
    texts = {name: _text(name, value) for name, value in options.items() if value is not None}
    if twice := [name for name in texts if name.lower() in ("path", "paths")]:
        raise ConfigurationError(twice[0], texts[twice[0]], "paths are given separately: expected a list of them")
    if isinstance(path, str):
        return {"path": path, **texts}
    paths = list(path) if isinstance(path, Iterable) and not isinstance(path, PathLike | bytes) else [path]
    if wrong := [each for each in paths if not isinstance(each, str | PathLike)]:
        raise ConfigurationError("path", wrong[0], "expected text or a pathlib.Path")
    names = list(map(str, paths))
    if all(_paths("path", name) == (name,) for name in names):
        return {"path": ",".join(names), **texts}
    return {"paths": json.dumps(names), **texts}


def shown_paths(texts: Mapping[str, str]) -> str:
    """Return the paths in a result of `option_texts`, for display."""
    return texts["path"] if "path" in texts else ",".join(_path_list("paths", texts["paths"]))


def parse_options(given: Mapping[str, str]) -> SegmentOptions:
    """Parse options from text.

    Args:
        given: values by names in any case.

    Raises:
        ConfigurationError: an option is unknown, its value is refused, or two options conflict.
    """
    for name, text in given.items():
        if name.lower().startswith(CLIENT_PREFIX):
            raise ConfigurationError(name, text, "this format reads files; the format kafkawire reads from brokers")
    values = _OPTIONS.read(given)
    paths = (*values.get("path", ()), *values.get("paths", ()))
    if not paths:
        raise ConfigurationError("path", "", "a folder of segments is required: load(path)")
    selected_by = one_of(values, given, ("topics", "subscribe", "subscribePattern", "assign"))
    start, end = values.get("startingTimestamp"), values.get("endingTimestamp")
    if start is not None and end is not None and start > end:
        raise ConfigurationError("startingTimestamp", start, f"expected at most endingTimestamp={end}")
    mode = values.get("mode", Mode.FAILFAST)
    return SegmentOptions(
        paths=paths,
        path_pattern=values.get("pathPattern", FOLDER_PATTERN),
        selection=Selection(
            values.get("topics", values.get("subscribe")), values.get("subscribePattern"), values.get("assign")
        ),
        starting_offsets=values.get("startingOffsets"),
        ending_offsets=values.get("endingOffsets"),
        starting_timestamp_ms=start,
        ending_timestamp_ms=end,
        split_bytes=values.get("splitBytes", SPLIT_BYTES),
        columns=schema.chosen(
            headers=values.get("includeHeaders", False),
            extra=values.get("extra", ()),
            corrupt=mode is Mode.PERMISSIVE,
        ),
        mode=mode,
        is_committed_only=values.get("isolationLevel", False),
        decompressed_bytes_max=values.get("decompressedBytesMax", MAX_DECOMPRESSED_BYTES),
        pushdown=values.get("pushdown", False),
        trigger_bytes_max=values.get("maxBytesPerTrigger"),
        trigger_offsets_max=values.get("maxOffsetsPerTrigger"),
        fails_on_loss=values.get("failOnDataLoss"),
        topics_option="subscribe" if selected_by == "subscribe" else "topics",
    )


def _text(option: str, value: object) -> str:
    """Return the value of an option in the form that Spark accepts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Number):
        return str(value)
    try:
        if isinstance(value, Mapping):
            return json.dumps(dict(value), default=list)
        if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
            return ",".join(_text(option, each) for each in value)
    except TypeError as error:
        raise ConfigurationError(
            option, value, f"contains a value that is neither text nor a number: {error}"
        ) from None
    raise ConfigurationError(option, value, "expected text, a number, true or false, a list or a dictionary")


def _assigned(option: str, text: str) -> frozenset[TopicPartition]:
    """Return the partitions that JSON names; at least one is expected."""
    found = parse_partitions(option, text)
    if not found:
        raise ConfigurationError(
            option, text, 'expected JSON such as {"orders":[0,1]}, but the value lists no partition'
        )
    return found


def _paths(option: str, text: str) -> tuple[str, ...]:
    """Return comma-separated paths; commas between braces are part of a pattern."""
    return tuple(path for path in map(str.strip, _COMMA.split(text)) if path)


def _path_list(option: str, text: str) -> tuple[str, ...]:
    """Return the paths in a list that is in the form in which Spark passes it."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(path, str) and path for path in found):
        raise ConfigurationError(option, text, "expected a JSON list of paths")
    return tuple(found)


_OPTIONS: Final = OptionTable(
    {
        "path": _paths,
        "paths": _path_list,
        "pathPattern": parse_pattern,
        "topics": parse_topics,
        "subscribe": parse_topics,
        "subscribePattern": parse_pattern,
        "assign": _assigned,
        "startingOffsets": lambda option, text: parse_offsets(option, text, EARLIEST),
        "endingOffsets": lambda option, text: parse_offsets(option, text, LATEST),
        "startingTimestamp": parse_time,
        "endingTimestamp": parse_time,
        "splitBytes": parse_size(SPLIT_BYTES_MIN),
        "includeHeaders": parse_flag,
        "extra": parse_columns,
        "mode": lambda option, text: parse_mode(text),
        "isolationLevel": parse_committed_only,
        "decompressedBytesMax": parse_size(1),
        "pushdown": parse_flag,
        "maxBytesPerTrigger": parse_size(1),
        "maxOffsetsPerTrigger": parse_number(1),
        "failOnDataLoss": parse_flag,
    }
)
