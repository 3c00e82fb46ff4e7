"""Writing and reading schemas are inverses of each other.

Method: read and write every schema of the project, and compare the text with the file; write and read random files, and
compare the contents.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.configs import load_configs
from kafkawire.codegen.dump import dump, dump_configs, dump_enumerations, dump_errors
from kafkawire.codegen.load import load_file, load_folder
from kafkawire.codegen.spec import FieldSpec, MessageSpec, SchemaFile, SingleFile
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors
from kafkawire.codegen.versions import Versions
from tests.codegen.strategies import schema_files


def test_file_is_written_as_it_stands(subtests: pytest.Subtests) -> None:
    for path in [SCHEMAS / path for path in load_folder(SCHEMAS)]:
        with subtests.test(path=path):
            depth = len(path.relative_to(SCHEMAS).parts) - 1
            assert dump(load_file(path), depth) == path.read_text()


def test_tables_are_written_as_they_stand() -> None:
    assert dump_errors(load_errors(SCHEMAS / "errors.yaml")) == (SCHEMAS / "errors.yaml").read_text()
    enumerations = SCHEMAS / "enumerations.yaml"
    assert dump_enumerations(*load_enumerations(enumerations)) == enumerations.read_text()
    configs = SCHEMAS / "configs.yaml"
    assert dump_configs(load_configs(configs)) == configs.read_text()


@pytest.mark.parametrize("length", range(70, 90))
def test_items_of_tables_stand_on_one_line_if_it_is_not_too_long(length: int) -> None:
    about = "a" * length
    for text, line in (
        (dump_errors([ErrorSpec(7, "NAME", about=about)]), f"  - {{code: 7, name: NAME, about: {about}}}"),
        (dump_enumerations((), [Constant("NAME", 7, about)]), f"  - {{name: NAME, value: 7, about: {about}}}"),
    ):
        assert (line in text.splitlines()) is (len(line) <= 120)


#: Field or structure names in a schema that YAML 1.1 or 1.2 would not read as text.
WORDS = ["no", "yes", "on", "off", "null", "true", "false", "y", "n"]
#: Texts that would be read as a number, a date, a mark or nothing if they had no quotes.
TEXTS = [
    *WORDS, "NO", "Null", "~", "1e3", "1.5", "0x1", "0o7", "017", "1_000", "1:30", "2024-01-01", ".inf", ".nan", "<<",
    "=", "", " a", "a ", "- a", "? a", "a: b", "a #b", "#", "[a]", "{a}", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">",
    '"', "'", "\\", "\n", "a\tb", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "é", "😀", "---", "...", "a,b", "a?",
]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_word_is_a_name(word: str) -> None:
    kind = word.title() if word not in ("true", "false") else "Other"
    field = FieldSpec(word, kind, fields=(FieldSpec(word, "int8"), FieldSpec("plain", "string", default=word)))
    file = SingleFile((MessageSpec("Sample", "data", None, Versions(0, 0), fields=(field,)),))
    assert read_back(file) == file
    (document,) = yaml.safe_load_all(dump(file, 0))
    assert document["fields"][0]["name"] == document["fields"][0]["fields"][0]["name"] == word
    assert document["fields"][0]["type"] == kind


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_text_for_every_reader(text: str) -> None:
    field = FieldSpec("name", "string", default=text, about=text if text.strip() and text.isprintable() else "x")
    file = SingleFile((MessageSpec("Sample", "data", None, Versions(0, 0), fields=(field,)),))
    assert read_back(file) == file
    (document,) = yaml.load_all(dump(file, 0), yaml.CSafeLoader)
    assert document["fields"][0]["default"] == text
    assert document["fields"][0]["about"] == field.about


@pytest.mark.parametrize("number", [0.0, -0.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, 0.1, -2.5])
def test_number_is_a_number_for_every_reader(number: float) -> None:
    field = FieldSpec("name", "float64", default=number)
    file = SingleFile((MessageSpec("Sample", "data", None, Versions(0, 0), fields=(field,)),))
    assert read_back(file) == file
    (document,) = yaml.safe_load_all(dump(file, 0))
    assert document["fields"][0]["default"] == number
    assert type(document["fields"][0]["default"]) is float


def test_tables_with_words_as_names(tmp_path: Path) -> None:
    errors = (ErrorSpec(1, "NO", about="no"), ErrorSpec(2, "ON"))
    enumerations = (Enumeration("Null", "null", {"NO": 0, "Y": 1}, "no"),)
    constants = (Constant("OFF", "off", "~", "on"), Constant("YES", 1, "1"))
    (tmp_path / "errors.yaml").write_text(dump_errors(errors))
    (tmp_path / "enumerations.yaml").write_text(dump_enumerations(enumerations, constants))
    assert load_errors(tmp_path / "errors.yaml") == errors
    assert load_enumerations(tmp_path / "enumerations.yaml") == (enumerations, constants)
    plain = yaml.safe_load((tmp_path / "enumerations.yaml").read_text())
    assert plain["enumerations"][0]["values"] == {"NO": 0, "Y": 1}
    assert [item["name"] for item in plain["constants"]] == ["OFF", "YES"]


def read_back(file: SchemaFile) -> SchemaFile:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.yaml"
        path.write_text(dump(file, 0), encoding="utf-8")
        return load_file(path)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema_files())
def test_random_file_reads_back(file: SchemaFile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.yaml"
        path.write_text(dump(file, 0))
        assert load_file(path) == file
        assert dump(load_file(path), 0) == path.read_text()
