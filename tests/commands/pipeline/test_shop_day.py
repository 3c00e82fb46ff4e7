"""The demo's day contains everything that its report shows, and has the same records each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.commands.pipeline.shop_day import DAY_MS, write_day
from kafkawire.sdk.records.stored import Damage, Memory, read_stored
from kafkawire.sdk.spark.audit.commits import OFFSETS_TOPIC, commits


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


def content(folder: Path, topic: str) -> list[Any]:
    """Return a topic's records; for groups, return the commits in order, without the machine-dependent times."""
    found: list[Any] = []
    for path in sorted(folder.glob(f"{topic}-*/*.log")):
        for each in read_stored(Memory(path.read_bytes())):
            if isinstance(each, Damage) or each.batch.is_control:
                continue
            records = [
                (record.offset, record.key, record.value, record.timestamp_ms) for record in each.batch.records()
            ]
            if topic == OFFSETS_TOPIC:
                said = commits(record[:3] for record in records)
                found += [commit[1:-1] for commit in said if commit.topic == "orders"]
            else:
                found += [(path.parent.name, *record) for record in records]
    return found


@pytest.mark.thorough
def test_the_same_each_time(tmp_path: Path) -> None:
    """Records with keys are in the same places; those without keys are the same, but may be in other partitions."""
    for name in ("first", "second"):
        write_day(tmp_path / name, scale=0.01)
    first, second = (tmp_path / name / "broker" for name in ("first", "second"))  # without the damaged copy
    for topic in ("orders", "customers", "payments", "sensors", OFFSETS_TOPIC):
        records = content(first, topic)
        assert len(records) > 100
        assert content(second, topic) == records, topic
    clicks = [
        sorted(record[2:] for record in content(folder, "clicks") if record[2] is None) for folder in (first, second)
    ]
    assert len(clicks[0]) > 100
    assert clicks[0] == clicks[1]


@pytest.mark.thorough
def test_another_seed_is_another_day(tmp_path: Path) -> None:
    first, second = (write_day(tmp_path / str(seed), scale=0.01, seed=seed).segments for seed in (1, 2))
    assert content(first, "customers") != content(second, "customers")
