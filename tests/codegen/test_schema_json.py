"""The JSON Schema and the loader agree, and the examples in the manual are valid schemas.

Method: validate every document of the project and every example of the manual, which both must accept, and samples with
one mistake each, which both must refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.configs import load_configs
from kafkawire.codegen.emit.messages import emit_messages
from kafkawire.codegen.load import load_file, load_folder
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.record_formats import load_record_format
from kafkawire.codegen.znodes import load_registry
from tests.codegen.conftest import Write

VALIDATOR = Draft202012Validator(json.loads((SCHEMAS / "schema.json").read_text()))
EXAMPLES = re.findall(r"```yaml\n(.*?)```", (SCHEMAS / "README.md").read_text(), re.DOTALL)

API = """\
api: Ping
key: 900
listeners: [broker]
request:
  versions: 0-3
  flexible: 2+
  fields:
    - {name: group, type: string}
response:
  versions: 0-3
  fields: []
"""
RECORD = (
    "record: Visit\ntype: 9\ntopic: __visits\nkey:\n  versions: 0\n  fields: []\nvalue:\n  versions: 0\n  fields: []\n"
)
MESSAGE = "message: Lamp\nkind: metadata\ntype: 4\nversions: 0\nfields:\n  - {name: lit, type: bool}\n"

MISTAKES = [
    (API, "key: 900", "key: high"),
    (API, "key: 900", "key: true"),
    (API, "key: 900", "key: 900\nrequest_header: -1"),
    (API, "key: 900\n", ""),
    (API, "key: 900", "key: 900\ncolour: red"),
    (API, "api: Ping", "api: ping"),
    (API, "[broker]", "[zookeeper]"),
    (API, "[broker]", "broker"),
    (API, "versions: 0-3\n  flexible", "versions: 0+\n  flexible"),
    (API, "versions: 0-3\n  flexible", "versions: newest\n  flexible"),
    (API, "flexible: 2+", "flexible: 2-"),
    (API, "flexible: 2+", "unstable: maybe"),
    (API, "type: string", "type: varchar"),
    (API, "type: string", "type: string??"),
    (API, ", type: string", ""),
    (API, "name: group", "name: Group"),
    (API, "name: group", "nom: group"),
    (API, "type: string", "type: string, tagged: 2+"),
    (API, "type: string", "type: string, tag: -1"),
    (API, "type: string", "type: string, entity: topic"),
    (API, "type: string", "type: string, ignorable: yes please"),
    (API, "type: string", "type: string, flexible: 1+"),
    (API, "type: string", 'type: string, about: ""'),
    (API, "type: string", 'type: string, default: ["a"]'),
    (API, "    - {name: group, type: string}", "    - group"),
    (RECORD, "type: 9\n", ""),
    (RECORD, "topic: __visits", "topic: 7"),
    (RECORD, "topic: __visits", "topic: visits/all"),
    (RECORD, "topic: __visits", "topic: .."),
    (RECORD, "record: Visit", "record: visit"),
    (MESSAGE, "kind: metadata", "kind: lamp"),
    (MESSAGE, "kind: metadata", "kind: data"),
    (MESSAGE, "type: 4\n", ""),
    (MESSAGE, "type: 4", "type: -4"),
    (MESSAGE, "message: Lamp", "massage: Lamp"),
]


def parse(text: str) -> list[Any]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def documents() -> Iterator[tuple[Path, Any]]:
    for path in sorted(SCHEMAS.rglob("*.yaml")):
        for document in parse(path.read_text()):
            yield path, document


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)


def test_every_document_is_valid() -> None:
    found = [f"{path}: {error.message}" for path, document in documents() for error in VALIDATOR.iter_errors(document)]
    assert found == []


def test_every_file_points_to_the_schema() -> None:
    for path in sorted(SCHEMAS.rglob("*.yaml")):
        first = path.read_text().partition("\n")[0]
        assert first.startswith("# yaml-language-server: $schema="), path
        assert (path.parent / first.rpartition("=")[2]).resolve() == (SCHEMAS / "schema.json").resolve()


@pytest.mark.parametrize("text", [API, RECORD, MESSAGE], ids=["api", "record", "message"])
def test_sample_is_valid(write: Write, text: str) -> None:
    load_file(write(text))
    assert not list(VALIDATOR.iter_errors(parse(text)[0]))


@pytest.mark.parametrize(("text", "old", "new"), MISTAKES, ids=[new.strip() or old.strip() for _, old, new in MISTAKES])
def test_mistake_is_refused_by_both(tmp_path: Path, text: str, old: str, new: str) -> None:
    assert text.count(old) == 1
    wrong = text.replace(old, new)
    (tmp_path / "wrong.yaml").write_text(wrong)
    with pytest.raises(SchemaError, match=r"wrong\.yaml:\d+: ") as caught:
        load_folder(tmp_path)
    assert 0 < caught.value.line <= wrong.count("\n")
    assert list(VALIDATOR.iter_errors(parse(wrong)[0]))


@pytest.mark.parametrize("text", EXAMPLES, ids=[text.strip().split("\n")[0] for text in EXAMPLES])
def test_example_of_the_manual(write: Write, text: str) -> None:
    path = write(text)
    if "record_format:" in text:
        load_record_format(path)
    elif "configs:" in text:
        load_configs(path)
    elif "znodes:" in text:
        load_registry(path)
    else:
        compile(emit_messages(Path("example.yaml"), load_file(path), ""), "example", "exec")
    for document in parse(text):
        assert not list(VALIDATOR.iter_errors(document))
