"""A message that contradicts itself is refused, and the error says where.

Method: a sound message is changed in one place; each change gives its file, line, message and field. The schemas of the
project, which hold every oddity that Kafka has, pass.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkawire.codegen.consistency import ENTITIES
from kafkawire.codegen.load import load_file
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import FieldSpec, SchemaFile
from tests.codegen.conftest import Read, Write

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
    ("kind: data\nversions: 1-4", "kind: data\nversions: none", 1, "it has fields but no versions"),
    ("versions: 1-4", "versions: 1+", 1, "versions: 1+ is open; the newest version must be named"),
    ("flexible: 3+", "flexible: 5+", 1, "flexible: 5+ begins after the versions 1-4"),
    ("flexible: 3+", "flexible: 3", 1, "flexible: 3 ends before the versions 1-4"),
    ("flexible: 3+", "flexible: 3+\ndeprecated: 0", 1, "deprecated: 0 is not within the versions 1-4"),
    ("    versions: 2+\n", "    versions: 5+\n", 6, "structure Node: no version of 5+ exists"),
    ("[]Node", "[]Nod", 13, "field nodes: structure Nod is not defined"),
    ('"[]Node"', "int32", 6, "structure Node is never used"),
    ("[]Part", "[]Node", 15, "structure Node is defined twice"),
    ("index, type: int32", 'index, type: "[]Part"', 19, "field index: a structure cannot hold itself: Part > Part"),
    ("versions: 1-2, zero_copy", "versions: none, zero_copy", 14, "field blob: versions: none; a field"),
    ("versions: 1-2, zero_copy", "versions: 5+, zero_copy", 14, "field blob: versions: 5+ begins after 1-4"),
    ("index, type: int32", "index, type: int32, versions: 4+", 19, "field index: versions: 4+ begins after 2-3"),
    ("first, type: int32", "first, type: int32?", 20, "field first: nullable: a int32 has no form for null"),
    ("first, type: int32", 'first, type: "[]int32", nullable: 0-2', 20, "field first: nullable: 0-2 is outside"),
    (
        "blob, type: bytes",
        "blob, type: bytes, nullable: 2, default: null",
        14,
        "field blob: default null, but of its versions",
    ),
    ("blob, type: bytes", "blob, type: bytes, flexible: 2+", 14, "field blob: flexible: 2+; only `none` is known"),
    ("first, type: int32", "first, type: int32, flexible: none", 20, "field first: flexible: a int32 has no length"),
    ("blob, type: bytes", "blob, type: string", 14, "field blob: zero_copy: only bytes and records"),
    ("entity: topic_name", "entity: topic", 12, "field name: entity: topic is none of"),
    ("name, type: string", "name, type: uuid", 12, "field name: entity: a topic_name is of type string, not uuid"),
    ("name, type: string", "name, type: string, map_key: true", 12, "field name: map_key: only the elements"),
    ('"[]Node"', "Node", 9, "field node_id: map_key: only the elements"),
    ("tag: 0", "tag: -1", 20, "field first: tag -1 is negative"),
    ("tag: 0", "tag: 2", 20, "field first: tag 2, but tag 0 is not used"),
    ("versions: 3+, tag: 0", "versions: 2+, tag: 0", 20, "field first: tagged: 2-4, but only the versions 3+"),
    ("tagged: 3+", "tagged: none", 21, "field second: tag 1, but it is tagged in no version"),
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
    with pytest.raises(SchemaError, match="PingRequest: listeners: 'zookeeper' is none of broker, controller"):
        load_file(path)


def test_every_entity_of_the_schemas_is_used(schemas: dict[Path, SchemaFile]) -> None:
    def entities(fields: tuple[FieldSpec, ...]) -> set[str | None]:
        return {field.entity for field in fields}.union(*(entities(field.fields or ()) for field in fields))

    messages = [message for file in schemas.values() for message in file.messages]
    assert set[str | None]().union(*(entities(message.fields) for message in messages)) == {None, *ENTITIES}
