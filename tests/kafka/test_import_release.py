"""The schemas include those of the current release and of 3.9: importing either again changes nothing.

Method: import the jars of both releases into a copy of the schemas.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import kafkawire
from kafkawire.codegen.definitions import read_release
from kafkawire.codegen.importer import ImportResult, import_history, import_release
from tests.kafka.apache import fetch_jars

SCHEMAS = Path(kafkawire.__file__).parent / "schemas"


def test_import_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, copy)
    release = read_release([fetch_jars()])
    assert import_release(release.messages, copy, release=release.number) == ImportResult()


def test_import_of_history_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, copy)
    assert import_history(read_release([fetch_jars("3.9.1")]), [], copy) == ImportResult()
