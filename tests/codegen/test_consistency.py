"""A message that contradicts itself is refused, and the error gives the location.

Method: change a sound message in one place, and check that the error gives the file, line, message and field. The
project's schemas, which have all of Kafka's oddities, pass. All engines handle the deepest allowed nesting.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen.consistency import ENTITIES, FIELDS_MAX, STRUCTURE_DEPTH_MAX
from kafkawire.codegen.load import load_file
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import FieldSpec, SchemaFile
from kafkawire.protocol import from_json, to_json
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message
from tests.codegen.conftest import Read, Write
from tests.engines import AVAILABLE
from tests.own_package import own_package

SOUND = """\
message: Sample
kind: data
versions: 1-4
flexible: 3+
structs:
  - name: Node
    versions: 2+
    fields:
      - {name: node_id, type: int32, map_key: true, entity: broker_id}
      - {name: host, type: string?, default: null}
fields:
  - {name: name, type: string, entity: topic_name}
  - {name: nodes, type: "[]Node", versions: 2+}
  - {name: blob, type: bytes, versions: 1-2, zero_copy: true}
  - name: parts
    type: "[]Part"
    versions: 2-3
    fields:
      - {name: index, type: int32, map_key: true}
  - {name: first, type: int32, versions: 3+, tag: 0}
  - {name: second, type: string?, versions: 2+, tag: 1, tagged: 3+, default: null}
"""

CASES = [
    ("kind: data\nversions: 1-4", "kind: data\nversions: none", 1, "the message has fields but no versions"),
    ("versions: 1-4", "versions: 1+", 1, "versions: 1+ is open-ended; specify the newest version"),
    ("flexible: 3+", "flexible: 5+", 1, "flexible: 5+ begins after the last of the versions 1-4"),
    ("flexible: 3+", "flexible: 3", 1, "flexible: 3 ends before the last of the versions 1-4"),
    (
        "flexible: 3+",
        'flexible: 3+\nremoved: {"4.0": 0-1}',
        1,
        "removed: expected versions 0-1 to be followed by 2, got 1-4",
    ),
    (
        "flexible: 3+",
        'flexible: 3+\nremoved: {"4.0": none}',
        1,
        "removed: must not be none; leave out a release that removed no",
    ),
    ("flexible: 3+", "flexible: 3+\ndeprecated: 0", 1, "deprecated: 0 is not within the versions 1-4"),
    ("    versions: 2+\n", "    versions: 5+\n", 6, "structure Node: none of its versions 5+ exists in the message"),
    ("[]Node", "[]Nod", 13, "field nodes: structure Nod is not defined"),
    ('"[]Node"', "int32", 6, "structure Node is never used"),
    ("[]Part", "[]Node", 15, "structure Node is defined twice"),
    ("index, type: int32", 'index, type: "[]Part"', 19, "field index: a structure cannot hold itself: Part > Part"),
    (
        "versions: 1-2, zero_copy",
        "versions: none, zero_copy",
        14,
        "field blob: versions: must not be none; leave out a field",
    ),
    (
        "versions: 1-2, zero_copy",
        "versions: 5+, zero_copy",
        14,
        "field blob: versions: 5+ begins after the last of the enclosing versions 1-4",
    ),
    (
        "index, type: int32",
        "index, type: int32, versions: 4+",
        19,
        "field parts.index: versions: 4+ begins after the last of the enclosing",
    ),
    ("first, type: int32", "first, type: int32?", 20, "field first: nullable: a field of type int32 cannot be null"),
    ("first, type: int32", 'first, type: "[]int32", nullable: 0-2', 20, "field first: nullable: 0-2 is not within"),
    (
        "blob, type: bytes",
        "blob, type: bytes, nullable: 2, default: null",
        14,
        "field blob: default: null is allowed only in versions",
    ),
    (
        "blob, type: bytes",
        "blob, type: bytes, flexible: 2+",
        14,
        "field blob: flexible: expected `none` (a classic length in all versions), got 2+",
    ),
    (
        "first, type: int32",
        "first, type: int32, flexible: none",
        20,
        "field first: flexible: not allowed for a field of type int32, which has no length",
    ),
    (
        "blob, type: bytes",
        "blob, type: string",
        14,
        "field blob: zero_copy: only allowed for fields of type bytes or records",
    ),
    ("entity: topic_name", "entity: topic", 12, "field name: entity: unknown entity topic; expected one of"),
    ("name, type: string", "name, type: uuid", 12, "field name: entity: a topic_name must be of type string, got uuid"),
    (
        "name, type: string",
        "name, type: string, map_key: true",
        12,
        "field name: map_key: only allowed for fields of array elements",
    ),
    ('"[]Node"', "Node", 9, "field Node.node_id: map_key: only allowed for fields of array elements"),
    ("tag: 0", "tag: -1", 20, "field first: tag: must be at least 0, got -1"),
    ("tag: 0", "tag: 2", 20, "field first: tag 2, but tag 0 is not used"),
    (
        "versions: 3+, tag: 0",
        "versions: 2+, tag: 0",
        20,
        "field first: tagged: 2-4 is not within the flexible versions 3+",
    ),
    ("tagged: 3+", "tagged: none", 21, "field second: tag 1, but the field is not tagged in any version"),
    (
        "versions: 2+, tag: 1, tagged: 3+",
        "versions: 4+, tag: 1, tagged: 3+",
        21,
        "field second: tagged: 3+ is not within",
    ),
    (
        "index, type: int32, map_key: true",
        "index, type: int32, map_key: true, versions: 3+, tag: 0",
        19,
        "a tagged field",
    ),
    ("versions: 1-4", "versions: 1-129", 1, "versions: 1-129 exceeds the limit of 128 versions"),
    ("first, type: int32", "first, type: records", 20, "field first: a tagged field cannot hold records"),
    ("tag: 0", "tag: 2000000000", 20, "field first: tag 2000000000, but tag 0 is not used"),
    ("name: Node\n", "name: Sample\n", 6, "structure Sample has the same name as its message"),
]


def test_sound_message_passes(read: Read) -> None:
    assert read(SOUND).name == "Sample"


@pytest.mark.parametrize(("old", "new", "line", "reason"), CASES)
def test_contradiction_is_named(write: Write, old: str, new: str, line: int, reason: str) -> None:
    assert SOUND.count(old) == 1
    path = write(SOUND.replace(old, new))
    with pytest.raises(SchemaError, match=re.escape(reason)) as caught:
        load_file(path)
    assert (caught.value.path, caught.value.line) == (path, line)
    assert caught.value.reason.startswith("Sample: ")


def test_versions_of_a_tag_before_those_of_its_structure_need_not_be_flexible(write: Write) -> None:
    tagged = "      - {name: text, type: string, versions: 2+, tag: 0, tagged: 2+}\n"
    text = SOUND.replace("versions: 2-3", "versions: 3+").replace("  - {name: first", f"{tagged}  - {{name: first")
    assert (text.count("versions: 3+"), text.count("tagged: 2+")) == (2, 1)
    load_file(write(text))


NESTED = """\
message: Sample
kind: data
versions: 0
flexible: 0+
structs:
{structs}
fields:
  - {{name: top, type: {first}, versions: 0+, tag: 0}}
