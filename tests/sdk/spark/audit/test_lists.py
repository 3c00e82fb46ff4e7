"""Lists show rows as text, with the number of rows, and are omitted if empty."""

from __future__ import annotations

from kafkawire.sdk.spark.audit.lists import folded_list, lists
from kafkawire.sdk.spark.audit.pages import rendered
from kafkawire.sdk.spark.audit.summary import ROWS_SHOWN, Summary
from tests.sdk.spark.audit.drawings import list_text
from tests.sdk.spark.audit.summaries import START_MS, partition, summary


def text_of(found: Summary) -> str:
    return rendered("lists.html.jinja", lists=lists(found))


def test_a_list() -> None:
    text = list_text(folded_list("Title", ("name", "size#"), [("<a>", "1"), ("b" * 99, "2")], is_open=True))
    assert '<details class="card" open><summary>Title <small>2</small>' in text
    assert '<th>name</th><th class="number">size</th>' in text
    assert '<td>&lt;a&gt;</td><td class="number">1</td>' in text
    assert '<td class="wrap">' in text
    assert list_text(folded_list("Title", ("name",), [])).strip() == ""


def test_whole_and_not_whole() -> None:
    assert "<small>200</small>" in list_text(folded_list("Title", ("name",), [("a",)] * ROWS_SHOWN))
    text = list_text(folded_list("Title", ("name",), [("a",)] * (ROWS_SHOWN + 1)))
    assert "<small>200 and more</small>" in text
    assert text.count("<td>") == ROWS_SHOWN
    partitions = [partition("t", number) for number in range(1001)]
    assert "Partitions <small>1,000 and more</small>" in text_of(Summary(partitions=partitions))
    assert "Partitions <small>1,000</small>" in text_of(Summary(partitions=partitions[1:]))
    assert "Partitions <small>200</small>" in text_of(Summary(partitions=partitions[:200]))


def test_lists() -> None:
    place = {"topic": "t", "partition": 7}
    text = text_of(
        Summary(
            partitions=[partition("t", 7, records=1234, sizeBytes=2048)],
            gaps=[{**place, "startOffset": 1000, "endOffset": 3000, "offsets": 2000, "cause": "unknown"}],
            duplicates=[
                {**place, "baseOffset": 5, "lastOffset": 9, "producerId": 1, "producerEpoch": 0, "baseSequence": 0}
                | {"lastSequence": 4, "records": 5, "followsOffset": 4}
            ],
            transactions=[
                {**place, "outcome": "ABORT", "firstOffset": 5, "lastOffset": 9, "producerId": 1, "producerEpoch": 0}
                | {"records": 4, "sizeBytes": 400, "firstTimestamp": START_MS}
            ],
            corrupt=[
                {**place, "position": 10, "sizeBytes": 20, "expectedOffset": None, "reason": "<crc>", "path": "/a"}
            ],
        )
    )
    for part in ("t-7", "1,234", "2,000", "unknown", "abort", "2023-11-14 22:20:00", "&lt;crc&gt;", "Written twice"):
        assert part in text, part
    assert "Gaps" not in text_of(summary())
