"""A broker killed 200 times with SIGKILL under load keeps acknowledged records and complete transactions.

Method: run the kills soak. It takes minutes, so the file has a name that pytest does not collect; `make test-kills`
runs it. For two thousand kills, run `python -m tools.soak kills --kills 2000`.
"""

from __future__ import annotations

import pytest

from tools.soak import kills

#: One kill in four is a SIGTERM, so 200 are SIGKILLs. This takes about 70 s on two idle cores, and 260 s on busy ones.
ENDS = 266


@pytest.mark.timeout(1200)
def test_two_hundred_kills(capsys: pytest.CaptureFixture[str]) -> None:
    status = kills.main(["--kills", str(ENDS), "--seed", "7"])
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "kills: 200 SIGKILL, 66 SIGTERM" in shown