"""


def nested(fields: list[str]) -> str:
    """Return a message with shared structures; each item of `fields` defines one, and may use those before it."""
    structs = "\n".join(f"  - name: S{n}\n    fields: [{inner}]" for n, inner in enumerate(fields))
    return NESTED.format(structs=structs, first=f"S{len(fields) - 1}")


def test_records_deep_inside_a_tagged_field(write: Write) -> None:
    chain = ["{name: a, type: records}", *(f"{{name: a, type: S{n}}}" for n in range(3))]
    with pytest.raises(SchemaError, match="Sample: field top: a tagged field cannot hold records"):
        load_file(write(nested(chain)))


def test_problems_of_fields_come_in_the_order_of_the_file(write: Write) -> None:
    inner = "{name: low, type: records, versions: 0+, tag: 0}"
    outer = f"{{name: high, type: Outer, versions: 0+, tag: 0, fields: [{inner}]}}"
    with pytest.raises(SchemaError) as caught:
        load_file(write(nested([outer])))
    places = [problem.reason.split(":")[1] for problem in caught.value.problems if "hold records" in problem.reason]
    assert places == [" field top", " field S0.high", " field S0.high.low"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("more", ["", "{name: z, type: int8}, "])
def test_structures_inside_each_other(write: Write, more: str, reverse: bool) -> None:
    def text(depth: int) -> str:
        chain = ["{name: a, type: int8}", *(f"{more}{{name: a, type: S{n}}}" for n in range(depth - 1))]
        head, middle, tail = re.split("(?<=structs:\n)|(?=fields:\n)", nested(chain))
        structs = re.findall("  - name: .*\n    .*\n", middle)
        return head + "".join(reversed(structs) if reverse else structs) + tail

    load_file(write(text(STRUCTURE_DEPTH_MAX)))
    for depth in (STRUCTURE_DEPTH_MAX + 1, STRUCTURE_DEPTH_MAX + 3):
        with pytest.raises(SchemaError) as caught:
            load_file(write(text(depth)))
        reasons = [problem.reason.partition(": field a: ")[2] for problem in caught.value.problems]
        # If the structures are listed from the outside in, the first one that is too deep is checked last.
        count = 1 if reverse else depth - STRUCTURE_DEPTH_MAX
        assert reasons == [f"structures are nested more than {STRUCTURE_DEPTH_MAX} levels deep"] * count


def test_a_structure_without_fields_is_as_deep_as_others(write: Write) -> None:
    chain = ["", *(f"{{name: a, type: S{n}}}" for n in range(STRUCTURE_DEPTH_MAX - 1))]
    assert len(load_file(write(nested(chain))).messages[0].structs) == len(chain) == STRUCTURE_DEPTH_MAX


@pytest.mark.parametrize("engine", AVAILABLE)
def test_every_engine_can_do_what_is_nested_most(tmp_path: Path, engine: str) -> None:
    fields = '[{name: texts, type: "[]string", tag: 0, nullable: 0+}]'
    for depth in range(STRUCTURE_DEPTH_MAX):
        fields = f'[{{name: inner, type: "[]S{depth}", tag: 0, nullable: 0+, fields: {fields}}}]'
    deep = f"""\
