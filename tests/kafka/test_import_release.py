"""The schemas hold what the release holds: importing it again changes nothing.

Method: the jars of the release, imported into a copy of the schemas.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import kafkawire
from kafkawire.codegen.definitions import read_jars
from kafkawire.codegen.importer import ImportResult, import_release
from tests.kafka.apache import fetch_jars

SCHEMAS = Path(kafkawire.__file__).parent / "schemas"


def test_import_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, copy)
    result = import_release(read_jars([fetch_jars()]), copy)
    assert result == ImportResult()
