"""Hostile clients do no harm, and the soak test notices a broker that fails because of them.

Method: do a short run, and check a log that contains a traceback.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tools.soak import hostile
from tools.soak.broker_process import BrokerProcess


@pytest.mark.thorough
def test_no_harm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(hostile, "P99_MS_MAX", 5_000.0)  # this is not the place to measure
    assert hostile.main(["--seconds", "2"]) == 0
    assert "0 tracebacks" in capsys.readouterr().out


@pytest.mark.thorough
def test_defects_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback (most recent call last):\n  what happened\n")
    with BrokerProcess(tmp_path / "data") as broker:
        given = argparse.Namespace(seconds=2, seed=1)
        assert hostile._judged(broker, given, log) == 1
    assert "what happened" in capsys.readouterr().out


def test_every_api_is_asked() -> None:
    keys = {key for key, *_ in hostile._requests()}
    assert len(keys) > 40
    assert not keys & set(hostile._NOT_SENT)