api: Deep
key: 911
listeners: [broker]
request: {{versions: 0, flexible: 0+, fields: {fields}}}
response: {{versions: 0, flexible: 0+, fields: []}}
"""

    def filled(kind: Any) -> Message:
        (field,) = kind.FIELDS
        return kind([filled(field.type)] if isinstance(field.type, type) else ["a", "b"])

    with own_package(tmp_path, {"deep": deep}) as (messages, _):
        message = filled(messages.DeepRequest)
        deepest = program(messages.DeepRequest, 0, engine)
        data = deepest.encode(message)
        assert deepest.decode(data) == (message, len(data))
        assert from_json(messages.DeepRequest, 0, to_json(message, 0)) == message


def test_fields_of_structures_count_wherever_they_are_used(write: Write) -> None:
    doubling = ["{name: a, type: int8}", *(f"{{name: a, type: S{n}}}, {{name: b, type: S{n}}}" for n in range(8))]
    load_file(write(nested(doubling)))
    with pytest.raises(
        SchemaError, match=rf"Sample: 1535 fields, including those of its structures; the limit is {FIELDS_MAX}"
    ):
        load_file(write(nested([*doubling, "{name: a, type: S8}, {name: b, type: S8}"])))


def test_every_problem_is_named(write: Write) -> None:
    text = SOUND.replace("entity: topic_name", "entity: topic").replace("tag: 0", "tag: 5")
    with pytest.raises(SchemaError) as caught:
        load_file(write(text))
    assert [(problem.line, problem.reason.split(":")[1]) for problem in caught.value.problems] == [
        (12, " field name"),
        (20, " field first"),
        (21, " field second"),
    ]


def test_circle_through_several_structures(write: Write) -> None:
    rack = "  - name: Rack\n    fields:\n      - {name: node, type: Node}\nfields:\n  - {name: name"
    text = SOUND.replace("host, type: string?, default: null", "host, type: Rack")
    path = write(text.replace("fields:\n  - {name: name", rack))
    with pytest.raises(SchemaError, match="a structure cannot hold itself: Node > Rack > Node"):
        load_file(path)


def test_listeners_are_known(write: Write) -> None:
    path = write(
        "api: Ping\nkey: 900\nlisteners: [zookeeper]\n"
        "request:\n  versions: 0\n  fields: []\nresponse:\n  versions: 0\n  fields: []\n"
    )
    with pytest.raises(
        SchemaError, match="PingRequest: listeners: unknown listener 'zookeeper'; expected one of broker, controller"
    ):
        load_file(path)


def test_every_entity_of_the_schemas_is_used(schemas: dict[Path, SchemaFile]) -> None:
    def entities(fields: tuple[FieldSpec, ...]) -> set[str | None]:
        return {field.entity for field in fields}.union(*(entities(field.fields or ()) for field in fields))

    messages = [message for file in schemas.values() for message in file.messages]
    assert set[str | None]().union(*(entities(message.fields) for message in messages)) == {None, *ENTITIES}
