"""The lists at the end of the report: partitions, corrupt regions, gaps, duplicates, transactions.

The templates `lists.html.jinja` and `parts.html.jinja` render them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.spark.audit.partition_facts import Cause
from kafkawire.sdk.spark.audit.quantities import bytes_text, number_text, range_text, ratio_text, span_text, time_text
from kafkawire.sdk.spark.audit.summary import ROWS_SHOWN, Row, Summary

__all__ = ["Column", "FoldedList", "folded_list", "lists"]

#: The maximum number of lines in the list of partitions, which contains the largest ones.
_PARTITIONS_SHOWN: Final = 1000


#: Descriptions of the causes in the table of losses.
_CAUSES: Final = {
    Cause.PARTITION: "no segment is left",
    Cause.START: "the first segment is missing",
    Cause.GAP: "no batch has them",
    Cause.DAMAGE: "damaged",
    Cause.END: "the end is missing",
}


class Column(NamedTuple):
    """A column of a list; numbers are right-aligned."""

    name: str
    is_number: bool


class FoldedList(NamedTuple):
    """A collapsible list; a list without rows is not shown.

    Attributes:
        title: the title of the list.
        columns: the columns, from left to right.
        rows: the text of each cell.
        size: text that gives the number of rows shown, and says whether there are more.
        is_open: whether it is initially expanded.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    size: str
    is_open: bool


def lists(summary: Summary) -> list[FoldedList]:
    """Return all lists."""
    return [
        _partitions(summary.partitions),
        _losses(summary.losses),
        folded_list(
            "Corrupt regions, and the bytes after the last batch",
            ("partition", "position#", "bytes#", "expected offset#", "reason", "path"),
            [
                (
                    _place(row),
                    number_text(row["position"]),
                    number_text(row["sizeBytes"]),
                    number_text(row["expectedOffset"]),
                    row["reason"],
                    row["path"] or "from a broker",
                )
                for row in summary.corrupt
            ],
            is_open=True,
        ),
        folded_list(
            "Gaps",
            ("partition", "from offset#", "to offset#", "offsets#", "cause"),
            [(*_missing(row), row["cause"]) for row in summary.gaps],
        ),
        folded_list(
            "Written twice",
            ("partition", "offsets#", "producer id#", "epoch#", "sequences#", "records#", "after offset#"),
            [
                (
                    _place(row),
                    range_text(row["baseOffset"], row["lastOffset"]),
                    str(row["producerId"]),
                    str(row["producerEpoch"]),
                    range_text(row["baseSequence"], row["lastSequence"]),
                    number_text(row["records"]),
                    number_text(row["followsOffset"]),
                )
                for row in summary.duplicates
            ],
        ),
        folded_list(
            "Transactions that were aborted or are open",
            ("partition", "outcome", "offsets#", "producer id#", "epoch#", "records#", "bytes#", "began"),
            [
                (
                    _place(row),
                    row["outcome"].lower(),
                    range_text(row["firstOffset"], row["lastOffset"]),
                    str(row["producerId"]),
                    str(row["producerEpoch"]),
                    number_text(row["records"]),
                    bytes_text(row["sizeBytes"]),
                    time_text(row["firstTimestamp"]),
                )
                for row in summary.transactions
            ],
        ),
    ]


def _losses(losses: Sequence[Row]) -> FoldedList:
    return folded_list(
        "Probably lost",
        ("partition", "from offset#", "to offset#", "offsets#", "cause", "reported by"),
        [(*_missing(row), _CAUSES[row["cause"]], row["file"]) for row in losses],
        is_open=True,
    )


def folded_list(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], *, is_open: bool = False, limit: int = ROWS_SHOWN
) -> FoldedList:
    """Return a collapsible list.

    Args:
        title: the title of the list.
        names: the titles of its columns; a column whose title ends with `#` contains numbers.
        rows: the text of each cell.
        is_open: whether it is initially expanded.
        limit: the maximum number of rows to show; if there are more, the list's `size` says so.
    """
    columns = [Column(name.removesuffix("#"), name.endswith("#")) for name in names]
    size = f"{min(len(rows), limit):,}{' and more' if len(rows) > limit else ''}"
    return FoldedList(title, columns, rows[:limit], size, is_open)


def _partitions(partitions: Sequence[Row]) -> FoldedList:
    rows = [
        (
            _place(row),
            number_text(row["records"]),
            bytes_text(row["sizeBytes"]),
            ratio_text(row["compressionRatio"]),
            range_text(row["startOffset"], row["endOffset"]),
            number_text(row["segments"]),
            number_text(row["keys"]),
            number_text(row["gaps"]),
            number_text(row["duplicateRecords"]),
            number_text(row["abortedTransactions"]),
            number_text(row["corruptRegions"]),
            span_text(row["maxLateMs"] or 0),
            time_text(row["lastTimestamp"]),
        )
        for row in sorted(partitions, key=lambda row: (-row["sizeBytes"], row["topic"], row["partition"]))
    ]
    names = (
        *("partition", "records#", "on disk#", "ratio#", "offsets#", "segments#", "keys#", "gaps#", "twice#"),
        *("aborted#", "corrupt#", "late by#", "last record"),
    )
    return folded_list("Partitions", names, rows, is_open=len(rows) <= 20, limit=_PARTITIONS_SHOWN)


def _missing(row: Row) -> tuple[str, ...]:
    """Return a row of text about missing offsets: partition, start, end and count."""
    return _place(row), *(number_text(row[name]) for name in ("startOffset", "endOffset", "offsets"))


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"
