"""The day of the demo has what its report is to show, and is the same each time, but for where batches begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.commands.shop_day import DAY_MS, write_day
from kafkawire.sdk.records.stored import Damage, Memory, read_stored


def test_a_day(tmp_path: Path) -> None:
    day = write_day(tmp_path, scale=0.02)
    assert day.records > 1000
    assert day.topics == 5
    assert "a byte of clicks-" in day.damage
    found = {"batches": 0, "damage": 0, "aborted": 0}
    times = []
    for path in day.segments.glob("*/*.log"):
        for each in read_stored(Memory(path.read_bytes())):
            if isinstance(each, Damage):
                found["damage"] += 1
                assert path.parent.name.startswith("clicks-")
                continue
            found["batches"] += 1
            times.append(each.batch.max_timestamp)
    assert found["damage"] == 1
    assert found["batches"] > 500
    assert DAY_MS <= min(times) < DAY_MS + 3_600_000
    assert DAY_MS + 82_800_000 <= max(times) <= DAY_MS + 90_000_000


@pytest.mark.parametrize("topic", ["customers", "payments", "__consumer_offsets"])
def test_the_same_each_time(tmp_path: Path, topic: str) -> None:
    sizes = []
    for name in ("first", "second"):
        day = write_day(tmp_path / name, scale=0.01)
        paths = sorted(day.segments.glob(f"{topic}-*/*.log"))
        batches = (each for path in paths for each in read_stored(Memory(path.read_bytes())))
        sizes.append(sum(each.batch.records_count for each in batches if not isinstance(each, Damage)))
    assert sizes[0] == sizes[1]
