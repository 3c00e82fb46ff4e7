"""Two states of a message become one definition that gives the bytes of both, or an error says why that is impossible.

Method: join pairs of small schemas, check the version ranges of the joined fields, and compare the layout of every
version with the state that has that version.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.codegen.evolution import layout_changes
from kafkawire.codegen.history import file_as_history, file_with_history, with_history
from kafkawire.codegen.layout import layout
from kafkawire.codegen.load import load_file
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import ApiFile, FieldSpec, MessageSpec, RecordFile, Removal, SchemaFile
from kafkawire.codegen.versions import NONE, Versions
from tests.codegen.conftest import Read, Write

Join = Callable[[str, str], MessageSpec]

#: A message with versions 0 to 3, of which the newer state has 2 and 3.
HEAD = "message: Lamp\nkind: data\n"


def removed_in(_name: str, _version: int) -> str:
    return "4.0"


@pytest.fixture
def join(read: Read) -> Join:
    """Return a function that joins two states; each is given as the text that follows the message's name."""

    def join(old: str, new: str) -> MessageSpec:
        older, newer = read(HEAD + old), read(HEAD + new)
        joined = with_history(newer, older, removed_in)
        for version in joined.known:
            state = newer if version in newer.known else older
            changes = layout_changes(layout(state, version), layout(joined, version))
            assert [change for change in changes if "ignorable" not in change[1]] == []
        return joined

    return join


def field(message: MessageSpec, name: str) -> FieldSpec:
    return next(item for item in message.fields if item.name == name)


OLD = """versions: 0-3
flexible: {flexible}
fields:
  - {{name: id, type: int32}}
  - {field}
  - {{name: lit, type: bool}}
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{name: a, type: int8, versions: 0-1}", None, "0-1"),
        ("{name: a, type: int8, versions: 0-3}", "{name: a, type: int8}", "0+"),
        ("{name: a, type: int8, versions: 1+}", "{name: a, type: int8}", "1+"),
        ("{name: a, type: int8, versions: 1+}", "{name: a, type: int8, versions: 1+}", "1+"),
        ("{name: a, type: int8, versions: 1-2}", "{name: a, type: int8, versions: 2}", "1-2"),
        ("{name: b, type: int8, versions: 3+}", "{name: a, type: int8, versions: 0+}", "2+"),
    ],
)
def test_versions(join: Join, old: str, new: str | None, expected: str) -> None:
    newer = OLD.replace("0-3", "2-3", 1).format(flexible="none", field=new or "{name: c, type: bool, versions: 2+}")
    older = OLD.format(flexible="none", field=old)
    if new is None:
        older = older.replace("{name: lit", "{name: c, type: bool, versions: 2+}\n  - {name: lit")
    joined = join(older, newer)
    assert str(field(joined, "a").versions) == expected
    assert (joined.versions, joined.removed) == (Versions(2, 3), (Removal("4.0", Versions(0, 1)),))
    assert (joined.fields[0].name, joined.fields[-1].name) == ("id", "lit")


@pytest.mark.parametrize(
    ("old", "new", "nullable"),
    [
        ("nullable: 1+", "nullable: 0+", Versions(1, 3)),
        ("nullable: 2+", "nullable: 2+", Versions(2, 3)),
        ("nullable: 0-2", "nullable: 2", Versions(1, 2)),
    ],
)
def test_nullable(join: Join, old: str, new: str, nullable: Versions) -> None:
    older = OLD.format(flexible="none", field=f"{{name: a, type: string, versions: 1+, {old}}}")
    newer = OLD.replace("0-3", "2-3", 1).format(flexible="none", field=f"{{name: a, type: string, {new}}}")
    joined = field(join(older, newer), "a")
    assert joined.nullable & Versions(1, 3) == nullable


def test_what_became_flexible_and_tagged(join: Join) -> None:
    joined = join(
        OLD.format(flexible="1+", field="{name: a, type: string, versions: 1+, tag: 0}"),
        OLD.replace("0-3", "2-3", 1).format(flexible="0+", field="{name: a, type: string, tag: 0}"),
    )
    assert str(joined.flexible) == "1+"
    assert (str(field(joined, "a").versions), str(field(joined, "a").tagged)) == ("1+", "1+")


@pytest.mark.parametrize(
    ("old", "new", "ignorable"),
    [
        ("versions: 1+, ignorable: true", "ignorable: false", True),  # only version 0 can omit the field
        ("ignorable: true", "ignorable: false", False),  # no version can omit the field
        ("versions: 1+, ignorable: true", "versions: 3+, ignorable: false", False),  # so can version 2
    ],
)
def test_ignorable_follows_who_needs_it(join: Join, old: str, new: str, ignorable: bool) -> None:
    older = OLD.format(flexible="none", field=f"{{name: a, type: int8, {old}}}")
    newer = OLD.replace("0-3", "2-3", 1).format(flexible="none", field=f"{{name: a, type: int8, {new}}}")
    if "3+" in new:
        older = older.replace("versions: 1+", "versions: 3+")
    assert field(join(older, newer), "a").ignorable is ignorable


STRUCTURES = """versions: {versions}
fields:
  - name: rooms
    type: "[]Room"
    fields:
      - {{name: number, type: int16}}
{more}  - {{name: end, type: int8}}
"""


def test_fields_of_structures(join: Join) -> None:
    old = STRUCTURES.format(versions="0-2", more="      - {name: floor, type: int8, versions: 0}\n")
    new = STRUCTURES.format(versions="1-3", more="      - {name: lamps, type: int8, versions: 2+}\n")
    old = old.replace("  - {name: end", "      - {name: lamps, type: int8, versions: 2+}\n  - {name: end")
    rooms = field(join(old, new), "rooms")
    assert [(item.name, str(item.versions)) for item in rooms.fields or ()] == [
        ("number", "0+"),
        ("floor", "0"),
        ("lamps", "2+"),
    ]


SHARED = """versions: {versions}
structs:
  - name: Room
    fields:
      - {{name: number, type: int16}}
      {more}
