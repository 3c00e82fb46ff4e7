"""Code generated from a test's schemas, as an importable package."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from kafkawire.codegen.generate import generated_tree, write_tree

__all__ = ["own_package"]

#: The package's name, while it exists.
NAME = "own_package_of_a_test"


@contextmanager
def own_package(folder: Path, schemas: Mapping[str, str]) -> Iterator[tuple[ModuleType, ModuleType]]:
    """Generate code from schemas, and provide the generated modules `messages` and `tables.apis`.

    Args:
        folder: an empty folder for schemas and code.
        schemas: the text of each file, keyed by file name without `.yaml`.
    """
    (folder / "schemas").mkdir()
    for name, text in schemas.items():
        path = folder / "schemas" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    write_tree(generated_tree(folder / "schemas"), folder / NAME)
    sys.path.insert(0, str(folder))
    try:
        yield import_module(f"{NAME}.messages"), import_module(f"{NAME}.tables.apis")
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[name]
