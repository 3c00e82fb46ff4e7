"""The architecture's layers hold, and the check would notice if they did not.

Method: run import-linter with the contracts of pyproject.toml on the package, then on a copy with forbidden imports
planted in it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("codegen", "conformance", "reference_broker", "sdk", "src")

#: the module that breaks a rule, its import, and a word in the contract that it breaks
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


def test_violations_are_noticed(tmp_path: Path) -> None:
    sources_only = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.gz", "*.yaml")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=sources_only)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "schemas").mkdir()
    for module, imported, _ in VIOLATIONS:
        path = tmp_path / module
        path.write_text(f"{path.read_text('utf-8')}\nimport {imported}\n", "utf-8")
    outcome = lint(tmp_path)
    assert outcome.returncode == 1
    # Each contract has a separate line in the results, and a separate section with the imports that break it.
    results, _, sections = outcome.stdout.partition("Broken contracts")
    for module, imported, contract in VIOLATIONS:
        assert any(contract in line and "BROKEN" in line for line in results.splitlines()), (contract, outcome.stdout)
        importer = "kafkawire." + module.removeprefix("src/kafkawire/").removesuffix(".py").removesuffix("/__init__")
        of_contract = sections[sections.index(contract) :]
        assert f"{importer.replace('/', '.')} -> {imported} (" in of_contract, (contract, outcome.stdout)
