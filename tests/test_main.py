"""`python -m kafkawire` is the command `kafkawire`.

Method: run the module in a fresh process.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkawire import __version__


@pytest.mark.parametrize(("arguments", "status", "text"), [(["--version"], 0, f"kafkawire {__version__}"), ([], 2, "")])
def test_the_package_can_be_run(arguments: list[str], status: int, text: str) -> None:
    command = [sys.executable, "-m", "kafkawire", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (status, "")
    assert result.stdout.startswith(text or "usage: kafkawire COMMAND")
