"""An import cycle is found wherever the imports stand, and the package has none.

Method: check small packages that contain a cycle or something that only looks like one, then the package itself.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

IN_FUNCTION = "def f():\n    from kafkawire.{} import x\n    return x\n"
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kafkawire.{} import x\n"
PLAIN = "from kafkawire.{} import x\n"

#: modules and their sources, and the expected output
CASES = [
    ({"a": PLAIN.format("b"), "b": PLAIN.format("a")}, "kafkawire.a -> kafkawire.b -> kafkawire.a"),
    ({"a": PLAIN.format("b"), "b": IN_FUNCTION.format("a")}, "kafkawire.a -> kafkawire.b -> kafkawire.a"),
    (
        {"c": PLAIN.format("b"), "b": PLAIN.format("a"), "a": PLAIN.format("c")},
        "kafkawire.a -> kafkawire.c -> kafkawire.b -> kafkawire.a",
    ),
    ({"a": PLAIN.format("b"), "b": FOR_TYPES.format("a")}, "kafkawire.a -> kafkawire.b -> kafkawire.a"),
    ({"a": FOR_TYPES.format("b"), "b": FOR_TYPES.format("a")}, "kafkawire.a -> kafkawire.b -> kafkawire.a"),
    ({"a": FOR_TYPES.format("b"), "b": PLAIN.format("c"), "c": "x = 1\n"}, None),
    ({"a": PLAIN.format("b") + PLAIN.format("c"), "b": PLAIN.format("c"), "c": "x = 1\n"}, None),
]


def run(source: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.circles"]
    environment = {"PYTHONPATH": f"{source}:{ROOT}"}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("modules", "circle"), CASES)
def test_circles(tmp_path: Path, modules: dict[str, str], circle: str | None) -> None:
    (tmp_path / "kafkawire").mkdir()
    for name, text in {"__init__": "", **modules}.items():
        (tmp_path / "kafkawire" / f"{name}.py").write_text(text, "utf-8")
    outcome = run(tmp_path)
    assert outcome.stdout.splitlines() == [
        *([circle] if circle else []),
        f"circles of imports: {int(circle is not None)}",
    ]
    assert outcome.returncode == (1 if circle else 0)


def test_the_package_has_no_circle() -> None:
    outcome = run(ROOT / "src")
    assert outcome.returncode == 0, outcome.stdout
