"""The options of the data source: names as Spark writes them, in any case, and values as text.

What Spark's Kafka connector has, too, has its name and means the same. A name that nobody knows is refused, where Spark
would pass over it.

Source: `KafkaSourceProvider` in Apache Spark.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.spark import schema
from kafkawire.sdk.spark.damage import Mode, parse_mode
from kafkawire.sdk.spark.isolation import ISOLATION_LEVELS
from kafkawire.sdk.spark.segments.files import FOLDER_PATTERN, FoundSegment
from kafkawire.sdk.spark.segments.plan import SPLIT_BYTES, Wanted
from kafkawire.sdk.spark.segments.selection import (
    EARLIEST,
    LATEST,
    Offsets,
    Selection,
    parse_offsets,
    parse_partitions,
    parse_pattern,
)

__all__ = ["SPLIT_BYTES_MIN", "SegmentOptions", "option_texts", "parse_options"]

#: Smaller parts would cost more to start than to read, and each knows where all others of its segment begin.
SPLIT_BYTES_MIN: Final = 1024 * 1024

_INT64_MAX = 2**63 - 1
_SIZE = re.compile(r"([0-9]{1,19})\s*([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


class SegmentOptions(NamedTuple):
    """What a user asks for.

    Attributes:
        paths: where the segments are.
        path_pattern: of a segment's path.
        selection: which partitions.
        starting_offsets: where to begin in each; None if nothing is said.
        ending_offsets: where to end.
        starting_timestamp_ms: records before are left out.
        ending_timestamp_ms: records from then on are left out.
        split_bytes: of the part that a task reads.
        columns: that there are if nobody gives a schema.
        mode: what becomes of damage.
        is_committed_only: whether records of transactions that were aborted, or have not ended, are left out.
        decompressed_bytes_max: of the records of one batch.
        pushdown: whether Spark hands over its filters.
        trigger_bytes_max: for a micro-batch of a stream.
        trigger_offsets_max: likewise.
        fails_on_loss: whether it is an error that what is to be read is gone; None to decide by the mode.
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

    def wanted(self, segment: FoundSegment) -> Wanted | None:
        """Return what a batch query wants of a segment's partition; None for nothing."""
        if not self.selection.has(segment.folder):
            return None
        start = EARLIEST if self.starting_offsets is None else self.starting_offsets.of(segment.folder)
        end = LATEST if self.ending_offsets is None else self.ending_offsets.of(segment.folder)
        return Wanted(
            max(start, 0), None if end == LATEST else end, self.starting_timestamp_ms, self.ending_timestamp_ms
        )

    def check_batch(self) -> None:
        """Refuse what only a stream can do.

        Raises:
            ConfigurationError: records from the latest offset on, or up to the earliest, are asked for.
        """
        for option, offsets, refused in (
            ("startingOffsets", self.starting_offsets, LATEST),
            ("endingOffsets", self.ending_offsets, EARLIEST),
        ):
            if offsets is not None and refused in (offsets.others, *offsets.named.values()):
                name = "latest" if refused == LATEST else "earliest"
                raise ConfigurationError(option, name, "a query that is no stream would read nothing")

    def check_stream(self) -> None:
        """Refuse what a stream cannot do.

        Raises:
            ConfigurationError: it is to end somewhere, to push down filters, or to keep two limits.
        """
        for option, value in (
            ("endingOffsets", self.ending_offsets),
            ("endingTimestamp", self.ending_timestamp_ms),
            ("pushdown", self.pushdown or None),
        ):
            if value is not None:
                shown = "given" if isinstance(value, Offsets) else value
                raise ConfigurationError(option, shown, "only for a query that is no stream")
        if self.trigger_bytes_max is not None and self.trigger_offsets_max is not None:
            reason = "maxBytesPerTrigger is given, too, and Spark takes one limit"
            raise ConfigurationError("maxOffsetsPerTrigger", self.trigger_offsets_max, reason)


def option_texts(
    path: str | PathLike[str] | Iterable[str | PathLike[str]], options: Mapping[str, object]
) -> dict[str, str]:
    """Return path and options as Spark hands them over.

    Args:
        path: of folders or segments, or several of them.
        options: numbers, booleans, lists and dictionaries are taken as such.
    """
    paths = str(path) if isinstance(path, str | PathLike) else ",".join(map(str, path))
    return {"path": paths, **{name: _text(value) for name, value in options.items()}}


