"""A broker that gets 200 SIGKILLs under load keeps what it has acknowledged, transactions whole.

Method: the soak of kills. Since it needs minutes, its name is none that pytest looks for: `make test-kills` runs it.
Two thousand: `python -m tools.soak kills --kills 2000`.
"""

from __future__ import annotations

import pytest

from tools.soak import kills

#: With one SIGTERM in four, 200 of them are SIGKILL: about 70 s on two quiet cores, 260 s on busy ones.
ENDS = 266


@pytest.mark.timeout(1200)
def test_two_hundred_kills(capsys: pytest.CaptureFixture[str]) -> None:
    status = kills.main(["--kills", str(ENDS), "--seed", "7"])
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "kills: 200 SIGKILL, 66 SIGTERM" in shown
