"""A later audit of files continues the partitions that were read earlier, or refuses them.

Method: write a partition, with the note that an audit would make about its end, and then change the partition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.records.batch import rewrite
from kafkawire.sdk.records.engine import RecordBatch
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.audit.continuation import WAY_OUT, check_continuation, check_end, still_there
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import TIME_MS, batch, write_segment

#: The note about `batch(90)`.
NOTED = [90, -1, -1, -1, TIME_MS + 99, 10]

WHOLE = [batch(first) for first in range(0, 100, 10)]
ANEW: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}


def check(folder: Path, next_offset: int = 100) -> None:
    files = SegmentFiles([str(folder)])
    found = {"t": {"0": next_offset}}, {"t": {"0": NOTED}} if next_offset == 100 else {}
    check_continuation(files, files.find(), *found, "/audits/shop")


def cleaned() -> bytes:
    """Return `batch(90)` after cleaning."""
    whole = RecordBatch(batch(90))
    return rewrite(whole, list(whole.records())[:3])


@pytest.mark.parametrize(
    "segments",
    [
        [WHOLE],
        [[*WHOLE, batch(100)]],
        [WHOLE[:5], WHOLE[5:], [batch(100)]],
        [[batch(110)]],  # retention removed the rest
        [WHOLE[:4], [batch(110)]],  # cleaning removed the rest
        [[*WHOLE[:9], cleaned()]],
        [[*WHOLE[:9], cleaned()], [batch(100)]],
        [[*WHOLE[:9], batch(90)[:-1] + b"?"]],  # damage, which the tables report when it is read
    ],
)
def test_it_goes_on(tmp_path: Path, segments: list[list[bytes]]) -> None:
    for batches in segments:
        write_segment(tmp_path / "t-0", batches)
    write_segment(tmp_path / "t-1", [batch(0)])
    write_segment(tmp_path / "u-0", [batch(0)])
    check(tmp_path)


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        (WHOLE[:5], ", but now ends at 50"),
        ([*WHOLE[:9], batch(90, 9)], ", but now ends at 99"),
        (
            [batch(first, **ANEW, base_sequence=first) for first in range(0, 120, 10)],
            " and has a different batch there now",
        ),
        ([*WHOLE[:8], batch(80, 20)], " and has a different batch there now"),
        # Brokers do not merge batches, so a batch that extends past the end of the noted batch is a different one.
        ([*WHOLE[:9], batch(90, 20)], " and has a different batch there now"),
        ([batch(first, 7) for first in range(0, 210, 7)], " and has a different batch there now"),
    ],
)
def test_refused(tmp_path: Path, batches: list[bytes], reason: str) -> None:
    write_segment(tmp_path / "t-0", batches)
    message = f"out='/audits/shop': t-0 was read up to offset 100{reason}; {WAY_OUT}"
    with pytest.raises(ConfigurationError, match=message):
        check(tmp_path)


def test_another_time(tmp_path: Path) -> None:
    """A batch without a producer is identified by its time and its record count, which cleaning never increases."""
    builder = BatchBuilder(base_offset=90)
    for number in range(10):
        builder.append(TIME_MS + 1_000_000 + number, b"key", b"value")
    write_segment(tmp_path / "t-0", [*WHOLE[:9], builder.build()])
    with pytest.raises(ConfigurationError, match="different batch"):
        check(tmp_path)


def test_an_empty_segment(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{100:020}.log").touch()
    check(tmp_path)
    with pytest.raises(ConfigurationError, match=", but now ends at 100"):
        check(tmp_path, 101)


def test_topics_that_were_deleted_since(caplog: pytest.LogCaptureFixture) -> None:
    """Deleted topics are omitted if they were read before; any other missing topic is an error, reported elsewhere."""
    before = {"a": {"0": 5}, "b": {"0": 5}}
    assert still_there(["a", "b", "c"], {"b"}, before) == ["b", "c"]
    assert "partitions deleted since the last audit, whose facts are kept: a" in caplog.text
    caplog.clear()
    assert still_there(["b", "c"], {"b", "c"}, before) == ["b", "c"]
    assert not caplog.text


def test_ends() -> None:
    check_end(TopicPartition("t", 3), 10, 10, "/audits/shop")
    with pytest.raises(ConfigurationError, match="out='/audits/shop': t-3 was read up to offset 10, but now ends at 9"):
        check_end(TopicPartition("t", 3), 10, 9, "/audits/shop")