def parse_options(given: Mapping[str, str]) -> SegmentOptions:
    """Return options from text.

    Args:
        given: values by names in any case.

    Raises:
        ConfigurationError: an option is unknown, its value is refused, or two contradict each other.
    """
    values: dict[str, Any] = {}
    for name, text in given.items():
        known = _OPTIONS.get(name.lower())
        if known is None:
            raise ConfigurationError(name, text, _unknown(name))
        values[known[0]] = known[1](known[0], text)
    paths = (*values.get("path", ()), *values.get("paths", ()))
    if not paths:
        raise ConfigurationError("path", "", "a folder of segments is needed: load(path)")
    topics = [name for name in ("topics", "subscribe", "subscribePattern", "assign") if name in values]
    if len(topics) > 1:
        raise ConfigurationError(topics[0], _given_text(given, topics[0]), f"{topics[1]} is given, too; expected one")
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
    )


def _text(value: object) -> str:
    """Return the value of an option as Spark takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return str(value)


def _given_text(given: Mapping[str, str], option: str) -> str:
    """Return the text of an option that was given, in whatever case."""
    return next(text for name, text in given.items() if name.lower() == option.lower())


def _unknown(name: str) -> str:
    names = {lower: known[0] for lower, known in _OPTIONS.items()}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"no such option; did you mean {names[near[0]]}?" if near else "no such option"


def _paths(option: str, text: str) -> tuple[str, ...]:
    return tuple(path for path in map(str.strip, text.split(",")) if path)


def _path_list(option: str, text: str) -> tuple[str, ...]:
    """Return paths as Spark hands over a list of them."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise ConfigurationError(option, text, "expected a JSON list of paths")
    return tuple(found)


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name for name in map(str.strip, text.split(",")) if name)
    if not names:
        raise ConfigurationError(option, text, "expected names, separated by commas")
    return names


def _topics(option: str, text: str) -> frozenset[str]:
    return frozenset(_names(option, text))


def _extra(option: str, text: str) -> tuple[str, ...]:
    known = {name.lower(): name for name in schema.EXTRAS}
    return tuple(known.get(name.lower(), name) for name in _names(option, text))


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(option, text, "expected true or false")
    return text.lower() == "true"


def _size(low: int, high: int = _INT64_MAX) -> Callable[[str, str], int]:
    def parse(option: str, text: str) -> int:
        match = _SIZE.fullmatch(text.strip())
        size = -1 if match is None else int(match[1]) * _UNITS[match[2].lower()]
        if not low <= size <= high:
            raise ConfigurationError(option, text, f"expected {low} to {high} bytes, such as 64m")
        return size

    return parse


def _number(low: int) -> Callable[[str, str], int]:
    def parse(option: str, text: str) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,19}", text.strip(), re.ASCII) else low - 1
        if not low <= number <= _INT64_MAX:
            raise ConfigurationError(option, text, f"expected {low} to {_INT64_MAX}")
        return number

    return parse


def _isolation(option: str, text: str) -> bool:
    if text.lower() not in ISOLATION_LEVELS:
        raise ConfigurationError(option, text, f"expected {' or '.join(ISOLATION_LEVELS)}")
    return text.lower() == "read_committed"


def _options(parsers: Iterable[tuple[str, Callable[[str, str], object]]]) -> dict[str, tuple[str, Any]]:
    return {name.lower(): (name, parse) for name, parse in parsers}


#: Each by its name in small letters: how it is written, and what reads its value.
_OPTIONS: Final = _options(
    [
        ("path", _paths),
        ("paths", _path_list),
        ("pathPattern", parse_pattern),
        ("topics", _topics),
        ("subscribe", _topics),
        ("subscribePattern", parse_pattern),
        ("assign", parse_partitions),
        ("startingOffsets", lambda option, text: parse_offsets(option, text, EARLIEST)),
        ("endingOffsets", lambda option, text: parse_offsets(option, text, LATEST)),
        ("startingTimestamp", _number(0)),
        ("endingTimestamp", _number(0)),
        ("splitBytes", _size(SPLIT_BYTES_MIN)),
        ("includeHeaders", _flag),
        ("extra", _extra),
        ("mode", lambda option, text: parse_mode(text)),
        ("isolationLevel", _isolation),
        ("decompressedBytesMax", _size(1)),
        ("pushdown", _flag),
        ("maxBytesPerTrigger", _size(1)),
        ("maxOffsetsPerTrigger", _number(1)),
        ("failOnDataLoss", _flag),
    ]
)
