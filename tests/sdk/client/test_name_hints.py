"""Importing another client library's name raises an error that says which name or module to use instead.

Method: compare the table with the modules that applications import from.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

import kafkawire
from kafkawire.sdk.client.name_hints import NAMES

MODULES = ("kafkawire", "kafkawire.errors", "kafkawire.sync")


def imported(module: str, name: str) -> Any:
    """Return the object that `from … import` finds under a name."""
    found: dict[str, Any] = {}
    exec(f"from {module} import {name}", found)
    return found[name]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    ("name", "advice"), [(name, advice) for advice, names in NAMES.items() for name in names.split()]
)
def test_a_name_of_another_client(module: str, name: str, advice: str) -> None:
    with pytest.raises(ImportError, match=f"^{re.escape(f'{module} has no {name}: {advice}')}$"):
        imported(module, name)


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("kafkawire", "Closed", "kafkawire.errors"),
        ("kafkawire.sync", "TopicPartition", "kafkawire"),
        ("kafkawire.sync", "RequestTimedOut", "kafkawire.errors"),
        ("kafkawire.errors", "Consumer", "kafkawire"),
    ],
)
def test_a_name_of_another_module(module: str, name: str, home: str) -> None:
    with pytest.raises(ImportError, match=f"^{module} has no {name}: import it from {home}$"):
        imported(module, name)
    assert imported(home, name)


@pytest.mark.parametrize("module", MODULES)
def test_other_names(module: str) -> None:
    assert not hasattr(import_module(module), "nonsense")
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nonsense'$"):
        import_module(module).nonsense  # noqa: B018  # it raises
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        imported(module, "nonsense")


def test_the_advice_holds() -> None:
    """Every module and name that the advice mentions exists."""
    for advice, names in NAMES.items():
        for name in re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b(?! you)", advice.partition(":")[0]):
            assert any(name in import_module(each).__all__ for each in (*MODULES, "kafkawire.testing")), (advice, name)
        assert not set(names.split()) & {*kafkawire.__all__, *import_module("kafkawire.errors").__all__}


def test_modules_are_loaded_as_attributes() -> None:
    """This needs a separate process, because the modules are already loaded in this one."""
    program = "import kafkawire; print(kafkawire.errors.Closed, kafkawire.sync.Producer, kafkawire.testing.Broker)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert [each for each in ("Closed", "Producer", "Broker") if each not in shown] == []
