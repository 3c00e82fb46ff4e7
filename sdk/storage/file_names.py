"""The names of a partition's files, each of which contains the first offset that the file covers.

A segment is a `.log` file and up to three indexes; a snapshot of the producers is stored beside them.

Source: `LogFileUtils`, `Snapshots` in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from kafkawire.sdk.records.java_integers import INT32_MAX, OFFSET_MAX

__all__ = [
    "CLEANED_SUFFIX",
    "DELETED_SUFFIX",
    "INDEX_SUFFIX",
    "INDEX_SUFFIXES",
    "LOG_SUFFIX",
    "METADATA_SNAPSHOT_SUFFIX",
    "OFFSET_PATTERN",
    "SNAPSHOT_SUFFIX",
    "SWAP_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "TRANSACTION_INDEX_SUFFIX",
    "file_name",
    "offset_and_epoch_in",
    "offset_in",
]

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
#: The suffix of a snapshot of the cluster's metadata: it is stored like a segment, and its name also contains an epoch.
METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"

#: Appended to the name of a file being written to replace another.
CLEANED_SUFFIX: Final = ".cleaned"
#: Appended to the name of a complete file that is about to replace another.
SWAP_SUFFIX: Final = ".swap"
#: Appended to the name of a file to be removed later.
DELETED_SUFFIX: Final = ".deleted"

#: The suffixes of a segment's indexes, all of which can be rebuilt from its `.log` file.
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_DIGITS: Final = 20
#: A number with this many digits can exceed an int64.
_HIGHEST: Final = OFFSET_MAX + 1

_EPOCH_DIGITS: Final = 10

#: A regular expression for the offset in a name.
OFFSET_PATTERN: Final = rf"(?P<offset>\d{{{_DIGITS}}})"


def file_name(offset: int, suffix: str = "") -> str:
    """Return the name of the file with this suffix; without a suffix, the part that all the names share."""
    return f"{offset:0{_DIGITS}}{suffix}"


def offset_in(name: str, suffix: str, *, is_padded: bool = True) -> int | None:
    """Return the offset in the name of a file with this suffix; None for any other file.

    Args:
        name: the name of the file.
        suffix: the required end of the name.
        is_padded: whether the offset must have as many digits as a broker writes; people tend to omit leading zeros.
    """
    return _number(name.removesuffix(suffix), _DIGITS, _HIGHEST, is_padded) if name.endswith(suffix) else None


def offset_and_epoch_in(name: str, *, is_padded: bool = True) -> tuple[int, int] | None:
    """Return the offset and the leader epoch in the name of a cluster metadata snapshot; None for any other file.

    Args:
        name: the name of the file.
        is_padded: see `offset_in`; the epoch must always have all its digits.
    """
    offset_digits, _, epoch_digits = name.removesuffix(METADATA_SNAPSHOT_SUFFIX).partition("-")
    offset = _number(offset_digits, _DIGITS, _HIGHEST, is_padded)
    epoch = _number(epoch_digits, _EPOCH_DIGITS, INT32_MAX, is_padded=True)
    if not name.endswith(METADATA_SNAPSHOT_SUFFIX) or offset is None or epoch is None:
        return None
    return offset, epoch


def _number(digits: str, count: int, highest: int, is_padded: bool) -> int | None:
    is_number = len(digits) <= count and digits.isascii() and digits.isdigit()
    if not is_number or (is_padded and len(digits) < count) or int(digits) > highest:
        return None
    return int(digits)
