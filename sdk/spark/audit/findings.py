"""Findings: what the audit's numbers mean, worded for an engineer on call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS
from kafkawire.sdk.spark.audit.quantities import bytes_text, count_text, partitions_text, percent_text, span_text
from kafkawire.sdk.spark.audit.summary import Row, Summary

__all__ = ["Finding", "Severity", "findings_of", "gini"]

#: A key with this share of a topic's records dominates its partition's load.
_HOT_KEY_SHARE: Final = 0.2

#: With fewer records than this, shares are not meaningful.
_RECORDS_MIN: Final = 1000

#: A partition is large if it is more than this many times the mean size in its topic.
_LARGE_PARTITION: Final = 2.0

#: A topic with a lower ratio is reported as hardly compressed.
_COMPRESSION_MIN: Final = 1.1

#: A topic is worth compacting if it has at least this many bytes, of which at least this share is superseded.
_COMPACTION_MIN: Final = 0.5
_COMPACTION_BYTES_MIN: Final = 1 << 16

#: Smaller delays are common when several producers write to a partition.
_LATE_MS: Final = 60_000

#: The maximum number of names on one line.
_NAMES_MAX: Final = 3


class Severity(StrEnum):
    """The severity of a finding, worst first."""

    #: Data is damaged or missing.
    BAD = "bad"
    #: Something is wrong, or will be soon: duplicates, open transactions, lag, a hot key.
    WARNING = "warning"
    #: Worth knowing, and often intended.
    NOTE = "note"


class Finding(NamedTuple):
    """A problem to look at.

    Attributes:
        severity: its severity, which is also a string: `"bad"`, `"warning"` or `"note"`.
        text: a one-line description: `1 corrupt region, 2.00 KiB`.
        detail: the location and a possible meaning: `orders-3: a wrong checksum, or no batch at all`. At most three
            partitions, groups or topics are named, and the rest are counted; the tables list all of them.
    """

    severity: Severity
    text: str
    detail: str


def findings_of(summary: Summary) -> list[Finding]:
    """Return the findings, worst first."""
    order = list(Severity)
    found = [
        *_of_losses(summary),
        *_of_ends(summary),
        *_of_logs(summary),
        *_of_transactions(summary),
        *_of_groups(summary),
        *_of_topics(summary),
        *_of_compaction(summary),
    ]
    return sorted(found, key=lambda finding: order.index(finding.severity))


def gini(counts: Sequence[tuple[int, int]]) -> float:
    """Return the Gini coefficient of the keys: 0 if all have equally many records, nearly 1 if one has nearly all.

    Args:
        counts: for each group of keys with equally many records, the number of keys and their total number of records,
            with the rarest keys first.
    """
    keys = sum(number for number, _ in counts)
    records = sum(together for _, together in counts)
    if not keys or not records:
        return 0.0
    below = area = 0
    for number, together in counts:
        reached = below + together
        area += (below + reached) * number
        below = reached
    return 1 - area / (keys * records)


def _of_losses(summary: Summary) -> Iterator[Finding]:
    """Report the total loss, followed by the losses that files other than segments reveal."""
    lost = _with(summary, "lostRecords")
    if lost:
        records = sum(row["lostRecords"] for row in lost)
        worst = sorted(lost, key=lambda row: -row["lostRecords"])
        each = [f"{row['topic']}-{row['partition']} ({count_text(row['lostRecords'])})" for row in worst]
        detail = f"{_listed(each)}; counted by offsets, which may include markers and records that compaction removed"
        yield Finding(Severity.BAD, f"{_many(records, 'record')} probably lost", detail)
    for column, one, many, why in (
        (
            "lostAltogether",
            "has no segment",
            "have no segment",
            "other files remain, or a checkpoint lists the partition",
        ),
        ("lostAtStart", "lacks its first segment", "lack their first segment", "the leader epochs begin earlier"),
        (
            "lostAtEnd",
            "ends before its high watermark",
            "end before their high watermark",
            "the end of the log is missing, or this is an older copy of it",
        ),
    ):
        rows = _with(summary, column)
        if rows:
            text = f"{_many(len(rows), 'partition')} {one if len(rows) == 1 else many}"
            offsets = count_text(sum(row[column] for row in rows))
            yield Finding(Severity.BAD, text, f"{_names(rows)}: {offsets} offsets; {why}")


def _of_ends(summary: Summary) -> Iterator[Finding]:
    """Report bytes after the last batches of partitions, and other states in which a broker never leaves a log."""
    cut = _with(summary, "cutBytes")
    if cut:
        size = sum(row["cutBytes"] for row in cut)
        text = f"{_many(len(cut), 'partition')} {_end(cut)} inside a batch ({size:,} bytes)"
        yield Finding(Severity.WARNING, text, f"{_names(cut)}: cut off, or copied while a broker was writing")
    zeros = _with(summary, "zeroBytes")
    if zeros:
        size = sum(row["zeroBytes"] for row in zeros)
        text = f"{_many(len(zeros), 'partition')} with zeros at the end ({size:,} bytes)"
        detail = f"{_names(zeros)}: left by a crash, or space reserved by log.preallocate"
        yield Finding(Severity.WARNING, text, detail)
    steps = _with(summary, "epochSteps")
    if steps:
        text = f"{_many(len(steps), 'partition')} whose leader epoch decreases"
        times = _many(sum(row["epochSteps"] for row in steps), "time")
        yield Finding(Severity.WARNING, text, f"{_names(steps)}: {times}; segments of several copies may be mixed")
    unnamed = [row for row in summary.partitions if row["isNamed"] is False]
    if unnamed:
        text = f"{_many(len(unnamed), 'partition')} missing from the high watermarks"
        yield Finding(
            Severity.NOTE, text, f"{_names(unnamed)}: copied or renamed, or made seconds before the files were copied"
        )
    unindexed = _with(summary, "segmentsWithoutIndex")
    if unindexed:
        text = f"{_many(sum(row['segmentsWithoutIndex'] for row in unindexed), 'segment')} without an index"
        yield Finding(Severity.NOTE, text, f"{_names(unindexed)}: a broker rebuilds it when it starts")


def _of_logs(summary: Summary) -> Iterator[Finding]:
    corrupt = _with(summary, "corruptRegions")
    if corrupt:
        size = sum(row["corruptBytes"] for row in corrupt)
        text = f"{_many(sum(row['corruptRegions'] for row in corrupt), 'corrupt region')}, {bytes_text(size)}"
        yield Finding(Severity.BAD, text, f"{_names(corrupt)}: a wrong checksum, or no batch at all")
    unknown = _with(summary, "unknownGaps")
    if unknown:
        offsets = sum(row["unknownGapOffsets"] for row in unknown)
        yield Finding(
            Severity.BAD,
            f"{_many(len(unknown), 'partition')} with unexplained gaps",
            f"{_names(unknown)}: {count_text(offsets)} offsets; a segment may be missing, "
            "or compaction removed whole batches and left no trace",
        )
    explained = [row for row in _with(summary, "gaps") if not row["unknownGaps"] and not row["corruptRegions"]]
    cleaned = [row for row in explained if row["gaps"] > row["removedGaps"]]
    if cleaned:
        text = f"{_many(len(cleaned), 'partition')} with gaps left by compaction"
        yield Finding(Severity.NOTE, text, _names(cleaned))
    removed = _with(summary, "removedGaps")
    if removed:
        text = f"{_many(len(removed), 'partition')} from which records were removed before they were audited"
        yield Finding(Severity.NOTE, text, f"{_names(removed)}: retention removed them before the next audit")
    twice = _with(summary, "duplicateBatches")
    if twice:
        yield Finding(
            Severity.WARNING,
            f"{_many(sum(row['duplicateRecords'] for row in twice), 'record')} written twice",
            f"{_names(twice)}: the same producer id, epoch and sequence numbers, which a broker would have refused",
        )
    late = [row for row in _with(summary, "lateBatches") if row["maxLateMs"] >= _LATE_MS]
    if late:
        text = f"{_many(len(late), 'partition')} with records at least a minute late"
        worst = span_text(max(row["maxLateMs"] for row in late))
        yield Finding(Severity.NOTE, text, f"{_names(late)}: up to {worst} older than an earlier record")


def _of_transactions(summary: Summary) -> Iterator[Finding]:
    pending = _with(summary, "openTransactions")
    if pending:
        yield Finding(
            Severity.WARNING,
            _many(sum(row["openTransactions"] for row in pending), "open transaction"),
            f"{_names(pending)}: consumers with read_committed wait there",
        )
    aborted = _with(summary, "abortedTransactions")
    if aborted:
        ended = sum(row["transactions"] - row["openTransactions"] for row in aborted)
        number = sum(row["abortedTransactions"] for row in aborted)
        records = count_text(sum(row["abortedRecords"] for row in aborted))
        detail = f"{percent_text(number / ended)} of those that ended in {_names(aborted)}, {records} records in all"
        yield Finding(Severity.NOTE, _many(number, "aborted transaction"), detail)


def _of_groups(summary: Summary) -> Iterator[Finding]:
    behind = [row for row in summary.groups if row["lag"]]  # groups with a lag, largest lag first
    if behind:
        names = list(dict.fromkeys(row["group"] for row in behind))
        worst = behind[0]
        most = f"{worst['group']} by {count_text(worst['lag'])} in {worst['topic']}-{worst['partition']}"
        yield Finding(
            Severity.WARNING if summary.lag >= _RECORDS_MIN else Severity.NOTE,
            f"{_many(summary.groups_behind, 'group')} behind by {count_text(summary.lag)} records",
            f"{_listed(names, summary.groups_behind)}; {most}",
        )


def _of_topics(summary: Summary) -> Iterator[Finding]:
    for topic in summary.topics:
        rows = [row for row in summary.partitions if row["topic"] == topic]
        records = sum(row["records"] for row in rows)
        if topic in INTERNAL_TOPICS or records < _RECORDS_MIN:
            continue
        first = next((row for row in summary.top_keys if row["topic"] == topic), None)
        keys = sum(row["keys"] for row in summary.key_counts if row["topic"] == topic)
        if first is not None and keys > 1 and first["records"] / records >= _HOT_KEY_SHARE:
            text = f"One key has {percent_text(first['records'] / records)} of the records of {topic}"
            where = partitions_text(first["partitions"], first["partition"])
            yield Finding(Severity.WARNING, text, f"one of {count_text(keys)} keys; its records are in {where}")
        sizes = [row["sizeBytes"] for row in rows]
        mean = sum(sizes) / len(sizes)
        if len(rows) > 1 and max(sizes) > _LARGE_PARTITION * mean:
            large = max(rows, key=lambda row: row["sizeBytes"])
            text = f"Partition {large['partition']} of {topic} is {max(sizes) / mean:.1f} times as large as the mean"
            yield Finding(Severity.WARNING, text, f"{bytes_text(max(sizes))} of {bytes_text(sum(sizes))} in all")
        plain = sum(row["plainBytes"] or 0 for row in rows)
        if sum(sizes) and plain and plain / sum(sizes) < _COMPRESSION_MIN and sum(sizes) > 1 << 20:
            text = f"{topic} is hardly compressed"
            yield Finding(Severity.NOTE, text, f"{bytes_text(sum(sizes))}; zstd or lz4 often shrink a topic to a third")


def _of_compaction(summary: Summary) -> Iterator[Finding]:
    """Report topics that compaction would shrink; segments do not reveal which topics are compacted."""
    found = []
    for topic in summary.topics:
        rows = [row for row in summary.partitions if row["topic"] == topic]
        held = sum(row["recordBytes"] for row in rows)
        gone = sum(row["supersededBytes"] for row in rows)
        if held >= _COMPACTION_BYTES_MIN and gone / held >= _COMPACTION_MIN and topic not in INTERNAL_TOPICS:
            found.append(f"{percent_text(gone / held)} of {topic}")
    if found:
        text = f"Compaction would free at least half the bytes of {_many(len(found), 'topic')}"
        yield Finding(Severity.NOTE, text, _listed(found))


def _end(rows: Sequence[Row]) -> str:
    return "ends" if len(rows) == 1 else "end"


def _with(summary: Summary, name: str) -> list[Row]:
    return [row for row in summary.partitions if row[name]]


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _names(rows: Sequence[Row]) -> str:
    return _listed([f"{row['topic']}-{row['partition']}" for row in rows])


def _listed(names: Sequence[str], count: int | None = None) -> str:
    """Return the first names, and the number of further names.

    Args:
        names: some or all names.
        count: the total number; None if `names` is complete.
    """
    others = (len(names) if count is None else count) - len(names[:_NAMES_MAX])
    more = f" and {others:,} more" if others else ""
    return ", ".join(names[:_NAMES_MAX]) + more
