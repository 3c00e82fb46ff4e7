"""The layers of the architecture hold, and the check would notice if they did not.

Method: import-linter runs on the package with the contracts of pyproject.toml; then on copies of the package with one
forbidden import planted in each.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("codegen", "conformance", "reference_broker", "sdk", "src")

#: the module that breaks a rule, what it imports, a word of the contract that it breaks
VIOLATIONS = [
    ("sdk/protocol/connection.py", "kafkawire.sdk.client", "Each layer"),
    ("sdk/producer/__init__.py", "kafkawire.sdk.consumer", "Each layer"),
    ("sdk/groups/__init__.py", "kafkawire.sdk.client", "Each layer"),
    ("sdk/routing/__init__.py", "kafkawire.sdk.groups", "Each layer"),
    ("reference_broker/__init__.py", "kafkawire.sdk.client", "The broker"),
    ("reference_broker/__init__.py", "kafkawire.sdk.groups", "The broker"),
    ("codegen/__init__.py", "kafkawire.sdk.errors", "Code generation"),
    ("conformance/__init__.py", "kafkawire.codegen", "Nothing at run time"),
    ("sdk/errors.py", "kafkawire.sdk.client", "below the client"),
    ("reference_broker/storage/__init__.py", "kafkawire.reference_broker.groups", "The rooms of the broker import"),
    ("reference_broker/storage/disk/disk.py", "kafkawire.reference_broker.storage.log", "The rooms of the broker's st"),
    ("src/kafkawire/commands/inspection/dumping/window.py", "kafkawire.reference_broker.storage.disk", "The dump"),
    ("src/kafkawire/commands/streams.py", "kafkawire.commands.broker.broker", "The dump"),
    ("src/kafkawire/commands/inspection/dump.py", "kafkawire.commands.schemas.codegen", "The families of commands"),
]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    return subprocess.run(
        command,
        cwd=root,
        env={"PYTHONPATH": str(root / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_layers_hold() -> None:
    outcome = lint(ROOT)
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize(("module", "imported", "contract"), VIOLATIONS)
def test_violation_is_noticed(tmp_path: Path, module: str, imported: str, contract: str) -> None:
    sources_only = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.gz", "*.yaml")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=sources_only)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "schemas").mkdir()
    path = tmp_path / module
    path.write_text(f"{path.read_text('utf-8')}\nimport {imported}\n", "utf-8")
    outcome = lint(tmp_path)
    broken = [line for line in outcome.stdout.splitlines() if "BROKEN" in line]
    assert outcome.returncode == 1
    assert any(contract in line for line in broken), outcome.stdout
