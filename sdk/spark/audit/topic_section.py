"""The section of the report about one topic: its rate, size, compression, skew and lateness.

The template `topic.html.jinja` renders it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.spark.audit.findings import gini
from kafkawire.sdk.spark.audit.plots import Bar, Part, Plot, Series, bars, columns, lorenz, split, stacked
from kafkawire.sdk.spark.audit.quantities import (
    NONE,
    bytes_text,
    count_text,
    partitions_text,
    percent_text,
    ratio_text,
    span_text,
)
from kafkawire.sdk.spark.audit.summary import Row, Summary

__all__ = ["Card", "Fact", "TopicSection", "key_text", "topic_section"]

#: The maximum number of columns in a plot; if there are more partitions, the largest are shown.
_PARTITIONS_SHOWN: Final = 64

#: The maximum number of bars in a plot.
_KEYS_SHOWN: Final = 8

#: The maximum number of points in a curve.
_POINTS_MAX: Final = 80

#: The maximum number of characters shown of a key.
_KEY_CHARACTERS: Final = 40


class Card(NamedTuple):
    """A plot with its title, or text in its place.

    Attributes:
        title: the title.
        about: an explanation, in smaller letters.
        plot: None if there is nothing to plot.
        instead: the reason why there is no plot.
    """

    title: str
    about: str
    plot: Plot | None
    instead: str = ""


class Fact(NamedTuple):
    """A number and what it counts."""

    name: str
    value: str


class TopicSection(NamedTuple):
    """The section about a topic.

    Attributes:
        name: the name of the topic.
        about: the number of its partitions.
        facts: its numbers.
        plots: the larger plots.
        splits: the plots that consist of a single bar.
    """

    name: str
    about: str
    facts: Sequence[Fact]
    plots: Sequence[Card]
    splits: Sequence[Card]


def topic_section(summary: Summary, topic: str) -> TopicSection:
    """Return the section about a topic.

    Args:
        summary: the content of the report.
        topic: one of the shown topics.
    """
    rows = _of(summary.partitions, topic)
    plots = [_rate(summary, topic), _sizes(rows), _skew(summary, topic), _keys(summary, topic)]
    splits = [_compression(summary, topic), _compaction(rows), _lateness(summary, topic)]
    about = f"{len(rows):,} partition{'' if len(rows) == 1 else 's'}"
    return TopicSection(topic, about, _facts(rows), list(filter(None, plots)), list(filter(None, splits)))


def key_text(key: bytes | None) -> str:
    """Return a key in readable form: as text if possible, otherwise as hexadecimal."""
    if key is None:
        return "no key"
    try:
        text = bytes(key).decode()
        shown = text if text.isprintable() else bytes(key).hex(" ")
    except UnicodeDecodeError:
        shown = bytes(key).hex(" ")
    return shown if len(shown) <= _KEY_CHARACTERS else f"{shown[: _KEY_CHARACTERS - 1]}…"


def _facts(rows: Sequence[Row]) -> list[Fact]:
    size, plain = sum(row["sizeBytes"] for row in rows), sum(row["plainBytes"] or 0 for row in rows)
    records, batches = sum(row["records"] for row in rows), sum(row["batches"] for row in rows)
    facts = [
        ("records", count_text(records)),
        ("on disk", bytes_text(size)),
        ("compressed", ratio_text(plain / size if size and plain else None)),
        ("records in a batch", f"{records / batches:.1f}" if batches else NONE),
        ("keys", count_text(sum(row["keys"] for row in rows))),
        ("producers in a partition", f"up to {count_text(max(row['producers'] for row in rows))}"),
    ]
    for name, column in (
        ("transactions", "transactions"),
        ("aborted", "abortedTransactions"),
        ("open", "openTransactions"),
        ("gaps", "gaps"),
        ("written twice", "duplicateRecords"),
        ("corrupt regions", "corruptRegions"),
        ("probably lost", "lostRecords"),
    ):
        number = sum(row[column] for row in rows)
        if number:
            facts.append((name, count_text(number)))
    return [Fact(*each) for each in facts]


def _rate(summary: Summary, topic: str) -> Card:
    points = [(row["time"], row["recordBytes"]) for row in _of(summary.rates, topic)]
    if summary.frame is None or not points:
        return Card("Bytes over time", "", None, "no record has a timestamp")
    about = f"keys and values, in {span_text(summary.frame.step_ms)}"
    return Card("Bytes over time", about, stacked([Series(topic, points, "c1")], summary.frame, bytes_text))


def _sizes(rows: Sequence[Row]) -> Card:
    shown = sorted(rows, key=lambda row: -row["sizeBytes"])[:_PARTITIONS_SHOWN]
    about = "on disk" if len(shown) == len(rows) else f"on disk, the {len(shown)} largest of {len(rows):,}"
    items = [
        Bar(
            str(row["partition"]),
            row["sizeBytes"],
            "",
            f"partition {row['partition']}: {row['sizeBytes']:,} bytes, {row['records']:,} records, "
            f"offsets {row['startOffset']} to {row['endOffset']}",
            "cbad" if row["corruptRegions"] or row["lostRecords"] else "c1",
        )
        for row in sorted(shown, key=lambda row: row["partition"])
    ]
    if any(item.style == "cbad" for item in items):
        about += "; red: damaged, or with records that are probably lost"
    return Card("Bytes by partition", about, columns(items, bytes_text))


def _skew(summary: Summary, topic: str) -> Card:
    counts = [(row["keys"], row["records"]) for row in _of(summary.key_counts, topic)]
    if not counts:
        return Card("Key skew", "", None, "no record has a key")
    keys = sum(number for number, _ in counts)
    records = sum(of_them for _, of_them in counts)
    points, at, reached = [], 0, 0
    for number, of_them in counts:
        at, reached = at + number, reached + of_them
        points.append((at / keys, reached / records))
    every = -(-len(points) // _POINTS_MAX)
    points = [*points[:-1:every], points[-1]]
    about = f"records with a key, from the rarest key to the most frequent; Gini {gini(counts):.2f}"
    return Card("Key skew", about, lorenz(points, f"{keys:,} keys, {records:,} records with a key"))


def _keys(summary: Summary, topic: str) -> Card | None:
    rows = _of(summary.top_keys, topic)[:_KEYS_SHOWN]
    if not rows:
        return None
    items = []
    for row in rows:
        name = key_text(row["key"])
        where = partitions_text(row["partitions"], row["partition"])
        title = f"{name}: {row['records']:,} records, {row['recordBytes']:,} bytes, {where}"
        items.append(
            Bar(name, row["records"], f"{count_text(row['records'])}, {percent_text(row['share'])}", title, "c2")
        )
    return Card("Most frequent keys", "share of the records with a key", bars(items))


def _compression(summary: Summary, topic: str) -> Card | None:
    found = {
        row["compression"]: (row["sizeBytes"], row["plainBytes"] or 0, row["batches"])
        for row in _of(summary.compression, topic)
    }
    items = [
        Bar(
            name,
            size,
            f"{bytes_text(size)}, {ratio_text(plain / size if size and plain else None)}",
            f"{name}: {batches:,} batches, {size:,} bytes on disk, {plain:,} before compression",
            "c4",
            plain,
        )
        for name, (size, plain, batches) in sorted(found.items(), key=lambda each: -each[1][0])
    ]
    return Card("Compression", "pale: before", bars(items, 52, 340)) if items else None


def _compaction(rows: Sequence[Row]) -> Card:
    total = sum(row["recordBytes"] for row in rows)
    gone = sum(row["supersededBytes"] for row in rows)
    tombstones, superseded = sum(row["tombstones"] for row in rows), sum(row["supersededRecords"] for row in rows)
    if not total or not sum(row["keys"] for row in rows):
        return Card("Compaction", "", None, "no record has a key, so nothing would be removed")
    parts = [
        Part("stays", total - gone, bytes_text(total - gone), "c2"),
        Part("replaced later", gone, bytes_text(gone), "c7"),
    ]
    about = f"{count_text(superseded)} records would go; {count_text(tombstones)} tombstones"
    return Card("Compaction", about, split(parts))


def _lateness(summary: Summary, topic: str) -> Card | None:
    rows = _of(summary.lateness, topic)
    if not rows:
        return None
    parts: list[Part] = []
    styles = iter(("c1", "c3", "c3", "c5", "c5", "cbad", "cbad"))
    for row in rows:
        if row["lateMs"] is None:
            parts.insert(0, Part("in time", row["batches"], count_text(row["batches"]), "c2"))
            continue
        name = f"\N{GREATER-THAN OR EQUAL TO} {span_text(row['lateMs'])}"
        parts.append(Part(name, row["batches"], count_text(row["batches"]), next(styles)))
    worst = max(row["maxLateMs"] or 0 for row in rows)
    about = f"batches by how late their oldest record is; at most {span_text(worst)}" if worst else "all in order"
    return Card("Timestamp order", about, split(parts))


def _of(rows: Sequence[Row], topic: str) -> list[Row]:
    return [row for row in rows if row["topic"] == topic]
