"""The report: one self-contained HTML page that a browser can display offline.

It begins with the numbers and the findings, continues with plots for all topics, for each topic and for groups, and
ends with lists. The HTML is in `templates/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS
from kafkawire.sdk.spark.audit.findings import findings_of
from kafkawire.sdk.spark.audit.lists import FoldedList, folded_list, lists
from kafkawire.sdk.spark.audit.plots import WIDE, Bar, LegendEntry, Plot, Series, bars, lines, stacked
from kafkawire.sdk.spark.audit.quantities import (
    NONE,
    bytes_text,
    count_text,
    number_text,
    ratio_text,
    span_text,
    time_text,
)
from kafkawire.sdk.spark.audit.summary import GROUPS_SHOWN, Row, Summary
from kafkawire.sdk.spark.audit.topic_section import Card, topic_section

__all__ = ["lag_series", "numbers_of", "report"]

#: The colours of series, as CSS classes; any further series share the last colour.
STYLES: Final = ("c1", "c2", "c3", "c4", "c5", "c6")
OTHERS_STYLE: Final = "c7"


class _Tile(NamedTuple):
    """A number at the top of the page, with a short caption."""

    name: str
    value: str
    about: str


class _AllTopics(NamedTuple):
    """The section about all topics; `about` says how many topics are not shown."""

    about: str
    cards: Sequence[Card]


class _Groups(NamedTuple):
    """The section about consumer groups."""

    cards: Sequence[Card]
    offsets: FoldedList


def report(summary: Summary, source: str) -> str:
    """Return the report as an HTML page.

    Args:
        summary: the content of the report.
        source: the paths that were read, or the brokers.
    """
    from kafkawire.sdk.spark.audit.pages import rendered  # imports jinja2, which only the report needs

    findings = findings_of(summary)
    return rendered(
        "report.html.jinja",
        source=source,
        tiles=_tiles(summary, len(findings)),
        findings=findings,
        all_topics=_all_topics(summary),
        topics=[topic_section(summary, topic) for topic in summary.topics if topic not in INTERNAL_TOPICS],
        groups=_groups(summary) if summary.groups else None,
        lists=lists(summary),
    )


def numbers_of(summary: Summary) -> dict[str, int | float | None]:
    """Return the numbers at the top of the report; `AuditResult` describes them."""
    rows = summary.partitions
    size, plain = _sum(rows, "sizeBytes"), sum(row["plainBytes"] or 0 for row in rows)
    return {
        "topics": len({row["topic"] for row in rows}),
        "partitions": len(rows),
        "records": _sum(rows, "records"),
        "batches": _sum(rows, "batches"),
        "sizeBytes": size,
        "compressionRatio": plain / size if size and plain else None,
        "groups": summary.groups_count,
        "lostRecords": _sum(rows, "lostRecords"),
        "corruptRegions": _sum(rows, "corruptRegions"),
        "gaps": _sum(rows, "gaps"),
        "unknownGaps": _sum(rows, "unknownGaps"),
        "duplicateRecords": _sum(rows, "duplicateRecords"),
        "abortedTransactions": _sum(rows, "abortedTransactions"),
        "openTransactions": _sum(rows, "openTransactions"),
    }


def _tiles(summary: Summary, findings_count: int) -> list[_Tile]:
    numbers = numbers_of(summary)
    first = min(
        (row["firstTimestamp"] for row in summary.partitions if row["firstTimestamp"] is not None), default=None
    )
    last = max((row["lastTimestamp"] for row in summary.partitions if row["lastTimestamp"] is not None), default=None)
    records, size = numbers["records"] or 0, numbers["sizeBytes"] or 0
    span = NONE if first is None or last is None else span_text(max(last - first, 0))
    tiles = [
        ("Topics", count_text(numbers["topics"] or 0), f"{numbers['partitions']:,} partitions"),
        ("Records", count_text(records), f"{numbers['batches']:,} batches"),
        ("On disk", bytes_text(size), f"{bytes_text(size / records)} a record" if records else ""),
        ("Compression", ratio_text(numbers["compressionRatio"]), "before : on disk"),
        ("Time", span, f"from {time_text(first)[:10]}" if first is not None else ""),
        ("Groups", count_text(numbers["groups"] or 0), f"{count_text(summary.lag)} behind"),
        *([("Lost", count_text(lost), "records, probably")] if (lost := numbers["lostRecords"]) else []),
        ("Findings", str(findings_count), "see below" if findings_count else "nothing needs attention"),
    ]
    return [_Tile(*tile) for tile in tiles]


def _all_topics(summary: Summary) -> _AllTopics:
    cards = []
    styles: dict[str, str] = dict(zip(summary.topics, STYLES, strict=False))
    if summary.frame is not None and summary.rates:
        series = _series(summary, styles)
        plot = stacked(series, summary.frame, count_text, WIDE, 230)
        cards.append(Card("Records over time", f"in {span_text(summary.frame.step_ms)}", _with_legend(plot, series)))
    sizes = []
    for topic in summary.topics:
        rows = [row for row in summary.partitions if row["topic"] == topic]
        size, plain = _sum(rows, "sizeBytes"), sum(row["plainBytes"] or 0 for row in rows)
        ratio = ratio_text(plain / size if size and plain else None)
        title = f"{topic}: {size:,} bytes on disk, {plain:,} before compression, {len(rows):,} partitions"
        style = styles.get(topic, OTHERS_STYLE)
        sizes.append(Bar(topic, size, f"{bytes_text(size)}, {ratio}", title, style, plain))
    if sizes:
        cards.append(Card("Bytes on disk", "pale: before compression", bars(sizes, 170, WIDE)))
    more = len({row["topic"] for row in summary.partitions}) - len(summary.topics)
    return _AllTopics(f"the {len(summary.topics)} largest; {more:,} more are in the tables" if more else "", cards)


def _with_legend(plot: Plot, series: Iterable[Series]) -> Plot:
    return plot._replace(legend=[LegendEntry(each.style, each.name) for each in series])


def _series(summary: Summary, styles: dict[str, str]) -> list[Series]:
    points: dict[str | None, dict[int, int]] = {}
    for row in summary.rates:
        name = row["topic"] if row["topic"] in styles else None
        of_topic = points.setdefault(name, {})
        of_topic[row["time"]] = of_topic.get(row["time"], 0) + row["records"]
    found = [Series(name, list(points[name].items()), style) for name, style in styles.items() if name in points]
    return [*found, Series("others", list(points[None].items()), OTHERS_STYLE)] if None in points else found


def _groups(summary: Summary) -> _Groups:
    cards = []
    if summary.lag_frame is not None and summary.lags:
        series = lag_series(summary.lags)
        plot = lines(series, summary.lag_frame, count_text, WIDE, 230)
        about = "records between what was committed and the end of the log at that time"
        cards.append(Card("Lag over time", about, _with_legend(plot, series)))
    rows = [
        (
            row["group"],
            f"{row['topic']}-{row['partition']}",
            number_text(row["committedOffset"]),
            number_text(row["logEndOffset"]),
            number_text(row["lag"]),
            number_text(row["commits"]),
            time_text(row["timestamp"]),
        )
        for row in summary.groups
    ]
    names = ("group", "partition", "committed#", "log end#", "lag#", "commits#", "last commit")
    return _Groups(cards, folded_list("Committed offsets", names, rows, is_open=len(rows) <= 12))


def lag_series(lags: Iterable[Row]) -> list[Series]:
    """Return the lag of each group and topic over time, worst first."""
    points: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in lags:
        points.setdefault((row["group"], row["topic"]), []).append((row["time"], row["lag"]))
    worst = sorted(points, key=lambda of: (-max(lag for _, lag in points[of]), of))[:GROUPS_SHOWN]
    styles = [*STYLES, *[OTHERS_STYLE] * GROUPS_SHOWN]
    return [
        Series(f"{group} in {topic}", points[group, topic], style)
        for (group, topic), style in zip(worst, styles, strict=False)
    ]


def _sum(rows: Iterable[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
