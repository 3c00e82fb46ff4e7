"""The section about a topic shows what stands out: damaged partitions in red, frequent keys, and late batches."""

from __future__ import annotations

import pytest

from kafkawire.sdk.spark.audit.pages import rendered
from kafkawire.sdk.spark.audit.summary import Summary
from kafkawire.sdk.spark.audit.topic_section import key_text, topic_section
from tests.sdk.spark.audit.summaries import partition, summary


def text_of(found: Summary) -> str:
    return rendered("topic.html.jinja", topic=topic_section(found, "orders"))


def test_damaged_partitions_are_red() -> None:
    rows = [
        partition("orders", 0, records=10, sizeBytes=100, corruptRegions=1),
        partition("orders", 1, records=10, sizeBytes=100),
        partition("orders", 2, records=10, sizeBytes=100, lostRecords=7),
    ]
    text = text_of(summary(partitions=rows))
    assert text.count('class="cbad"') == 2
    assert "red: damaged, or with records that are probably lost" in text
    assert "corrupt regions <b>1</b>" in text
    assert "probably lost <b>7</b>" in text
    assert "red: damaged" not in text_of(summary())


def test_a_producer_of_several_partitions_is_one() -> None:
    rows = [partition("orders", number, records=10, producers=1) for number in range(6)]
    assert "producers in a partition <b>up to 1</b>" in text_of(summary(partitions=rows))


@pytest.mark.parametrize(("partitions", "where"), [(1, "partition 1"), (6, "6 partitions")])
def test_where_a_key_is(partitions: int, where: str) -> None:
    (row,) = summary().top_keys
    text = text_of(summary(top_keys=[{**row, "partitions": partitions}]))
    assert f"61,000 bytes, {where}" in text


def test_keys_and_lateness() -> None:
    text = text_of(summary())
    assert "records with a key, from the rarest key to the most frequent; Gini 0.71" in text
    assert "20 keys, 8,000 records with a key" in text
    assert "share of the records with a key" in text
    assert "6.10 k, 76.2 %" in text
    assert "in time" in text
    assert "\N{GREATER-THAN OR EQUAL TO} 1 min" in text
    assert "at most 1 min 30 s" in text


def test_many_keys_make_a_short_curve() -> None:
    counts = [{"topic": "orders", "keys": 1, "records": number} for number in range(1, 5000)]
    text = text_of(summary(key_counts=counts))
    assert len(text) < 20_000
    assert "4,999 keys" in text


def test_no_keys() -> None:
    rows = [partition("orders", 0, records=10, sizeBytes=100, recordBytes=50)]
    text = text_of(summary(partitions=rows, key_counts=[], top_keys=[]))
    assert "no record has a key" in text
    assert "so nothing would be removed" in text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "no key"),
        (b"order 7", "order 7"),
        ("Grüße".encode(), "Grüße"),
        (b"\x00\x01", "00 01"),
        (b"\xff" * 99, "ff ff ff ff ff ff ff ff ff ff ff ff ff …"),
    ],
)
def test_key_text(key: bytes | None, text: str) -> None:
    assert key_text(key) == text
