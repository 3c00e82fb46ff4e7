"""The lists at the end of the report: partitions, corrupt regions, gaps, duplicates, transactions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from kafkawire.sdk.spark.audit.quantities import bytes_text, number_text, range_text, ratio_text, span_text, time_text
from kafkawire.sdk.spark.audit.summary import ROWS_SHOWN, Row, Summary
from kafkawire.sdk.spark.audit.witnesses import Cause

__all__ = ["details", "lists"]

#: Most lines in the list of partitions, the largest first.
_PARTITIONS_SHOWN: Final = 1000


#: What a cause of the table of losses is called.
_CAUSES: Final = {
    Cause.PARTITION: "no segment is left",
    Cause.START: "the first segment is missing",
    Cause.GAP: "no batch has them",
    Cause.DAMAGE: "damaged",
    Cause.END: "the end is missing",
}


def lists(summary: Summary) -> str:
    """Return all lists that have a row."""
    found = [
        _partitions(summary.partitions),
        _losses(summary.losses),
        details(
            "Corrupt regions, and what is behind the last batch",
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
        details(
            "Gaps",
            ("partition", "from offset#", "to offset#", "offsets#", "cause"),
            [(*_missing(row), row["cause"]) for row in summary.gaps],
        ),
        details(
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
        details(
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
    return f"<h2>Lists</h2>{''.join(found)}\n"


def _losses(losses: Sequence[Row]) -> str:
    return details(
        "Probably lost",
        ("partition", "from offset#", "to offset#", "offsets#", "cause", "said by"),
        [(*_missing(row), _CAUSES[row["cause"]], row["file"]) for row in losses],
        is_open=True,
    )


def details(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], *, is_open: bool = False, limit: int = ROWS_SHOWN
) -> str:
    """Return a table that can be folded; nothing without rows.

    Args:
        title: what the table is called.
        names: what its columns are called; one that ends with `#` holds numbers.
        rows: the text of each cell.
        is_open: whether it is unfolded at first.
        limit: most rows that are shown; if there is one more, the table says so.
    """
    if not rows:
        return ""
    numbers = [name.endswith("#") for name in names]
    head = "".join(
        f"<th{_class(is_number)}>{escape(name.removesuffix('#'))}</th>"
        for name, is_number in zip(names, numbers, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_class(is_number, cell)}>{escape(cell)}</td>" for cell, is_number in zip(row, numbers, strict=True)
        )
        + "</tr>"
        for row in rows[:limit]
    )
    small = f" <small>{min(len(rows), limit):,}{' and more' if len(rows) > limit else ''}</small>"
    return (
        f'<details class="card"{" open" if is_open else ""}><summary>{escape(title)}{small}</summary>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
    )


def _class(is_number: bool, cell: str = "") -> str:
    if is_number:
        return ' class="number"'
    return ' class="wrap"' if len(cell) > 60 else ""


def _partitions(partitions: Sequence[Row]) -> str:
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
    return details("Partitions", names, rows, is_open=len(rows) <= 20, limit=_PARTITIONS_SHOWN)


def _missing(row: Row) -> tuple[str, ...]:
    """Return the texts of offsets that are missing: the partition, from where, to where, and how many."""
    return _place(row), *(number_text(row[name]) for name in ("startOffset", "endOffset", "offsets"))


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"
