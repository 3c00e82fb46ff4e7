"""A broker that is killed 200 times under load keeps what it has acknowledged, transactions whole.

Method: the soak of kills; it needs no Kafka, but minutes. Two thousand: `python -m tools.soak kills --kills 2000`.
"""

from __future__ import annotations

import pytest

from tools.soak import kills


def test_two_hundred_kills(capsys: pytest.CaptureFixture[str]) -> None:
    assert kills.main(["--kills", "200", "--seed", "7"]) == 0, capsys.readouterr().out
    assert "kills: 150 SIGKILL, 50 SIGTERM" in capsys.readouterr().out
