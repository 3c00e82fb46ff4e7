"""A short storm of cancellations runs to completion without finding a fault; faults are counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkawire import Producer
from kafkawire.testing import Broker
from tools.soak import cancels


@pytest.mark.thorough
@pytest.mark.parametrize("seed", ["test-1", "test-2"])
def test_a_short_storm(seed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cancels, "STORM_SECONDS", 0.5)
    assert cancels.main(["--rounds", "1", "--seed", seed]) == 0, capsys.readouterr().out
    assert "cancels: 0 faults" in capsys.readouterr().out


def test_a_record_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The producer replaces one record with another value, and reports the original as stored."""
    monkeypatch.setattr(cancels, "STORM_SECONDS", 0.3)
    send = Producer.send

    class Losing(Producer):
        def send(self, topic: str, value: Any = None, **given: Any) -> Any:
            return send(self, topic, b"another" if value and value[:2] == b"7 " else value, **given)

    monkeypatch.setattr(cancels, "Producer", Losing)
    with Broker() as broker:
        current = cancels.Round(broker.bootstrap, None, "losing")
        asyncio.run(current.run())
    assert current.faults["lost records"] == 1
    assert "lost records" in capsys.readouterr().out
