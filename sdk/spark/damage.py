"""The handling of bytes that are not records, in Spark's three modes.

Source: `ParseMode` in Apache Spark.
"""

from __future__ import annotations

import json
import logging
from enum import StrEnum
from typing import NamedTuple

from kafkawire.sdk.errors import ConfigurationError, DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC
from kafkawire.sdk.records import Batch
from kafkawire.sdk.records.stored import Damage

__all__ = ["DamageLog", "Mode", "Place", "damage_of", "error_of", "parse_mode"]

_log = logging.getLogger("kafkawire.spark")

#: The maximum number of log lines per task, or per Arrow batch in a column function; the last line contains the total.
LOGGED_MAX = 100


class Mode(StrEnum):
    """The reaction to damage."""

    #: A row for each damaged region, with the column `_corrupt`.
    PERMISSIVE = "PERMISSIVE"
    #: No row, but the damage is counted and logged.
    DROPMALFORMED = "DROPMALFORMED"
    #: An error that describes the first damage.
    FAILFAST = "FAILFAST"


class Place(NamedTuple):
    """The origin of bytes.

    Attributes:
        topic: the topic name; None if unknown.
        partition: the partition number; None if unknown.
        path: the path of the file; None if the bytes come from a column or a broker.
        row: the row's index, counted from 0 within the task, or within the Arrow batch passed to a column function;
            None if the bytes are from a file or a broker.
    """

    topic: str | None
    partition: int | None
    path: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        known = "" if self.topic is None else f"{self.topic}-{self.partition}"
        if self.path is not None:
            return f"{self.path} ({known})" if known else self.path
        if self.row is None:
            return known
        return f"row {self.row} ({known})" if known else f"row {self.row}"


def error_of(place: Place, damage: Damage) -> DecodeError:
    """Return the error for damaged bytes."""
    offset = "" if damage.base_offset is None else f", batch of offset {damage.base_offset}"
    return DecodeError(f"{place}{offset}", damage.position, damage.reason)


def damage_of(batch: Batch, position: int, error: DecodeError) -> Damage:
    """Return the damage for a batch with unreadable content.

    Args:
        batch: the batch, whose header is readable.
        position: its position in bytes; 0 if unknown.
        error: the error that occurred.
    """
    first = batch.base_offset if batch.magic == BATCH_MAGIC else None  # older headers do not contain the first offset
    return Damage(position, batch.size_in_bytes, f"{error.path}: {error.reason}", first)


def parse_mode(value: str) -> Mode:
    """Return the mode with a given name, ignoring case.

    Raises:
        ConfigurationError: there is no such mode.
    """
    try:
        return Mode(value.upper())
    except (AttributeError, ValueError):
        raise ConfigurationError("mode", value, f"expected {', '.join(Mode)}") from None


class DamageLog:
    """Counts dropped damage, and logs it on the worker.

    Attributes:
        count: the number of damaged regions.
        size_bytes: their total size.
    """

    def __init__(self) -> None:
        self.count = self.size_bytes = 0

    def add(self, place: Place, damage: Damage) -> None:
        """Count one damaged region."""
        self.count += 1
        self.size_bytes += damage.size_bytes
        if self.count <= LOGGED_MAX:
            _log.warning("dropped from %s: %s", place, damage)

    def finish(self) -> None:
        """Log the totals, as JSON."""
        if self.count:
            _log.warning("dropped in total: %s", json.dumps({"damaged": self.count, "bytes": self.size_bytes}))