fields:
  - {{name: rooms, type: "[]Room"}}
  - {{name: best, type: Room}}
"""


@pytest.mark.parametrize("name", ["Room", "Chamber"])
def test_shared_structures(join: Join, name: str) -> None:
    joined = join(
        SHARED.format(versions="0-1", more="- {name: floor, type: int8, versions: 0}"),
        SHARED.format(versions="1-2", more="- {name: lamps, type: int8, versions: 2+}").replace("Room", name),
    )
    (room,) = joined.structs
    assert room.name == name
    assert [(item.name, str(item.versions)) for item in room.fields] == [
        ("number", "0+"),
        ("floor", "0"),
        ("lamps", "2+"),
    ]


def test_a_shared_structure_that_only_the_old_state_has(join: Join) -> None:
    old = SHARED.format(versions="0", more="- {name: floor, type: int8}")
    joined = join(old, "versions: 1\nfields: [{name: number, type: int16}]\n")
    assert [(item.name, str(item.versions)) for item in joined.fields] == [
        ("rooms", "0"),
        ("best", "0"),
        ("number", "1+"),
    ]
    assert [struct.name for struct in joined.structs] == ["Room"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "{name: a, type: int8}",
            "{name: a, type: int16}",
            "cannot be combined with its history .*: a: type int8 became int16",
        ),
        (
            "{name: a, type: int8, versions: 0}",
            "{name: a, type: int8}",
            "a: 0 .removed versions. and 0. do not form one",
        ),
        (
            "{name: a, type: string, tag: 0}",
            "{name: b, type: string, tag: 0}\n  - {name: a, type: string, tag: 1}",
            "a: tag 0 became 1",
        ),
    ],
)
def test_what_one_definition_cannot_say(join: Join, old: str, new: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=f"Lamp: .*{reason}"):
        join(
            OLD.format(flexible="0+", field=old),
            OLD.replace("0-3", "2-3", 1).format(flexible="0+", field=new),
        )


def test_versions_between_the_states_must_not_be_missing(join: Join) -> None:
    with pytest.raises(SchemaError, match="the versions between 0-1 and 3 are missing"):
        join("versions: 0-1\nfields: []\n", "versions: 3\nfields: []\n")


def test_nothing_to_add(read: Read) -> None:
    new = read(HEAD + "versions: 0-3\nfields: []\n")
    assert with_history(new, read(HEAD + "versions: 0-2\nfields: [{name: a, type: int8}]\n"), removed_in) is new


def test_each_version_has_the_release_that_removed_it(read: Read) -> None:
    releases = {0: "4.0", 1: "4.0", 2: "4.2"}
    old = read(HEAD + 'versions: 1-3\nremoved: {"3.1": 0}\nfields: []\n')
    joined = with_history(read(HEAD + "versions: 3\nfields: []\n"), old, lambda _name, version: releases[version])
    assert joined.removed == (
        Removal("3.1", Versions(0, 0)),
        Removal("4.0", Versions(1, 1)),
        Removal("4.2", Versions(2, 2)),
    )
    assert joined.removed_in(0) == "3.1"
    assert joined.removed_in(3) is None


API = """api: Lamp
key: {key}
listeners: [{listeners}]
{more}
request: {{versions: {versions}, fields: {fields}}}
response: {{versions: {versions}, fields: {fields}}}
"""


def api(write: Write, versions: str, fields: str = "[]", key: int = 9, more: str = "") -> SchemaFile:
    listeners = "" if versions == "none" else "broker"
    return load_file(write(API.format(key=key, versions=versions, fields=fields, listeners=listeners, more=more)))


def test_an_api_without_a_living_version(write: Write) -> None:
    old = api(write, "0-1", "[{name: a, type: int8}]", more="first_request_header: 0")
    joined = file_with_history(api(write, "none"), old, removed_in)
    assert isinstance(joined, ApiFile)
    assert joined.first_request_header == 0
    for message in joined.messages:
        assert (message.versions, str(message.known), message.listeners) == (NONE, "0-1", ())
        assert [item.name for item in message.fields] == ["a"]
    assert file_with_history(joined, old, removed_in) == joined


def test_a_file_that_the_newer_state_lacks(write: Write) -> None:
    gone = file_as_history(api(write, "0-1", more="first_request_header: 0"), removed_in)
    assert isinstance(gone, ApiFile)
    assert [(str(message.versions), str(message.known), message.listeners) for message in gone.messages] == [
        ("none", "0-1", ())
    ] * 2
    record = load_file(
        write("record: Lamp\ntype: 9\ntopic: __t\nkey: {versions: 0, fields: []}\nvalue: {versions: 0-1, fields: []}\n")
    )
    gone = file_as_history(record, removed_in)
    assert isinstance(gone, RecordFile)
    assert (str(gone.key.known), str(gone.value.known), gone.key.versions) == ("0", "0-1", NONE)


def test_a_file_of_another_kind(write: Write) -> None:
    single = load_file(write(HEAD + "versions: 0\nfields: []\n"))
    with pytest.raises(SchemaError, match="the message's kind has changed"):
        file_with_history(api(write, "1"), single, removed_in)


def test_what_was_joined_reads_back(write: Write, tmp_path: Path) -> None:
    from kafkawire.codegen.dump import dump

    joined = file_with_history(api(write, "2"), api(write, "0-1", "[{name: a, type: int8, versions: 1}]"), removed_in)
    path = tmp_path / "lamp.yaml"
    path.write_text(dump(joined, 0))
    assert 'removed: {"4.0": 0-1}' in path.read_text()
    assert load_file(path) == joined
