"""`kafkawire` lists its parts without loading them, and hands a part its arguments untouched.

Method: the command in a fresh process, where it can be seen which modules were loaded.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkawire import __version__

SHOW_MODULES = """
import atexit, sys
from kafkawire.cli import main
atexit.register(lambda: print("LOADED", *sorted(name for name in sys.modules if name.startswith("kafkawire"))))
main()
"""


def run(*arguments: str, code: int = 0) -> str:
    result = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == code, result.stderr
    return result.stdout + result.stderr


def test_help_loads_no_part() -> None:
    output = run("--help")
    assert all(part in output for part in ("broker", "codegen", "conformance", "demo"))
    assert output.splitlines()[-1] == "LOADED kafkawire kafkawire.cli kafkawire.sdk kafkawire.sdk.version"


def test_version() -> None:
    assert run("--version").startswith(f"kafkawire {__version__}\n")


def test_a_part_gets_its_arguments() -> None:
    output = run("codegen", "list", "FetchRequest", "--kind", "request")
    assert "messages/fetch.yaml" in output
    assert "kafkawire.reference_broker" not in output


def test_help_of_a_part() -> None:
    output = run("codegen", "show", "--help")
    assert "Usage: kafkawire codegen show" in output


@pytest.mark.parametrize("arguments", [("nothing",), ("codegen", "nothing"), ("codegen", "list", "--no-such-option")])
def test_mistakes(arguments: tuple[str, ...]) -> None:
    output = run(*arguments, code=2)
    assert "No such" in output
    assert "Traceback" not in output
