"""Sums over the records of one partition, grouped by key and by minute, using only Arrow.

Records with equal keys are aggregated before rows are passed to Spark, so the output grows with the number of keys, not
with the number of records. Once there are many keys, their sums are passed to Spark, which continues the work, on disk
if necessary.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import pyarrow
import pyarrow.compute

__all__ = ["KEY_BYTES_MAX", "Sums", "short_key"]

#: Longer keys are identified by their beginning and their SHA-256 hash, because a key may be a megabyte long.
KEY_BYTES_MAX: Final = 128
_KEY_BYTES_KEPT: Final = 64

#: The maximum number of rows waiting to be aggregated, and of keys held; each of them takes about 100 bytes.
_ROWS_MAX: Final = 256 * 1024
_HELD_MAX: Final = 64 * 1024

_MINUTE_MS: Final = 60_000

#: Most of this module's functions are created at import time, where type checkers do not see them.
_COMPUTE: Any = pyarrow.compute

_KEY_SUMS = (
    ("records", "sum"),
    ("recordBytes", "sum"),
    ("lastOffset", "last"),
    ("lastBytes", "last"),
    ("lastIsTombstone", "last"),
)
_MINUTE_SUMS = (("records", "sum"), ("recordBytes", "sum"))


class Sums:
    """Aggregates the records of one partition.

    Args:
        rows_max: the maximum number of rows waiting to be aggregated.
        held_max: the maximum number of keys, or minutes, to hold.
    """

    def __init__(self, *, rows_max: int = _ROWS_MAX, held_max: int = _HELD_MAX) -> None:
        self._rows_max = rows_max
        self._held_max = held_max
        self._keys: list[pyarrow.Table] = []
        self._minutes: list[pyarrow.Table] = []

    def add(self, rows: pyarrow.Table) -> None:
        """Add records, in the order of their offsets.

        Args:
            rows: the columns key, offset, timestamp (in ms, int64) and value.
        """
        count = rows.num_rows
        values = rows["value"]
        ones = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), count)
        sizes = _COMPUTE.add(_length(rows["key"]), _length(values))
        # Sum each chunk of rows first, because its sums usually have few rows.
        keys = pyarrow.table(
            {
                "key": _short(rows["key"]),
                "records": ones,
                "recordBytes": sizes,
                "lastOffset": rows["offset"],
                "lastBytes": sizes,
                "lastIsTombstone": _COMPUTE.is_null(values),
            }
        )
        minutes = pyarrow.table(
            {"minute": _minutes(rows["timestamp"]), "records": ones, "recordBytes": sizes},
        )
        self._keys.append(_summed(keys, "key", _KEY_SUMS))
        self._minutes.append(_summed(minutes, "minute", _MINUTE_SUMS))

    def take_full(self) -> tuple[pyarrow.Table | None, pyarrow.Table | None]:
        """Return the sums by key and by minute if there are too many to hold; None otherwise."""
        return self._full(self._keys, "key", _KEY_SUMS), self._full(self._minutes, "minute", _MINUTE_SUMS)

    def take(self) -> tuple[pyarrow.Table | None, pyarrow.Table | None]:
        """Return all sums by key and by minute, and reset them; None if there are none."""
        keys, minutes = self._keys, self._minutes
        self._keys, self._minutes = [], []
        return _joined(keys, "key", _KEY_SUMS), _joined(minutes, "minute", _MINUTE_SUMS)

    def _full(self, held: list[pyarrow.Table], name: str, sums: tuple[tuple[str, str], ...]) -> pyarrow.Table | None:
        if sum(each.num_rows for each in held) < self._rows_max:
            return None
        joined = _joined(held, name, sums)
        held.clear()
        if joined is None or joined.num_rows >= self._held_max:
            return joined
        held.append(joined)
        return None


def short_key(key: bytes) -> bytes:
    """Return a key, or a substitute if it is too long."""
    return key if len(key) <= KEY_BYTES_MAX else key[:_KEY_BYTES_KEPT] + sha256(key).digest()


def _joined(held: list[pyarrow.Table], name: str, sums: tuple[tuple[str, str], ...]) -> pyarrow.Table | None:
    if len(held) < 2:
        return held[0] if held else None
    return _summed(pyarrow.concat_tables(held), name, sums)


def _summed(rows: pyarrow.Table, name: str, sums: tuple[tuple[str, str], ...]) -> pyarrow.Table:
    """Aggregate rows with equal keys or minutes, without threads, which would lose the order of the rows."""
    found = rows.group_by(name, use_threads=False).aggregate(list(sums))
    return found.select([name, *(f"{column}_{how}" for column, how in sums)]).rename_columns(rows.schema.names)


def _length(values: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    return _COMPUTE.fill_null(_COMPUTE.binary_length(values).cast(pyarrow.int64()), 0)


def _short(keys: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    longest = _COMPUTE.max(_COMPUTE.binary_length(keys)).as_py()
    if longest is None or longest <= KEY_BYTES_MAX:
        return keys
    return pyarrow.chunked_array(
        [pyarrow.array([None if key is None else short_key(key) for key in keys.to_pylist()], pyarrow.binary())]
    )


def _minutes(times_ms: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return the minutes of timestamps: negative before 1970, and null where there is no timestamp."""
    there = _COMPUTE.if_else(_COMPUTE.equal(times_ms, -1), pyarrow.scalar(None, pyarrow.int64()), times_ms)
    minutes = _COMPUTE.divide(there, _MINUTE_MS)  # rounds towards 0
    rest = _COMPUTE.subtract(there, _COMPUTE.multiply(minutes, _MINUTE_MS))
    return _COMPUTE.subtract(minutes, _COMPUTE.less(rest, 0).cast(pyarrow.int64()))
