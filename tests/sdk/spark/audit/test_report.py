"""The page is complete and self-contained, whatever names it shows, for one partition or a thousand.

Method: read the page with an HTML parser, and check its references and elements.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from kafkawire.sdk.spark.audit.audit import AuditResult
from kafkawire.sdk.spark.audit.report import lag_series, numbers_of, report
from kafkawire.sdk.spark.audit.summary import Summary
from tests.sdk.spark.audit.summaries import FRAME, START_MS, partition, summary

HOSTILE = "<img src=x onerror=alert(1)>'\"&"

#: Elements without an end tag.
VOID = {"meta"}


class Page(HTMLParser):
    """A parser that records a page's content, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] == [tag]:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += f"{data}\n"


def test_self_contained() -> None:
    text = report(summary(), "/var/lib/kafka/data")
    page = Page(text)
    assert page.tags <= {
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "header",
            "main",
            "footer",
            "h1",
            "h2",
            "h3",
            "p",
            "b",
            "i",
        ),
        *("div", "span", "small", "ul", "li", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"),
        *("svg", "path", "rect", "text", "g", "circle"),
    }
    assert not page.names & {"href", "src", "style", "onload"}
    assert "url(" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text


def test_content() -> None:
    page = Page(report(summary(), "/var/lib/kafka/data"))
    for text in (
        *("/var/lib/kafka/data", "Findings", "One key has 76.2 % of the records of orders", "8.00 k", "488 KiB"),
        *("Records over time", "Bytes by partition", "Key skew", "Compaction", "Timestamp order", "Lag over time"),
        *("Committed offsets", "billing", "orders-0", "2.40\N{MULTIPLICATION SIGN}"),
    ):
        assert text in page.text, text


@pytest.mark.parametrize(("topic", "has_section"), [("__consumer_offsets", False), ("__orders", True)])
def test_sections_are_about_topics_of_applications(topic: str, has_section: bool) -> None:
    assert ("Bytes by partition" in report(summary(topic), "")) is has_section


def test_hostile_names() -> None:
    text = report(summary(HOSTILE, HOSTILE.encode(), HOSTILE), HOSTILE)
    page = Page(text)
    assert "img" not in page.tags
    assert HOSTILE in page.text


@pytest.mark.parametrize("key", [b"\xff\x00", b"a\nb", b"", b"k" * 500])
def test_keys_of_any_bytes(key: bytes) -> None:
    assert "Most frequent keys" in Page(report(summary(key=key), "")).text


@pytest.mark.parametrize(
    "found",
    [
        Summary(),
        Summary(partitions=[partition("t", 0, plainBytes=None, startOffset=None, endOffset=None, firstTimestamp=None)]),
        summary(frame=None, rates=[], lags=[]),
        summary(key_counts=[], top_keys=[], lateness=[], compression=[], groups=[], lags=[]),
    ],
)
def test_little_is_known(found: Summary) -> None:
    assert "Kafka audit" in Page(report(found, "")).text


def test_many_partitions_and_topics() -> None:
    rows = [
        partition(f"topic-{number % 40}", number // 40, records=number, sizeBytes=1000 + number)
        for number in range(4000)
    ]
    text = report(summary(partitions=rows), "")
    assert "28 more are in the tables" in text
    assert "the 64 largest of 100" in text
    assert len(re.findall("<tr>", text)) < 1200
    assert len(text) < 1_500_000


def test_numbers() -> None:
    numbers = numbers_of(summary())
    assert (numbers["topics"], numbers["partitions"], numbers["records"], numbers["groups"]) == (1, 2, 8000, 1)
    assert numbers["compressionRatio"] == pytest.approx(2.4)


def test_every_number_is_documented() -> None:
    assert AuditResult.__doc__ is not None
    names = re.findall("`([^`]+)`", AuditResult.__doc__.partition("numbers: ")[2])
    assert sorted(names) == sorted(numbers_of(summary()))


def test_groups_that_are_not_shown_are_counted() -> None:
    found = summary(groups_count=4321, groups_behind=1234, lag=9_000_000)
    assert numbers_of(found)["groups"] == 4321
    text = Page(report(found, "")).text
    assert "4.32 k" in text
    assert "9.00 M behind" in text


def test_the_worst_lag_comes_first() -> None:
    rows = [
        {"group": group, "topic": "t", "time": START_MS + time, "lag": lag}
        for group, time, lag in (("a", 0, 6.0), ("a", 60_000, 0.0), ("b", 0, 7.0))
    ]
    first, second = lag_series(rows)
    assert (first.name, second.name) == ("b in t", "a in t")
    assert list(second.points) == [(START_MS, 6.0), (START_MS + 60_000, 0.0)]
    assert lag_series([]) == []
    assert FRAME.step_ms == 60_000
