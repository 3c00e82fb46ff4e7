"""A message narrowed to one version has that version's fields, in wire order and with their encodings.

Method: narrow one message with every kind of field to each of its versions; compare the layouts of all the project's
messages with the codecs' layouts for the generated classes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.layout import layout, walk
from kafkawire.codegen.spec import SchemaFile
from kafkawire.sdk.protocol.layout import Layout
from kafkawire.sdk.protocol.layout import layout as codec_layout
from kafkawire.sdk.protocol.programs import message_class
from tests.codegen.conftest import Read

TEXT = """\
message: Sample
kind: data
versions: 0-3
flexible: 2+
fields:
  - {name: late, type: string, versions: 1+, tag: 1, tagged: 2+, default: ""}
  - {name: name, type: string, nullable: 1}
  - {name: old, type: int8, versions: 0-1}
  - {name: classic, type: bytes, flexible: none}
  - name: items
    type: "[]Item?"
    versions: 1+
    fields:
      - {name: number, type: int32}
  - {name: early, type: int8, versions: 2+, tag: 0}
"""


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, ["name string", "old int8", "classic bytes"]),
        (1, ["late string", "name string?", "old int8", "classic bytes", "items []Item?", "items.number int32"]),
        (2, ["name string compact", "classic bytes", "items []Item? compact", "items.number int32", "early int8 tag 0",
             "late string tag 1 compact"]),
    ],
)  # fmt: skip
def test_versions(read: Read, version: int, expected: list[str]) -> None:
    found = [
        f"{'.'.join(path)} {entry.type}{'' if entry.tag is None else f' tag {entry.tag}'}{' compact' * entry.compact}"
        for path, entry in walk(layout(read(TEXT), version))
    ]
    assert found == expected


def test_version_that_does_not_exist(read: Read) -> None:
    with pytest.raises(ValueError, match="Sample has no version 4; it has 0-3"):
        layout(read(TEXT), 4)


def of_codec(found: Layout, path: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for field in (*found.fields, *found.tagged):
        here = (*path, field.name)
        rows.append((here, field.nullable, field.tag))
        rows += of_codec(field.structure, here) if field.structure is not None else []
    return rows


def test_the_codecs_see_the_same(schemas: dict[Path, SchemaFile]) -> None:
    for message in (message for file in schemas.values() for message in file.messages):
        for version in message.versions:
            found = [(path, entry.nullable, entry.tag) for path, entry in walk(layout(message, version))]
            assert found == of_codec(codec_layout(message_class(message.name), version)), (message.name, version)
