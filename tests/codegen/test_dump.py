"""Writing and reading are each other's opposite.

Method: every schema of the project is read, written and compared with its file; random files are written, read and
compared.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.dump import dump, dump_enumerations, dump_errors
from kafkawire.codegen.load import load_file, message_paths
from kafkawire.codegen.spec import SchemaFile
from kafkawire.codegen.tables import load_enumerations, load_errors
from tests.codegen.strategies import schema_files


@pytest.mark.parametrize("path", message_paths(SCHEMAS), ids=lambda path: path.stem)
def test_file_is_written_as_it_stands(path: Path) -> None:
    depth = len(path.relative_to(SCHEMAS).parts) - 1
    assert dump(load_file(path), depth) == path.read_text()


def test_tables_are_written_as_they_stand() -> None:
    assert dump_errors(load_errors(SCHEMAS / "errors.yaml")) == (SCHEMAS / "errors.yaml").read_text()
    enumerations = SCHEMAS / "enumerations.yaml"
    assert dump_enumerations(*load_enumerations(enumerations)) == enumerations.read_text()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema_files())
def test_random_file_reads_back(file: SchemaFile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.yaml"
        path.write_text(dump(file, 0))
        assert load_file(path) == file
        assert dump(load_file(path), 0) == path.read_text()
