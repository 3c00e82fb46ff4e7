"""A package loads a module once, on the first use of one of its names, and rejects unknown names.

Method: write a package to disk, with a module that counts how many times it is executed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = """
from kafkawire.sdk.lazy_names import lazy_names
__getattr__ = lazy_names(__name__, {"One": "inner.numbers"})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    inner = tmp_path / "lazy" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "lazy" / "__init__.py").write_text(PACKAGE)
    (inner / "__init__.py").write_text("")
    (inner / "numbers.py").write_text("One = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield __import__("lazy")
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_name_is_loaded_once(package: ModuleType) -> None:
    assert "lazy.inner.numbers" not in sys.modules
    one = package.One
    assert one is sys.modules["lazy.inner.numbers"].One
    assert vars(package)["One"] is one


def test_other_names_are_unknown(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"^module 'lazy' has no attribute 'Two'$"):
        _ = package.Two
    assert "lazy.inner" not in sys.modules
