"""How a partition is named, and its files, each after the first offset that it is about.

A segment is a `.log` file and up to three indexes; a snapshot of the producers stands beside it.

Source: `LogFileUtils` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.records.java_integers import OFFSET_MAX

__all__ = [
    "DELETED_SUFFIX",
    "INDEX_SUFFIX",
    "INDEX_SUFFIXES",
    "LOG_SUFFIX",
    "SNAPSHOT_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "TRANSACTION_INDEX_SUFFIX",
    "Partition",
    "file_name",
    "offset_in",
]

#: A partition: its topic and its number.
Partition = tuple[str, int]

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
#: Appended to the name of a file that is removed later.
DELETED_SUFFIX = ".deleted"

#: Of the indexes of a segment, all of which can be made again from its `.log` file.
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_DIGITS = 20
#: So many digits can say more than an int64 holds.
_HIGHEST = OFFSET_MAX + 1


def file_name(offset: int, suffix: str = "") -> str:
    """Return the name of the file with a suffix; without one, what the names of all have in common."""
    return f"{offset:0{_DIGITS}}{suffix}"


def offset_in(name: str, suffix: str) -> int | None:
    """Return the offset in the name of a file with a suffix, None for any other file."""
    digits = name.removesuffix(suffix)
    is_meant = name.endswith(suffix) and len(digits) == _DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_meant and int(digits) <= _HIGHEST else None
