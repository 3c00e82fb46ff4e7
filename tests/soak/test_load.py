"""A small load is measured from the first partition to the last restart."""

from __future__ import annotations

import pytest

from tools.soak import load


@pytest.mark.thorough
def test_a_small_load(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(load, "RESTART_SECONDS_MAX", 60.0)  # this is not the place to measure
    monkeypatch.setattr(load, "FEW_PARTITIONS", 20)
    size = ["--seconds", "1", "--partitions", "60", "--connections", "12", "--groups", "4", "--commits", "400"]
    assert load.main(size) == 0
    shown = capsys.readouterr().out
    assert "12 connections, 60 partitions, 4 groups, heartbeats only" in shown
    assert "restart after a kill" in shown
    assert "20 partitions run and start again" in shown


def test_partitions_are_of_as_many_topics_as_needed() -> None:
    assert load._topics(2_500) == {"load-0": 1_000, "load-1": 1_000, "load-2": 500}
