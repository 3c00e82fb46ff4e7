"""How the files of a partition are named, each after the first offset that it is about.

A segment is a `.log` file and up to three indexes; a snapshot of the producers stands beside it.

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
#: Of a snapshot of the cluster's metadata, which is a segment by its content, and named after an epoch, too.
METADATA_SNAPSHOT_SUFFIX: Final = ".checkpoint"

#: Appended to the name of a file that is being written to take the place of another,
CLEANED_SUFFIX: Final = ".cleaned"
#: of one that is complete and takes that place,
SWAP_SUFFIX: Final = ".swap"
#: and of one that is removed later.
DELETED_SUFFIX: Final = ".deleted"

#: Of the indexes of a segment, all of which can be made again from its `.log` file.
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_DIGITS: Final = 20
#: So many digits can say more than an int64 holds.
_HIGHEST: Final = OFFSET_MAX + 1

_EPOCH_DIGITS: Final = 10

#: A regular expression for the offset in a name.
OFFSET_PATTERN: Final = rf"(?P<offset>\d{{{_DIGITS}}})"


def file_name(offset: int, suffix: str = "") -> str:
    """Return the name of the file with a suffix; without one, what the names of all have in common."""
    return f"{offset:0{_DIGITS}}{suffix}"


def offset_in(name: str, suffix: str, *, is_padded: bool = True) -> int | None:
    """Return the offset in the name of a file with a suffix, None for any other file.

    Args:
        name: of the file.
        suffix: with which it ends.
        is_padded: whether it must have all the digits that a broker writes; people leave out zeros.
    """
    return _number(name.removesuffix(suffix), _DIGITS, _HIGHEST, is_padded) if name.endswith(suffix) else None


def offset_and_epoch_in(name: str, *, is_padded: bool = True) -> tuple[int, int] | None:
    """Return offset and leader epoch in the name of a snapshot of cluster metadata, None for any other file.

    Args:
        name: of the file.
        is_padded: see `offset_in`; of the epoch all digits are needed.
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
