"""What is public is declared, exists, is documented, and nothing else is.

Method: every module outside the underscore is imported and its `__all__` compared with what it holds; the names of the
face `kafkawire` are looked up where they are defined.
"""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest
import typer

import kafkawire

#: Modules that need a package outside the dependencies of a plain install.
OPTIONAL = {"kafkawire.sdk.spark": "pyspark", "kafkawire.spark": "pyspark"}


def public_modules() -> list[str]:
    """Return the name of every module but the extensions, whose classes are reached by the modules around them."""
    found = ["kafkawire"]
    for module in pkgutil.walk_packages(kafkawire.__path__, "kafkawire."):
        if not module.name.endswith(".engines.native"):
            found.append(module.name)
    return found


def load(name: str) -> ModuleType:
    """Import a module, or skip where the optional package that it needs is not installed."""
    for prefix, package in OPTIONAL.items():
        if name.startswith(prefix):
            pytest.importorskip(package, reason=f"{name} needs {package}")
    return import_module(name)


@pytest.mark.parametrize("name", public_modules())
def test_declared_names_exist_once(name: str) -> None:
    module = load(name)
    declared = list(getattr(module, "__all__", ()))
    assert len(declared) == len(set(declared))
    assert [name for name in declared if not hasattr(module, name)] == []


@pytest.mark.parametrize("name", public_modules())
def test_defined_names_are_declared(name: str) -> None:
    """A public class or function that a module defines stands in its `__all__`; commands are reached by their app."""
    module = load(name)
    if any(isinstance(value, typer.Typer) for value in vars(module).values()):
        return
    defined = {
        key
        for key, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == name
        and not key.startswith("_")
    }
    assert defined - set(getattr(module, "__all__", ())) == set()


def test_face_declares_what_it_gives() -> None:
    """Each name of `kafkawire` is public where it is defined, and documented."""
    for name in kafkawire.__all__:
        value = getattr(kafkawire, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert name in import_module(f"kafkawire.{kafkawire._HOMES[name]}").__all__
            assert inspect.getdoc(value)


def test_face_holds_nothing_else() -> None:
    """A fresh `import kafkawire` shows its declared names; the rest are its modules."""
    script = (
        "import kafkawire, pkgutil\n"
        "modules = {module.name for module in pkgutil.iter_modules(kafkawire.__path__)}\n"
        "shown = {name for name in dir(kafkawire) if not name.startswith('_') or name in kafkawire.__all__}\n"
        "print(sorted(shown ^ set(kafkawire.__all__) - modules))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
