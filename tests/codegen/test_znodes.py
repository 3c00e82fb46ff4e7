"""The table of Kafka's data in ZooKeeper is read as written, and mistakes are reported.

Method: read a small table with every key, variants with one mistake each, and Kafka's own table. The JSON Schema also
refuses each mistake that involves only one entry.
"""

from __future__ import annotations

import json

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.versions import ALL, NONE, OPEN, Versions
from kafkawire.codegen.znodes import (
    ContentSpec,
    RegistrySpec,
    StructureSpec,
    ZnodeFieldSpec,
    ZnodeSpec,
    ZnodeType,
    load_registry,
)
from tests.codegen.conftest import Write

VALIDATOR = Draft202012Validator(json.loads((SCHEMAS / "schema.json").read_text()))

REGISTRY = """\
znodes:
  - {name: LAMPS, path: /lamps, startup: true, acl: open, about: lamps}
  - name: LAMP
    path: "/lamps/{room}/lamp_{sequence}"
    parameters: {room: "sanitized?", sequence: sequence}
    mode: persistent_sequential
    content: LampState
    about: a lamp
  - {name: SWITCHES, path: /switches, content: int32, about: how many}
contents:
  - name: LampState
    versions: 1-3
    accepts: 1+
    writes: 2-3
    empty: default
    unknown_fields: refused
    about: A state.
    fields:
      - {name: version, type: version}
      - name: bright
        key: brightness
        type: int8
        default: 7
        required: 1
        read: 1-2
        min: 0
        one_of: [0, 7]
        about: percent
      - {name: colors, type: "{string}[]Color", default: {}, order: scala_map}
      - {name: id, type: "uuid?", versions: 2+, default: null, omitted: true}
      - {name: tags, type: "[]string", default: []}
      - {name: owner, type: sanitized, default: none}
  - name: Plain
    versions: 1
    accepts: any
    about: Nothing else.
    fields:
      - {name: version, type: text_version}
structures:
  - name: Color
    unknown_fields: refused
    about: A color.
    fields:
      - {name: red, type: int16}
"""


def test_a_registry(write: Write) -> None:
    int8, text = ZnodeType("int8"), ZnodeType("sanitized")
    fields = (
        ZnodeFieldSpec("version", "version", ZnodeType("version"), required=ALL),
        ZnodeFieldSpec(
            "bright",
            "brightness",
            int8,
            ALL,
            Versions(1, 1),
            Versions(1, 2),
            True,
            7,
            False,
            0,
            (0, 7),
            about="percent",
        ),
        ZnodeFieldSpec(
            "colors", "colors", ZnodeType("Color", True, "string"), has_default=True, default={}, order="scala_map"
        ),
        ZnodeFieldSpec(
            "id", "id", ZnodeType("uuid", is_nullable=True), Versions(2, OPEN), NONE, ALL, True, None, is_omitted=True
        ),
        ZnodeFieldSpec("tags", "tags", ZnodeType("string", True), has_default=True, default=[]),
        ZnodeFieldSpec("owner", "owner", text, has_default=True, default="none"),
    )
    version = ZnodeFieldSpec("version", "version", ZnodeType("text_version"), required=ALL)
    red = ZnodeFieldSpec("red", "red", ZnodeType("int16"), required=ALL)
    assert load_registry(write(REGISTRY)) == RegistrySpec(
        (
            ZnodeSpec("LAMPS", "/lamps", "lamps", is_made_at_startup=True, access="open"),
            ZnodeSpec(
                "LAMP",
                "/lamps/{room}/lamp_{sequence}",
                "a lamp",
                {"room": "sanitized?", "sequence": "sequence"},
                "persistent_sequential",
                "LampState",
            ),
            ZnodeSpec("SWITCHES", "/switches", "how many", content="int32"),
        ),
        (
            ContentSpec("LampState", "A state.", fields, Versions(1, 3), Versions(1, OPEN), Versions(2, 3), True, True),
            ContentSpec("Plain", "Nothing else.", (version,), Versions(1, 1), None, Versions(1, 1)),
        ),
        (StructureSpec("Color", "A color.", (red,), True),),
    )
    assert not list(VALIDATOR.iter_errors(yaml.load(REGISTRY, yaml.CSafeLoader)))


