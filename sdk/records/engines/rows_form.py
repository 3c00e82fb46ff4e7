"""What a `RowsBuilder` hands over, on every engine: the buffers of Arrow's plain columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.values import Buffer

__all__ = ["COLUMNS", "ROWS_BYTES_MAX", "ROWS_MAX", "HeaderColumns", "PlainColumn", "RowColumns", "checked_columns"]

#: What a record has.
COLUMNS: Final = ("key", "value", "offset", "timestamp", "headers")

#: Of keys, values and headers together, by default: each batch of rows has a fixed price for whoever takes it, which no
#: longer shows from this size on.
ROWS_BYTES_MAX: Final = 4 * 1024 * 1024

#: By default. A record of seven bytes becomes a row of 24 and more: with many small ones this comes first.
ROWS_MAX: Final = 128 * 1024


class PlainColumn(NamedTuple):
    """Byte strings, or lists, in Arrow's plain layout: element `i` is from `ends[i]` to `ends[i + 1]`.

    Attributes:
        ends: int32 in the machine's byte order, one more than there are elements; the first is 0.
        data: the bytes of all values, one after the other; empty for lists.
        validity: bit `i % 8` of byte `i // 8` is 0 where the element is null; None where none is.
        nulls: how many are.
    """

    ends: Buffer
    data: Buffer
    validity: Buffer | None
    nulls: int


class HeaderColumns(NamedTuple):
    """The headers of records: a list for each, whose elements are in two columns.

    Attributes:
        lists: null for a record without headers.
        names: UTF-8, never null.
        values: of the headers.
    """

    lists: PlainColumn
    names: PlainColumn
    values: PlainColumn


class RowColumns(NamedTuple):
    """Rows; what was not asked for is None.

    Attributes:
        rows_count: how many.
        offsets: int64 in the machine's byte order.
        timestamps: the same, ms since the epoch.
        keys: of the records.
        values: of the records.
        headers: of the records.
    """

    rows_count: int
    offsets: Buffer | None
    timestamps: Buffer | None
    keys: PlainColumn | None
    values: PlainColumn | None
    headers: HeaderColumns | None


def checked_columns(columns: Iterable[str]) -> frozenset[str]:
    """Return the names of columns.

    Raises:
        ValueError: a record has no such part.
    """
    names = frozenset(columns)
    if unknown := names - set(COLUMNS):
        raise ValueError(f"no column {', '.join(sorted(unknown))}, a record has {', '.join(COLUMNS)}")
    return names
