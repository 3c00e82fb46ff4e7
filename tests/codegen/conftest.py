"""Fixtures shared by the tests of code generation: schemas written by a test, and the project's schemas."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.load import load_file, load_folder
from kafkawire.codegen.spec import MessageSpec, SchemaFile

Write = Callable[[str], Path]
Read = Callable[[str], MessageSpec]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a schema file and returns its path."""

    def write(text: str) -> Path:
        path = tmp_path / "schema.yaml"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def read(write: Write) -> Read:
    """Return a function that reads the first message of a schema text."""

    def read(text: str) -> MessageSpec:
        return load_file(write(text)).messages[0]

    return read


@pytest.fixture(scope="session")
def schemas() -> dict[Path, SchemaFile]:
    """Return the project's schema files, keyed by path."""
    return load_folder(SCHEMAS)