#: The replaced text, its replacement, the problem, and whether the JSON Schema finds it too
MISTAKES = [
    ("name: LAMPS", "name: lamps", "name: 'lamps' is not", True),
    ("name: SWITCHES", "name: LAMP", "LAMP: the name is used twice", False),
    ("name: SWITCHES", "name: STRING", "'STRING' is reserved: the generated module imports this name", False),
    ("name: Plain", "name: Structure", "'Structure' is reserved: the generated module imports this name", False),
    ("name: Plain", "name: LampState", "LampState: the name is used twice", False),
    ("path: /switches", "path: switches", "path: expected the form /name/{parameter}/prefix_{parameter}, got", True),
    ("path: /switches", "path: /lamps", "path: /lamps is used twice", False),
    ("path: /switches, ", "", "'path' is missing", True),
    ("{room: ", "{rooms: ", "LAMP: parameters: expected the parameters of the path, in the same order", False),
    ('"sanitized?"', "text", "parameters: unknown kind room; expected one of int32, int32?, string, sanitized", True),
    ("mode: persistent_sequential", "mode: ephemeral", "LAMP: mode: a parameter of the kind sequence", False),
    ("mode: persistent_sequential", "mode: brief", "mode: expected one of persistent, ephemeral", True),
    ("content: int32", "content: int16", "content: expected a content type or one of int32, int64", True),
    ("acl: open", "acl: closed", "acl: expected one of open, readable, secret, got 'closed'", True),
    ("startup: true", "startup: 1", "startup: expected true or false, got 1", True),
    ("startup: true", "start: true", "unknown key 'start'", True),
    ("about: lamps}", 'about: ""}', "about: empty", True),
    ("versions: 1-3", "versions: none", "LampState: versions: missing", False),
    ("versions: 1-3", "versions: x", "versions: 'x' is not a version range", True),
    ("accepts: 1+", "accepts: all", "accepts: 'all' is not a version range", True),
    ("writes: 2-3", "writes: 3-4", "writes: 3-4 is not within 1-3", False),
    ("empty: default", "empty: allowed", "empty: expected one of default, refused, got 'allowed'", True),
    (", default: none", "", "LampState: empty: every field must have a default", False),
    ("name: version, type: text_version", "name: x, type: int8", "Plain: fields: a field named version", False),
    ("name: tags", "name: owner", "LampState: field owner: the name is used twice", False),
    ("name: tags", "name: Tags", "name: 'Tags'", True),
    ('"[]string"', '"string[]"', "field tags: type: 'string[]': expected a name", True),
    ('"[]string"', '"[]Shade"', "field tags: type: expected a structure or one of int8,", False),
    ("default: []", "default: [x]", "field tags: default: only [] is allowed for this type", False),
    ("default: 7", "default: x", "default: expected an integer, got 'x'", False),
    ("default: none", "default: 1", "default: expected text, got 1", False),
    ("default: null", "default: 1", "field id: default: must be null for a uuid", False),
    ("versions: 2+, default: null, omitted: true", "versions: 2+", "field id: default: required", False),
    ("versions: 2+, default: null, omitted: true", "omitted: true", "field id: omitted: only allowed", False),
    ("type: int16", "type: int16, order: scala_map", "Color: field red: order: only allowed for maps", False),
    ("order: scala_map", "order: sorted", "order: expected one of as_inserted, java_hash_map", True),
    ("one_of: [0, 7]", "one_of: [0.5]", "field bright: one_of: expected numbers or text", True),
    ("      - {name: red, type: int16}\n", "      []\n", "Color: fields: empty", True),
    ("structures:", "structure:", "unknown key 'structure'", True),
    ("about: A color.", "about: A color.\n    versions: 1", "unknown key 'versions'", True),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "problem", "is_refused_by_schema"), MISTAKES)
def test_a_mistake(write: Write, old: str, new: str, problem: str, is_refused_by_schema: bool) -> None:
    assert REGISTRY.count(old) == 1
    text = REGISTRY.replace(old, new)
    with pytest.raises(SchemaError) as caught:
        load_registry(write(text))
    assert problem in str(caught.value)
    assert all(found.line > 0 for found in caught.value.problems)
    assert bool(list(VALIDATOR.iter_errors(yaml.load(text, yaml.CSafeLoader)))) == is_refused_by_schema


def test_problems_are_reported_together(write: Write) -> None:
    text = (
        REGISTRY.replace("acl: open", "acl: x")
        .replace("order: scala_map", "order: x")
        .replace("name: red", "name: RED")
    )
    with pytest.raises(SchemaError) as caught:
        load_registry(write(text))
    assert [problem.line for problem in caught.value.problems] == [2, 29, 44]


def test_one_document(write: Write) -> None:
    with pytest.raises(SchemaError, match="expected one document, got 2"):
        load_registry(write(f"{REGISTRY}---\n{REGISTRY}"))


def test_a_registry_may_be_small(write: Write) -> None:
    assert load_registry(write("znodes: []\n")) == RegistrySpec((), (), ())


def test_kafkas_registry() -> None:
    registry = load_registry(SCHEMAS / "registry.yaml")
    used = {spec.content for spec in registry.znodes}
    assert {spec.name for spec in registry.contents} <= used
    types = {field.type.name for spec in (*registry.contents, *registry.structures) for field in spec.fields}
    assert {spec.name for spec in registry.structures} <= types
    parents = {spec.path.rpartition("/")[0] for spec in registry.znodes} - {""}
    assert parents <= {spec.path for spec in registry.znodes}
