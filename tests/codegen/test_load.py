"""A folder of schemas becomes specs; invalid content is refused with an error that names the file, line and field.

Method: read each kind of file once, with all its keys, folders whose files contradict each other, and defaults at the
limits of their types. `test_schema_json.py` tests spelling mistakes, and `test_consistency.py` contradictions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.load import headers_of, load_file, load_folder
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import ApiFile, FieldSpec, RecordFile, Removal, SingleFile
from kafkawire.codegen.versions import NONE, Versions
from tests.codegen.conftest import Read, Write
from tests.codegen.texts import API, A

FIELD = "message: Sample\nkind: data\nversions: 0-3\nflexible: 2+\nfields:\n  - {}\n"


def test_api(write: Write) -> None:
    text = API.format(name="Ping", key=9).replace(
        "request:", "about: Hello.\nrequest_header: 1\nresponse_header: 0\nrequest:", 1
    )
    file = load_file(write(text.replace("versions: 0-1", "versions: 0-1\n  deprecated: 0\n  unstable: true", 1)))
    assert isinstance(file, ApiFile)
    assert (file.name, file.about, file.request_header, file.response_header) == ("Ping", "Hello.", 1, 0)
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


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("int8", -128, 127),
        ("int16", -32768, 32767),
        ("uint16", 0, 65535),
        ("int32", -2147483648, 2147483647),
        ("uint32", 0, 4294967295),
        ("int64", -9223372036854775808, 9223372036854775807),
    ],
)
def test_defaults_at_the_limits_of_their_type(read: Read, kind: str, low: int, high: int) -> None:
    for default in (low, high):
        (field,) = read(FIELD.format(f"{{name: a, type: {kind}, default: {default}}}")).fields
        assert field.default == default
    for default in (low - 1, high + 1):
        with pytest.raises(SchemaError, match=f"default {default}: not an integer from {low} to {high}"):
            read(FIELD.format(f"{{name: a, type: {kind}, default: {default}}}"))


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
        ("{name: a, type: string?, nullable: 0+}", "declared nullable both by `\\?` and by `nullable`"),
        ("{name: a, type: int32, tagged: 2+}", "`tagged` requires `tag`"),
        ("{name: a, type: int32, fields: []}", "fields: not allowed for a field of type int32"),
        ("{name: a, type: int8, default: 128}", "default 128: not an integer from -128 to 127"),
        ("{name: a, type: uint16, default: -1}", "default -1: not an integer from 0 to 65535"),
        ("{name: a, type: int32, default: 1.5}", "default 1.5: not an integer"),
        ("{name: a, type: int32, default: true}", "default True: not an integer"),
        ("{name: a, type: bool, default: 1}", "default 1: not a bool"),
        ("{name: a, type: string, default: 1}", "default 1: not a string"),
        ("{name: a, type: int32, default: null}", "default null: the field cannot be null"),
        ("{name: a, type: uuid, default: x}", "the only default allowed for this type is null"),
        ('{name: a, type: "[]int32", default: 0}', "the only default allowed for this type is null"),
        ("{name: a, type: int32, versions: 3-1}", "versions: version range 3-1 is reversed"),
    ],
)
def test_wrong_field(write: Write, text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=rf"schema\.yaml:6: Sample: field a: .*{reason}"):
        load_file(write(FIELD.format(text)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{name: class, type: int8}", "field class: name: 'class' is a Python keyword"),
        (
            "{name: self, type: int8}",
            "field self: name: 'self' is reserved: every generated class has an attribute of this name",
        ),
        ("{name: unknown_tags, type: int8}", "field unknown_tags: name: 'unknown_tags' is reserved"),
        ("{name: Topic, type: int8}", "field Topic: name: 'Topic' is not snake_case"),
        ("{type: int8}", "field 1: 'name' is missing"),
        ("{name: a, type: Message}", "field a: type: 'Message' is neither one of .*'Message' is reserved"),
        ("{name: a, type: None}", "field a: type: 'None' is neither one of .*'None' is a Python keyword"),
        ("{name: a, type: float64, default: true}", "field a: default True: not a float64"),
        ("{name: a, type: float64, default: .nan}", "field a: default nan: not finite"),
        ("{name: a, type: float64, default: -.inf}", "field a: default -inf: not finite"),
        ("{name: a, type: float64, default: 1e999}", "field a: default inf: not finite"),
        ('{name: a, type: int8, about: "two\\nlines"}', "field a: about: U\\+000A is not printable"),
        ('{name: a, type: int8, about: " "}', "field a: about: empty"),
        ("{name: a, type: int8, tag: many}", "field a: tag: expected an integer, got 'many'"),
    ],
)
def test_what_generated_code_cannot_carry(write: Write, text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=rf"schema\.yaml:6: Sample: {reason}"):
        load_file(write(FIELD.format(text)))


def test_all_mistakes_of_a_file(write: Write) -> None:
    text = API.format(name="ping", key=99999).replace("listeners: [broker]", "listeners: broker")
    text = text.replace(
        "fields: []", "fields: [{name: A, type: int9, tag: x}, {name: b, type: B, fields: [{nom: c}]}]", 1
    )
    with pytest.raises(SchemaError) as caught:
        load_file(write(text.replace("versions: 0-1", "versions: 1-0\n  color: red")))
    assert [(problem.line, problem.reason.replace("ping", "")[:41]) for problem in caught.value.problems] == [
        (1, "api: '' is not CamelCase"),
        (2, "key: expected -32768 to 32767, got 99999"),
        (3, "listeners: expected a list, got 'broker'"),
        (6, "Request: unknown key 'color'; supported k"),
        (5, "Request: versions: version range 1-0 is r"),
        (7, "Request: field A: name: 'A' is not snake_"),
        (7, "Request: field A: type: 'int9' is neither"),
        (7, "Request: field A: tag: expected an intege"),
        (7, "Request: field b.1: unknown key 'nom'; su"),
        (7, "Request: field b.1: 'name' is missing"),
        (7, "Request: field b.1: 'type' is missing"),
        (10, "Response: unknown key 'color'; supported "),
        (9, "Response: versions: version range 1-0 is "),
    ]


@pytest.mark.parametrize("kind", ["Message", "int9", "int16??"])
def test_what_depends_on_a_wrong_type_is_no_other_problem(write: Write, kind: str) -> None:
    field = f"{{name: x, type: '{kind}', default: 7, nullable: 0, map_key: true, fields: [{{name: y, type: int8}}]}}"
    with pytest.raises(SchemaError) as caught:
        load_file(write(f"message: Sample\nkind: data\nversions: 0\nfields: [{field}]\n"))
    assert [problem.reason.partition(f"{kind!r} ")[0] for problem in caught.value.problems] == [
        "Sample: field x: type: "
    ]


SAMPLE = "message: Sample\nkind: data\nversions: 0\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            SAMPLE.replace("data", "dat") + "fields: []",
            ["2: Sample: kind 'dat': expected one of header, data, metadata; did you mean data?"],
        ),
        (SAMPLE, ["1: Sample: 'fields' is missing"]),
        (
            SAMPLE.replace("0", "1-0") + "fields: [{name: a, type: int8, versions: 9}]",
            ["3: Sample: versions: version range 1-0 is reversed"],
        ),
        (SAMPLE + "structs: [{fields: []}]\nfields: []", ["4: Sample: 'name' is missing"]),
        (
            SAMPLE + "structs: [{nam: A, fields: []}]\nfields: []",
            ["4: Sample: unknown key 'nam'; supported keys: about, fields, name, versions; did you mean name?"],
        ),
        (SAMPLE + "flexible: 1+\nfields: []", ["1: Sample: flexible: 1+ begins after the last of the versions 0"]),
        (
            SAMPLE + "structs: [{name: A, versions: 1-0, fields: []}]\nfields: []",
            ["4: Sample: structure A: versions: version range 1-0 is reversed"],
        ),
        (
            A.replace("versions: 0-1", "versions: 1-0", 1),
            ["5: ARequest: versions: version range 1-0 is reversed"],
        ),
        (A.replace("  versions: 0-1\n", "", 1), ["5: ARequest: 'versions' is missing"]),
        (
            "record: Visit\ntype: 3\ntopic: t\nkey: {versions: 0}\nvalue: {versions: 0, fields: []}",
            ["4: VisitKey: 'fields' is missing"],
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_nothing_else_is(write: Write, text: str, problems: list[str]) -> None:
    path = write(text)
    with pytest.raises(SchemaError) as caught:
        load_file(path)
    assert str(caught.value).splitlines() == [f"{path}:{problem}" for problem in problems]


def test_a_metadata_record_has_a_type(write: Write) -> None:
    with pytest.raises(SchemaError, match=r"schema\.yaml:1: Lamp: 'type' is missing"):
        load_file(write(METADATA.format("Lamp").replace("type: 4\n", "")))


def test_the_same_name_twice(write: Write) -> None:
    with pytest.raises(SchemaError, match=":7: Sample: field a: the name is used twice"):
        load_file(write(FIELD.format("{name: a, type: int8}\n  - {name: a, type: int8}")))


def test_the_same_tag_twice(write: Write) -> None:
    tagged = "{{name: {}, type: int8, versions: 2+, tag: 0}}"
    with pytest.raises(SchemaError, match=":7: Sample: field b: tag 0 is already used by a"):
        load_file(write(FIELD.format(f"{tagged.format('a')}\n  - {tagged.format('b')}")))


def test_request_and_response_have_the_same_versions(write: Write) -> None:
    text = API.format(name="Ping", key=9).replace("versions: 0-1", "versions: 0-2", 1)
    with pytest.raises(SchemaError, match=":7: Ping: request has versions 0-2, response 0-1"):
        load_file(write(text))


def test_request_and_response_were_removed_together(write: Write) -> None:
    text = 'api: A\nkey: 1\nlisteners: []\nrequest: {versions: 1, removed: {"4.0": 0}, fields: []}\n'
    with pytest.raises(SchemaError, match="A: request and response were not removed together"):
        load_file(write(f"{text}response: {{versions: 1, fields: []}}\n"))


@pytest.mark.parametrize("release", ["4", "3.9.1", "four", "4."])
def test_a_release_has_two_numbers(read: Read, release: str) -> None:
    with pytest.raises(SchemaError, match=f"removed: expected a release such as 4.0, got '{release}'"):
        read(f'message: A\nkind: data\nversions: 1\nremoved: {{"{release}": 0}}\nfields: []\n')


def test_removed_versions(read: Read) -> None:
    message = read('message: A\nkind: data\nversions: 4\nremoved: {"4.1": 3, "4.0": 0-2}\nfields: []\n')
    assert message.removed == (Removal("4.0", Versions(0, 2)), Removal("4.1", Versions(3, 3)))
    assert [message.removed_in(version) for version in range(6)] == ["4.0"] * 3 + ["4.1", None, None]
    assert (str(message.versions), str(message.known)) == ("4", "0-4")


def test_one_bad_file_does_not_hide_another(tmp_path: Path) -> None:
    folder(tmp_path, a="apy: A\n", b=API.format(name="B", key="x"), c="- 1\n", d=API.format(name="D", key=4))
    (tmp_path / "e.yaml").mkdir()
    with pytest.raises(SchemaError) as caught:
        load_folder(tmp_path)
    assert [problem.path.name for problem in caught.value.problems] == ["a.yaml", "c.yaml", "e.yaml", "b.yaml"]


METADATA = "message: {}\nkind: metadata\ntype: 4\nversions: 0\nfields: []\n"


def folder(tmp_path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_folder_is_read_in_order(tmp_path: Path) -> None:
    files = load_folder(folder(tmp_path, b=API.format(name="B", key=1), a=API.format(name="A", key=2)))
    assert list(files) == [Path("a.yaml"), Path("b.yaml")]


def test_messages_without_a_key_share_a_folder(tmp_path: Path) -> None:
    text = "message: {}\nkind: data\nversions: 0\nfields: []\n"
    files = load_folder(folder(tmp_path, a=text.format("A"), b=text.format("B")))
    assert [message.name for file in files.values() for message in file.messages] == ["A", "B"]


def test_messages_of_two_folders_share_a_key(tmp_path: Path) -> None:
    files = load_folder(folder(tmp_path, **{"a/one": METADATA.format("A"), "b/two": METADATA.format("B")}))
    assert [message.key for file in files.values() for message in file.messages] == [4, 4]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="nowhere: no such folder"):
        load_folder(tmp_path / "nowhere")


def test_tables_and_record_formats_are_left_to_others(tmp_path: Path) -> None:
    folder(tmp_path, a=API.format(name="A", key=1), errors="errors: []\n", batch="record_format: Batch\nfields: []\n")
    assert list(load_folder(tmp_path)) == [Path("a.yaml")]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({}, "no message schemas in this folder"),
        ({"a": "apy: A\n"}, "a.yaml:1: a schema must begin with one of"),
        ({"a": "# nothing\n"}, "a.yaml: empty file"),
        ({"a": A + "---\napi: B\n"}, "only `message` files may contain more than one document"),
        ({"a": A, "b": A}, "b.yaml:5: ARequest is already defined in a.yaml"),
    ],
)
def test_folder_that_does_not_fit(tmp_path: Path, texts: dict[str, str], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        load_folder(folder(tmp_path, **texts))


def test_another_ending_is_told(tmp_path: Path) -> None:
    (folder(tmp_path, greet=A) / "bye.yml").write_text(API.format(name="Bye", key=2))
    with pytest.raises(SchemaError, match=r"bye\.yml: schema file names must end with \.yaml") as caught:
        load_folder(tmp_path)
    assert len(caught.value.problems) == 1


def test_headers_are_kafkas_unless_both_are_there(tmp_path: Path) -> None:
    header = "message: {}\nkind: header\nversions: 0-4\nflexible: 4\nfields: []\n"
    one, both = (tuple(map(header.format, names)) for names in (_HEADERS[:1], _HEADERS))
    for number, (texts, known) in enumerate({(): "0-2", one: "0-2", both: "0-4"}.items()):
        (tmp_path / str(number)).mkdir()
        files = load_folder(folder(tmp_path / str(number), a=A, **({"headers": "---\n".join(texts)} if texts else {})))
        assert str(headers_of(files.values())["RequestHeader"].known) == known


_HEADERS = ("RequestHeader", "ResponseHeader")

VISIT = "record: Visit\ntype: 3\ntopic: {}\nkey: {{versions: 0, fields: []}}\nvalue: {{versions: 0, fields: []}}\n"


@pytest.mark.parametrize("topic", ["a/b", ".", "..", "a b", "größe", "t" * 250])
def test_a_topic_has_a_name_that_kafka_allows(write: Write, topic: str) -> None:
    with pytest.raises(
        SchemaError, match=r"schema\.yaml:3: topic: '.* is not a valid topic name; expected 1 to 249 characters"
    ):
        load_file(write(VISIT.format(topic)))


@pytest.mark.parametrize("topic", ["__visits", "a.b", "...", "t" * 249])
def test_topics(write: Write, topic: str) -> None:
    file = load_file(write(VISIT.format(topic)))
    assert isinstance(file, RecordFile)
    assert file.topic == topic


def test_the_type_of_a_metadata_record_has_no_sign(write: Write) -> None:
    with pytest.raises(SchemaError, match=r"schema\.yaml:3: Lamp: type: expected 0 to 32767, got -42"):
        load_file(write(METADATA.format("Lamp").replace("type: 4", "type: -42")))


def test_a_default_fits_into_a_string(read: Read, write: Write) -> None:
    """The limit is in bytes, and each of these characters takes two."""
    field = "{{name: a, type: string, default: {}}}"
    assert read(FIELD.format(field.format("é" * 16383))).fields[0].default == "é" * 16383
    with pytest.raises(SchemaError, match=r"default 'é{59}…: 32768 bytes; the limit for a string is 32767$"):
        load_file(write(FIELD.format(field.format("é" * 16384))))


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff", "not UTF-8: invalid start byte 0xff"), (b"apy: A\n", "a schema must begin with"), (b"", "empty file")],
)
def test_a_folder_whose_only_file_cannot_be_read_is_not_empty(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(SchemaError, match=reason) as caught:
        load_folder(tmp_path)
    assert len(caught.value.problems) == 1


def test_a_folder_with_a_bad_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="apy"):
        load_folder(folder(tmp_path, a="apy: A\n", b=A))
