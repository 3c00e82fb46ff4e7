"""A micro-batch takes approximately its byte limit, from every partition that has records, and always advances."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.segments.byte_limits import limited_by_bytes
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import batch, write_segment

SIZES = [len(batch(number * 10)) for number in range(20)]


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("limit", [1, 500, 1200, 3000, 7000, 1 << 30])
def test_bytes(tmp_path: Path, limit: int, has_index: bool) -> None:
    """The position advances over several segments, from batch to batch, until nothing is left."""
    for base in (0, 50, 100):
        batches = [batch(number * 10) for number in range(base // 10, 20 if base == 100 else base // 10 + 5)]
        path = write_segment(tmp_path / "orders-0", batches)
        if not has_index:
            path.with_suffix(".index").unlink()
    files = SegmentFiles([str(tmp_path)])
    segments = {"orders-0": files.find()}
    reached, steps = 0, []
    while reached < 200:
        (end,) = limited_by_bytes({"orders-0": (reached, 200)}, segments, files, limit).values()
        assert end > reached
        assert end % 10 == 0
        taken = sum(SIZES[reached // 10 : end // 10])
        # An index does not name the first batch, so bytes are counted from the beginning of the batch with the start.
        assert taken <= limit + SIZES[-1] or end == reached + 10
        steps.append(end)
        reached = end
    assert len(steps) >= sum(SIZES) // (limit + SIZES[-1])
    if limit == 1:
        assert steps == list(range(10, 210, 10))


def test_start_within_a_batch(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", [batch(0), batch(10), batch(20)])
    files = SegmentFiles([str(tmp_path)])
    assert limited_by_bytes({"orders-0": (3, 30)}, {"orders-0": files.find()}, files, 1) == {"orders-0": 10}
    assert limited_by_bytes({"orders-0": (3, 7)}, {"orders-0": files.find()}, files, 1) == {"orders-0": 7}


def test_several_partitions(tmp_path: Path) -> None:
    for partition, count in enumerate([2, 20]):
        write_segment(tmp_path / f"orders-{partition}", [batch(number * 10) for number in range(count)])
    files = SegmentFiles([str(tmp_path)])
    small, large = files.find()
    ranges = {"orders-0": (0, 20), "orders-1": (0, 200)}
    found = limited_by_bytes(ranges, {"orders-0": [small], "orders-1": [large]}, files, 5000)
    assert found["orders-0"] == 10
    assert 80 <= found["orders-1"] <= 110


def test_removed_records(tmp_path: Path) -> None:
    """Compaction has left few records or none between the offsets."""
    write_segment(tmp_path / "orders-0", [batch(5, 1), batch(70, 1)], 0)
    write_segment(tmp_path / "orders-0", [b""], 100)
    files = SegmentFiles([str(tmp_path)])
    segments = {"orders-0": files.find()}
    reached = []
    start = 0
    while start < 100:
        (start,) = limited_by_bytes({"orders-0": (start, 100)}, segments, files, 1).values()
        reached.append(start)
    assert reached == [6, 71, 100]
