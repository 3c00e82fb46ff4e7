"""A folder of schemas becomes specs, and what cannot be one is refused with file, line and field.

Method: each kind of file once, all its keys set; folders whose files do not fit together; defaults at the limits of
their type. Mistakes of spelling are in `test_schema_json.py`, contradictions in `test_consistency.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.load import load_file, load_folder, message_paths
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import ApiFile, FieldSpec, RecordFile, SingleFile
from kafkawire.codegen.versions import NONE, Versions
from tests.codegen.conftest import Read, Write

API = """\
api: {name}
key: {key}
listeners: [broker]
request:
  versions: 0-1
  fields: []
response:
  versions: 0-1
  fields: []
"""
A = API.format(name="A", key=1)
FIELD = "message: Sample\nkind: data\nversions: 0-3\nflexible: 2+\nfields:\n  - {}\n"


def test_api(write: Write) -> None:
    text = API.format(name="Ping", key=9).replace("request:", "about: Hello.\nresponse_header: 0\nrequest:", 1)
    file = load_file(write(text.replace("versions: 0-1", "versions: 0-1\n  deprecated: 0\n  unstable: true", 1)))
    assert isinstance(file, ApiFile)
    assert (file.name, file.about, file.response_header) == ("Ping", "Hello.", 0)
    assert (file.request.name, file.request.kind, file.request.key) == ("PingRequest", "request", 9)
    assert (file.request.listeners, file.request.unstable, file.request.deprecated) == (
        ("broker",),
        True,
        Versions(0, 0),
    )
    assert (file.response.name, file.response.kind, file.response.key) == ("PingResponse", "response", 9)
    assert file.messages == (file.request, file.response)


def test_record(write: Write) -> None:
    body = "  versions: 0\n  fields: []\n"
    text = f"record: Visit\ntype: 3\ntopic: __visits\nkey:\n{body}value:\n{body}"
    file = load_file(write(text))
    assert isinstance(file, RecordFile)
    assert [(message.name, message.kind, message.key) for message in file.messages] == [
        ("VisitKey", "coordinator-key", 3),
        ("VisitValue", "coordinator-value", 3),
    ]


def test_several_messages(write: Write) -> None:
    file = load_file(
        write(
            "message: A\nkind: header\nversions: 0\nfields: []\n---\nmessage: B\nkind: data\nversions: 0\nfields: []\n"
        )
    )
    assert isinstance(file, SingleFile)
    assert [(message.name, message.kind, message.line) for message in file.messages] == [
        ("A", "header", 1),
        ("B", "data", 6),
    ]


FIELDS = [
    ("{name: a, type: int32}", {}),
    ('{name: a, type: "[]int32"}', {"array": True}),
    ("{name: a, type: string?}", {"type": "string", "nullable": Versions(0, 32767)}),
    (
        "{name: a, type: string?, versions: 1-2}",
        {"type": "string", "versions": Versions(1, 2), "nullable": Versions(1, 2)},
    ),
    ("{name: a, type: string, nullable: 1+}", {"type": "string", "nullable": Versions(1, 32767)}),
    (
        "{name: a, type: int32, versions: 2+, tag: 0}",
        {"versions": Versions(2, 32767), "tag": 0, "tagged": Versions(2, 32767)},
    ),
    ("{name: a, type: int32, tag: 0, tagged: 2+}", {"tag": 0, "tagged": Versions(2, 32767)}),
    ("{name: a, type: string, flexible: none}", {"type": "string", "flexible": NONE}),
    ("{name: a, type: int32, default: -1}", {"default": -1}),
    ("{name: a, type: float64, default: 1}", {"type": "float64", "default": 1.0}),
    (
        '{name: a, type: "[]string?", default: null}',
        {"type": "string", "array": True, "nullable": Versions(0, 32767), "default": None},
    ),
    (
        "{name: a, type: int32, ignorable: true, entity: broker_id, about: why}",
        {"ignorable": True, "entity": "broker_id", "about": "why"},
    ),
    ("{name: a, type: bytes, zero_copy: true}", {"type": "bytes", "zero_copy": True}),
]


@pytest.mark.parametrize(("text", "differences"), FIELDS, ids=[text for text, _ in FIELDS])
def test_field(read: Read, text: str, differences: dict[str, object]) -> None:
    (field,) = read(FIELD.format(text)).fields
    assert field == FieldSpec(**{"name": "a", "type": "int32", **differences})  # type: ignore[arg-type]  # keyword by keyword
    assert field.line == 6


def test_versions_of_inner_fields_follow_the_outer(read: Read) -> None:
    message = read("""\
        message: Sample
        kind: data
        versions: 0-3
        fields:
          - name: outer
            type: "[]Outer"
            versions: 1+
            fields:
              - {name: inner, type: int8, map_key: true}
              - {name: other, type: int8, versions: 2}
        """)
    inner, other = message.struct_fields("Outer")
    assert (str(inner.versions), inner.map_key, str(other.versions)) == ("1+", True, "2")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{name: a, type: string?, nullable: 0+}", "nullable by `\\?` and by `nullable`"),
        ("{name: a, type: int32, tagged: 2+}", "`tagged` without a `tag`"),
        ("{name: a, type: int32, fields: []}", "a int32 has no fields"),
        ("{name: a, type: int8, default: 128}", "default 128: not within -128 and 127"),
        ("{name: a, type: uint16, default: -1}", "default -1: not within 0 and 65535"),
        ("{name: a, type: int32, default: 1.5}", "default 1.5: not within"),
        ("{name: a, type: int32, default: true}", "default True: not within"),
        ("{name: a, type: bool, default: 1}", "default 1: not a bool"),
        ("{name: a, type: string, default: 1}", "default 1: not a string"),
        ("{name: a, type: int32, default: null}", "default None: the field is never null"),
        ("{name: a, type: uuid, default: x}", "can only have null as a default"),
        ('{name: a, type: "[]int32", default: 0}', "can only have null as a default"),
        ("{name: a, type: int32, versions: 3-1}", "versions: version range 3-1 runs backwards"),
    ],
)
def test_wrong_field(write: Write, text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=rf"schema\.yaml:6: field a: .*{reason}"):
        load_file(write(FIELD.format(text)))


def test_the_same_name_twice(write: Write) -> None:
    with pytest.raises(SchemaError, match=":7: field a stands twice"):
        load_file(write(FIELD.format("{name: a, type: int8}\n  - {name: a, type: int8}")))


def test_the_same_tag_twice(write: Write) -> None:
    tagged = "{{name: {}, type: int8, versions: 2+, tag: 0}}"
    with pytest.raises(SchemaError, match=":7: field b: tag 0 belongs to a already"):
        load_file(write(FIELD.format(f"{tagged.format('a')}\n  - {tagged.format('b')}")))


def test_request_and_response_have_the_same_versions(write: Write) -> None:
    text = API.format(name="Ping", key=9).replace("versions: 0-1", "versions: 0-2", 1)
    with pytest.raises(SchemaError, match=":7: request has versions 0-2, response 0-1"):
        load_file(write(text))


def folder(tmp_path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_folder_is_read_in_order(tmp_path: Path) -> None:
    files = load_folder(folder(tmp_path, b=API.format(name="B", key=1), a=API.format(name="A", key=2)))
    assert list(files) == [Path("a.yaml"), Path("b.yaml")]


def test_tables_and_record_formats_are_left_to_others(tmp_path: Path) -> None:
    folder(tmp_path, a=API.format(name="A", key=1), errors="errors: []\n", batch="record_format: Batch\nfields: []\n")
    assert message_paths(tmp_path) == [tmp_path / "a.yaml"]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({}, "no message schemas here"),
        ({"a": A, "b": API.format(name="A", key=2)}, "b.yaml:5: ARequest stands also in a.yaml"),
        ({"a": A, "b": API.format(name="B", key=1)}, "b.yaml:5: key 1 belongs to ARequest already"),
        ({"a": "apy: A\n"}, "a.yaml:1: a schema opens with one of"),
        ({"a": "# nothing\n"}, "a.yaml: empty file"),
        ({"a": A + "---\napi: B\n"}, "only files of `message` documents may hold several"),
    ],
)  # fmt: skip
def test_folder_that_does_not_fit(tmp_path: Path, texts: dict[str, str], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        load_folder(folder(tmp_path, **texts))
