"""The requested partitions and offsets, given as in the connector's options of the same names.

When reading files, partitions that a JSON option does not name are read from the earliest offset or to the latest. When
reading from brokers, all partitions are known, and the JSON option must name all of them, as in Spark's connector.

Source: `ConsumerStrategy`, `JsonUtils` in Apache Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, INT64_MAX
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "Bound",
    "Offsets",
    "Selection",
    "Times",
    "check_not_empty",
    "check_order",
    "parse_offsets",
    "parse_partitions",
    "parse_pattern",
    "parse_times",
    "place_text",
]

#: The numbers that mean the ends of a partition, as in the connector's JSON.
LATEST: Final = -1
EARLIEST: Final = -2

_NAMES = {"latest": LATEST, "earliest": EARLIEST}


class Offsets(NamedTuple):
    """Where to begin, or end, in each partition.

    Attributes:
        others: the end used for partitions that are not named, `LATEST` or `EARLIEST`.
        named: the offsets of the named partitions, or `LATEST` or `EARLIEST`.
    """

    others: int
    named: Mapping[TopicPartition, int] = {}

    def of(self, partition: TopicPartition) -> int:
        """Return where to begin or end in a partition."""
        return self.named.get(partition, self.others)


class Times(NamedTuple):
    """Where to begin, or end, in each partition: at the first record with the given time or a later one.

    Attributes:
        others: the time for partitions that are not named, in ms since the epoch; None if all are named.
        named: the times for the named partitions.
    """

    others: int | None
    named: Mapping[TopicPartition, int] = {}


class Bound(NamedTuple):
    """Where a query begins, or ends.

    Attributes:
        option: the option that defines it.
        place: the position in each partition.
    """

    option: str
    place: Offsets | Times

    def asked(self, partition: TopicPartition) -> int | str | None:
        """Return the value of the option for a partition: an offset, a time in ms, or the name of an end."""
        if isinstance(self.place, Times):
            return self.place.named.get(partition, self.place.others)
        offset = self.place.of(partition)
        return {EARLIEST: "earliest", LATEST: "latest"}.get(offset, offset)


class Selection(NamedTuple):
    """The selected partitions; all existing ones by default.

    Attributes:
        topics: topic names; None for any.
        pattern: a regular expression for a whole topic name; None for any.
        partitions: individual partitions; None for any.
    """

    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None

    def has(self, partition: TopicPartition) -> bool:
        """Return whether a partition is selected."""
        return (
            (self.topics is None or partition.topic in self.topics)
            and (self.pattern is None or re.fullmatch(self.pattern, partition.topic) is not None)
            and (self.partitions is None or partition in self.partitions)
        )


def parse_offsets(option: str, text: str, others: int) -> Offsets:
    """Return the offsets in an option.

    Args:
        option: the name of the option.
        text: "earliest", "latest", or JSON such as {"orders":{"0":23,"1":-2}}, where -1 is latest and -2 earliest.
        others: the end used for partitions that are not named.

    Raises:
        ConfigurationError: the text is none of these.
    """
    name = _NAMES.get(text.strip().lower())
    if name is not None:
        return Offsets(name)
    expected = 'expected "earliest", "latest" or JSON such as {"orders":{"0":23,"1":-2}}'
    allowed = f"0 to {INT64_MAX}, {LATEST} for latest or {EARLIEST} for earliest is expected"
    return Offsets(others, _numbers(option, text, expected, EARLIEST, allowed))


def parse_times(option: str, text: str) -> Times:
    """Return the times in an option.

    Args:
        option: the name of the option.
        text: JSON such as {"orders":{"0":1700000000000}}, in ms since the epoch.

    Raises:
        ConfigurationError: the text is not such JSON.
    """
    expected = 'expected JSON such as {"orders":{"0":1700000000000}}'
    return Times(None, _numbers(option, text, expected, 0, f"0 to {INT64_MAX} ms is expected"))


def check_not_empty(option: str, offsets: Offsets, end: int) -> None:
    """Raise an error for offsets that would make a batch query read nothing.

    Args:
        option: the name of the option.
        offsets: where to begin, or end.
        end: the end of a partition: `LATEST` for a query that begins there, `EARLIEST` for one that ends there.

    Raises:
        ConfigurationError: that end is requested, by name or in JSON.
    """
    named = {partition: offset for partition, offset in offsets.named.items() if offset == end}
    if named or offsets.others == end:
        raise ConfigurationError(option, place_text(Offsets(end, named)), "a batch query would read nothing")


def place_text(place: Offsets | Times) -> str:
    """Return positions in the form used in an option."""
    if not place.named:
        return next((name for name, offset in _NAMES.items() if offset == place.others), str(place.others))
    named: dict[str, dict[int, int]] = {}
    for partition, offset in place.named.items():
        named.setdefault(partition.topic, {})[partition.partition] = offset
    return json.dumps(named, separators=(",", ":"))


def check_order(starting: Bound, ending: Bound, partition: TopicPartition, start: int, end: int) -> None:
    """Raise an error for a partition in which the query would begin after its end.

    Args:
        starting: where the query begins.
        ending: where it ends.
        partition: the partition.
        start: its first offset.
        end: the offset after its last offset.

    Raises:
        ConfigurationError: the query would begin after its end in the partition.
    """
    if start > end:
        until = f"{ending.option}={ending.asked(partition)}"
        reason = f"{partition} would begin at offset {start}, but end earlier, at {end}, because of {until}"
        raise ConfigurationError(starting.option, starting.asked(partition), reason)


def _numbers(option: str, text: str, expected: str, lowest: int, allowed: str) -> dict[TopicPartition, int]:
    """Return a number for each partition named in JSON."""
    named: dict[TopicPartition, int] = {}
    for topic, partitions in _json(option, text, expected).items():
        if not isinstance(partitions, dict):
            raise ConfigurationError(option, text, f"{expected}, but {topic!r} has no object")
        for partition, found in partitions.items():
            number = int(partition) if partition.isascii() and partition.isdigit() else -1
            if not 0 <= number <= INT32_MAX:
                raise ConfigurationError(option, text, f"{partition!r} of {topic!r} is not a partition number")
            if isinstance(found, bool) or not isinstance(found, int) or not lowest <= found <= INT64_MAX:
                raise ConfigurationError(option, text, f"{found!r} of {topic}-{partition}: {allowed}")
            named[TopicPartition(topic, number)] = found
    if not named:
        raise ConfigurationError(option, text, f"{expected}, but the value lists no partition")
    return named


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """Return the partitions named in JSON.

    Args:
        option: the name of the option.
        text: JSON such as {"orders":[0,1]}.

    Raises:
        ConfigurationError: the text is not such JSON.
    """
    expected = 'expected JSON such as {"orders":[0,1]}'
    found = set()
    for topic, partitions in _json(option, text, expected).items():
        numbers = partitions if isinstance(partitions, list) else [None]
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT32_MAX:
                raise ConfigurationError(option, text, f"{expected}, but {topic!r} has {partitions!r}")
            found.add(TopicPartition(topic, number))
    return frozenset(found)


def parse_pattern(option: str, text: str) -> str:
    """Return a regular expression, without surrounding whitespace.

    Raises:
        ConfigurationError: the text is not a regular expression, or is empty.
    """
    pattern = text.strip()
    if not pattern:
        raise ConfigurationError(option, text, "expected a regular expression")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(option, text, f"not a regular expression: {error}") from None
    return pattern


def _json(option: str, text: str, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(option, text, expected)
    return found
