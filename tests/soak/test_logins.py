"""Slow logins do no harm to another client, and the soak test notices if they do, or are not answered.

Method: do a short run with few connections, and judge made-up results.
"""

from __future__ import annotations

import pytest

from tests.certificates import Key
from tools.soak import logins
from tools.soak.logins import P99_MS_MAX, _Found, _judged, _Wait


@pytest.mark.thorough
def test_no_harm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(logins, "P99_MS_MAX", 5_000.0)  # this is not the place to measure
    monkeypatch.setattr(logins, "BEFORE_SECONDS", 0.1)
    assert logins.main(["--connections", "20", "--seconds", "0"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{key.value}, {kind}:" in shown for key in Key for kind in logins.KINDS)


@pytest.mark.parametrize(
    ("broker_ms", "unanswered", "is_good"),
    [(P99_MS_MAX, 0, True), (P99_MS_MAX + 1, 0, False), (1.0, 1, False)],
)
def test_judgement(broker_ms: float, unanswered: int, is_good: bool, capsys: pytest.CaptureFixture[str]) -> None:
    waits = [_Wait(900.0, 1.0)] * 97 + [_Wait(900.0, broker_ms)] * 3
    found = _Found([_Wait(1.0, 1.0)], waits, 2.0, unanswered)
    assert _judged(Key.RSA, "tls-begun", [found]) is is_good
    assert f"{unanswered} logins unanswered" in capsys.readouterr().out
