"""The same schemas give the same bytes, a tree contains the generated code, and trees on disk are compared in full.

Method: generate trees from small schemas; generate code from the project's own schemas in two processes with different
hash seeds; and try every way in which a folder can differ from its schemas.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.codegen import OUT, SCHEMAS
from kafkawire.codegen.emit.source import GENERATED
from kafkawire.codegen.generate import Drift, drift, generated_tree, reference_of, write_tree
from kafkawire.codegen.located import SchemaError
from tests.thorough import sampled

PING = """\
api: Ping
key: 900
listeners: [broker]
request:
  versions: 0-1
  fields:
    - {name: text, type: string}
response:
  versions: 0-1
  fields: []
"""
GONE = "message: Gone\nkind: data\nversions: none\nfields: []\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that contains only the schemas of a message and of a removed message."""
    path = tmp_path / "schemas"
    (path / "messages").mkdir(parents=True)
    (path / "other" / "deep").mkdir(parents=True)
    (path / "messages" / "ping.yaml").write_text(PING)
    (path / "other" / "gone.yaml").write_text(GONE)
    (path / "other" / "deep" / "here.yaml").write_text(GONE.replace("Gone", "Here").replace("none", "0"))
    return path


def test_the_generated_code_is_as_its_schemas_say() -> None:
    assert not drift(generated_tree(SCHEMAS), OUT)


def test_files_of_a_tree(folder: Path) -> None:
    assert [path.as_posix() for path in generated_tree(folder)] == [
        "messages/__init__.py",
        "messages/other/__init__.py",
        "messages/other/deep/__init__.py",
        "messages/other/deep/here.py",
        "messages/ping.py",
        "tables/__init__.py",
        "tables/apis.py",
    ]


def test_no_table_of_apis_where_there_are_none(folder: Path) -> None:
    (folder / "messages" / "ping.yaml").unlink()
    assert not [path for path in generated_tree(folder) if "tables" in path.parts]


def test_own_headers_are_those_of_the_table(folder: Path) -> None:
    assert "request_headers=(1, 2)" in generated_tree(folder)[Path("tables/apis.py")]
    header = "message: {}\nkind: header\nversions: 0-5\nflexible: 5+\nfields: []\n"
    (folder / "headers.yaml").write_text(header.format("RequestHeader") + "---\n" + header.format("ResponseHeader"))
    assert "request_headers=(4, 5)" in generated_tree(folder)[Path("tables/apis.py")]


def test_tables_come_with_their_files(folder: Path) -> None:
    (folder / "errors.yaml").write_text("errors:\n  - {code: 0, name: NONE}\n")
    (folder / "enumerations.yaml").write_text("enumerations: []\nconstants: []\n")
    header = "message: {}\nkind: header\nversions: 0-1\nflexible: 1+\nfields: []\n"
    (folder / "headers.yaml").write_text(
        "---\n".join(header.format(name) for name in ("RequestHeader", "ResponseHeader"))
    )
    assert {"tables/apis.py", "tables/enums/__init__.py", "tables/error_codes.py"} <= {
        path.as_posix() for path in generated_tree(folder)
    }


def test_every_text_is_python(folder: Path) -> None:
    for path, text in generated_tree(folder).items():
        assert compile(text, str(path), "exec").co_filename == str(path)


def test_a_changed_schema_changes_the_header(folder: Path) -> None:
    before = generated_tree(folder)
    path = folder / "messages" / "ping.yaml"
    path.write_text(path.read_text() + "# a comment\n")
    after = generated_tree(folder)
    assert {str(path) for path in after if after[path] != before[path]} == {
        "messages/__init__.py",
        "messages/ping.py",
        "tables/__init__.py",
        "tables/apis.py",
    }


def test_write_and_compare(folder: Path, tmp_path: Path) -> None:
    tree, out = generated_tree(folder), tmp_path / "out"
    assert drift(tree, out) == Drift(tuple(tree), (), ())
    assert write_tree(tree, out) == Drift(tuple(tree), (), ())
    assert write_tree(tree, out) == drift(tree, out) == Drift((), (), ())


@pytest.mark.parametrize("place", range(3))
def test_one_file_is_drift(place: int) -> None:
    assert Drift(*((Path("one.py"),) if index == place else () for index in range(3)))


def test_drift_is_found_and_mended(folder: Path, tmp_path: Path) -> None:
    tree, out = generated_tree(folder), tmp_path / "out"
    write_tree(tree, out)
    (out / "messages" / "ping.py").write_text(f"{GENERATED}\n# changed by hand\n")
    (out / "messages" / "other" / "__init__.py").unlink()
    (out / "messages" / "stray.py").write_text(GENERATED)
    (out / "messages" / "__pycache__").mkdir()
    (out / "messages" / "__pycache__" / "ping.pyc").write_bytes(b"")
    (out / "written_by_hand.py").write_text("")
    expected = Drift((Path("messages/other/__init__.py"),), (Path("messages/ping.py"),), (Path("messages/stray.py"),))
    assert drift(tree, out) == expected
    assert expected
    assert write_tree(tree, out) == expected
    assert not drift(tree, out)
    assert (out / "written_by_hand.py").exists()


@pytest.mark.parametrize("name", ["ping.py", "other/stray.py"])
@pytest.mark.parametrize("text", ["", "by = 'hand'\n", GENERATED[:-1]])
def test_files_of_others_are_neither_replaced_nor_removed(folder: Path, tmp_path: Path, name: str, text: str) -> None:
    tree, out = generated_tree(folder), tmp_path / "out"
    write_tree(tree, out)
    (out / "messages" / name).write_text(text)
    (out / "tables" / "apis.py").unlink()
    before = drift(tree, out)
    with pytest.raises(FileExistsError, match=f"{name} would be replaced or removed"):
        write_tree(tree, out)
    assert drift(tree, out) == before
    assert (out / "messages" / name).read_text() == text


def test_wrong_schema(folder: Path) -> None:
    (folder / "messages" / "ping.yaml").write_text(PING.replace("string", "text"))
    with pytest.raises(SchemaError, match=r"ping\.yaml:7"):
        generated_tree(folder)


@pytest.mark.parametrize("make", sampled(["generated_tree", "reference_of"], 2))
def test_the_same_bytes_in_every_process(make: str) -> None:
    program = (
        "import hashlib\n"
        "from kafkawire.codegen import SCHEMAS\n"
        f"from kafkawire.codegen.generate import {make}\n"
        f"print(hashlib.sha256(repr(list({make}(SCHEMAS).items())).encode()).hexdigest())"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 65


def test_the_place_of_the_schemas_does_not_matter(tmp_path: Path) -> None:
    shutil.copytree(SCHEMAS, tmp_path / "elsewhere")
    assert generated_tree(tmp_path / "elsewhere") == generated_tree(SCHEMAS)
    assert reference_of(tmp_path / "elsewhere") == reference_of(SCHEMAS)
