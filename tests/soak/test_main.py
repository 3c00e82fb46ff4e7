"""A soak test is selected by name."""

from __future__ import annotations

import pytest

from tools.soak.__main__ import NAMES, main


@pytest.mark.parametrize("arguments", [[], ["nothing"]])
def test_unknown_names_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert all(name in shown for name in NAMES)


def test_arguments_reach_the_soak(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["cancels", "--help"])
    assert caught.value.code == 0
    assert "python -m tools.soak cancels" in capsys.readouterr().out
