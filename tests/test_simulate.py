"""The command that runs a cluster in virtual time reports passing seeds and a failing one."""

from __future__ import annotations

import pytest

from tools.simulate import main


def test_seeds_that_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1:2", "--trace"]) == 0
    shown = capsys.readouterr().out
    assert "seed 1: " in shown
    assert "1 seeds, 0 failed, " in shown


def test_a_seed_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1:3", "--plant", "acknowledged_before_the_high_watermark"]) == 1
    shown = capsys.readouterr().out
    assert "seed 1 fails: in-" in shown
    assert "needs these parts of its plan (synced: " in shown
    assert "1 seeds, 1 failed, " in shown


@pytest.mark.parametrize("processes", ["1", "2"])
def test_all_seeds(capsys: pytest.CaptureFixture[str], processes: str) -> None:
    plant = ["--plant", "acknowledged_before_the_high_watermark"]
    assert main(["--seeds", "1:3", "--all", "--processes", processes, *plant]) == 1
    assert "2 seeds, 2 failed, " in capsys.readouterr().out
