"""Every kind of change to a message gets the right verdict on its bytes.

Method: change one message in one place; the table gives the expected change, its versions and the verdict.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.change import Change, Verdict
from kafkawire.codegen.evolution import compare, field_changes
from kafkawire.codegen.load import load_file
from kafkawire.codegen.state import State, load_state
from kafkawire.codegen.versions import Versions
from tests.codegen.conftest import Write

OLD = """\
api: Ping
key: 900
listeners: [broker, controller]
request:
  versions: 0-3
  flexible: 2+
  fields:
    - {name: group, type: string}
    - {name: count, type: int32, default: 5}
    - name: items
      type: "[]Item"
      fields:
        - {name: index, type: int32}
        - {name: text, type: string, versions: 1+, ignorable: true}
    - {name: rack, type: string?, versions: 2+, tag: 0, default: null}
response:
  versions: 0-3
  flexible: 2+
  fields: []
"""

OK, NOTE, BREAKS = Verdict

CASES: dict[str, tuple[str, str, list[tuple[str, str, str, Verdict]]]] = {
    "nothing": ("name: group", "name: group", []),
    "structure renamed": ("[]Item", "[]Thing", []),
    "description": ("type: int32, default: 5", "type: int32, default: 5, about: how many", []),
    "field renamed": ("name: count", "name: number", [("0-3", "count", "renamed to number", NOTE)]),
    "field retyped": (
        "count, type: int32, default: 5",
        "count, type: int64, default: 5",
        [("0-3", "count", "type int32 became int64", BREAKS)],
    ),
    "array of it": (
        "count, type: int32, default: 5",
        'count, type: "[]int32"',
        [("0-3", "count", "type int32 became []int32", BREAKS)],
    ),
    "field removed": ("    - {name: count, type: int32, default: 5}\n", "", [("0-3", "count", "removed", BREAKS)]),
    "field ends early": (
        "type: int32, default: 5",
        "type: int32, default: 5, versions: 0-1",
        [("2-3", "count", "removed", BREAKS)],
    ),
    "field begins later and ends early": (
        "type: int32, default: 5",
        "type: int32, default: 5, versions: 1-2",
        [("0", "count", "removed", BREAKS), ("3", "count", "removed", BREAKS)],
    ),
    "field reaches back": (
        "text, type: string, versions: 1+",
        "text, type: string",
        [("0", "items.text", "added, string", BREAKS)],
    ),
    "field inserted": (
        "    - {name: count",
        "    - {name: extra, type: int8}\n    - {name: count",
        [("0-3", "extra", "added, int8", BREAKS)],
    ),
    "fields swapped": (
        "    - {name: group, type: string}\n    - {name: count, type: int32, default: 5}\n",
        "    - {name: count, type: int32, default: 5}\n    - {name: group, type: string}\n",
        [("0-3", "group", "moved", BREAKS)],
    ),
    "inside a structure": (
        "index, type: int32",
        "index, type: int16",
        [("0-3", "items.index", "type int32 became int16", BREAKS)],
    ),
    "nullable": ("group, type: string", "group, type: string?", [("0-3", "group", "may now be null", BREAKS)]),
    "never null": (
        "string?, versions: 2+, tag: 0, default: null",
        "string, versions: 2+, tag: 0",
        [
            ("2-3", "rack", "may no longer be null", BREAKS),
            ("2-3", "rack", "default null became that of the type", BREAKS),
        ],
    ),
    "default": ("default: 5", "default: 6", [("0-3", "count", "default 5 became 6", NOTE)]),
    "default of a tagged field": (
        "default: null",
        'default: "x"',
        [("2-3", "rack", "default null became 'x'", BREAKS)],
    ),
    "tag added": (
        "default: null}\n",
        "default: null}\n    - {name: zone, type: string, versions: 3+, tag: 1}\n",
        [("3", "zone", "added, string, tag 1", OK)],
    ),
    "tag removed": (
        "    - {name: rack, type: string?, versions: 2+, tag: 0, default: null}\n",
        "",
        [("2-3", "rack", "removed", NOTE)],
    ),
    "tag renumbered": (
        "versions: 2+, tag: 0, default: null}",
        "versions: 2+, tag: 1, default: null}\n    - {name: zone, type: string, versions: 2+, tag: 0}",
        [("2-3", "rack", "tag 0 became tag 1", BREAKS), ("2-3", "zone", "added, string, tag 0", OK)],
    ),
    "tag becomes a field": (
        "versions: 2+, tag: 0",
        "versions: 2+",
        [("2-3", "rack", "tag 0 became an ordinary field", BREAKS)],
    ),
    "ignorable": ("type: string}", "type: string, ignorable: true}", [("0-3", "group", "became ignorable", OK)]),
    "not ignorable": (
        ", ignorable: true",
        "",
        [("1-3", "items.text", "no longer ignorable: writing an older version may fail", NOTE)],
    ),
    "a structure and its field": (
        'type: "[]Item"\n      fields:\n        - {name: index, type: int32}',
        'type: "[]Item"\n      ignorable: true\n      fields:\n        - {name: index, type: int16}',
        [("0-3", "items", "became ignorable", OK), ("0-3", "items.index", "type int32 became int16", BREAKS)],
    ),
    "entity": (
        "type: string}",
        "type: string, entity: group_id}",
        [("0-3", "group", "entity none became group_id", NOTE)],
    ),
    "listener": ("[broker, controller]", "[broker]", [("0-3", "", "no longer accepted by controller", NOTE)]),
    "deprecated": (
        "  fields:\n    - {name: group",
        "  deprecated: 0-1\n  fields:\n    - {name: group",
        [("0-1", "", "deprecated", NOTE)],
    ),
    "key": ("key: 900", "key: 901", [("0-3", "", "request 900 became request 901", BREAKS)]),
}


def state(write: Write, text: str) -> State:
    return State({Path("ping.yaml"): load_file(write(text))})


def of_request(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.subject == "PingRequest"]


@pytest.mark.parametrize(("old", "new", "expected"), CASES.values(), ids=CASES)
def test_change_within_versions(
    write: Write, old: str, new: str, expected: list[tuple[str, str, str, Verdict]]
) -> None:
    assert OLD.count(old) == 1
    changes = of_request(compare(state(write, OLD), state(write, OLD.replace(old, new))))
    assert changes == [
        Change("PingRequest", field, what, verdict, Versions.parse(v)) for v, field, what, verdict in expected
    ]


VERSIONS: dict[str, tuple[str, str, list[tuple[str, str, str, Verdict]]]] = {
    "new version": ("0-3", "0-4", [("4", "", "new version", OK)]),
    "two new versions": ("0-3", "0-5", [("4-5", "", "new version", OK)]),
    "oldest dropped": ("0-3", "2-3", [("0-1", "", "version dropped", NOTE)]),
    "newest taken back": ("0-3", "0-2", [("3", "", "the newest version was withdrawn", BREAKS)]),
    "all dropped": ("0-3", "none", [("0-3", "", "version dropped", NOTE)]),
    "flexible earlier": (
        "2+",
        "1+",
        [
            ("1", "", "header 1 became 2", BREAKS),
            ("1", "", "encoding became flexible", BREAKS),
            ("1", "group", "length became compact", BREAKS),
            ("1", "items", "length became compact", BREAKS),
            ("1", "items.text", "length became compact", BREAKS),
        ],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), VERSIONS.values(), ids=VERSIONS)
def test_change_of_versions(write: Write, old: str, new: str, expected: list[tuple[str, str, str, Verdict]]) -> None:
    key = "flexible" if "+" in old else "versions"
    text = OLD.replace(f"{key}: {old}\n", f"{key}: {new}\n")
    if new == "none":
        fields = text[text.index("  fields:") : text.index("response:")]
        text = text.replace(fields, "  fields: []\n")
    changes = of_request(compare(state(write, OLD), state(write, text)))
    assert changes == [
        Change("PingRequest", field, what, verdict, Versions.parse(v)) for v, field, what, verdict in expected
    ]


def test_the_first_version_alone_is_left(write: Write) -> None:
    def ping(versions: str) -> State:
        body = f"  versions: {versions}\n  fields: []\n"
        return state(write, f"api: Ping\nkey: 900\nlisteners: [broker]\nrequest:\n{body}response:\n{body}")

    assert list(map(str, of_request(compare(ping("0-1"), ping("0"))))) == [
        "PingRequest 1: the newest version was withdrawn (breaks the wire)"
    ]


def test_steps_of_a_message(write: Write) -> None:
    (file,) = state(write, OLD).files.values()
    assert {version: list(field_changes(file.messages[0], version)) for version in range(4)} == {
        0: [],
        1: [("items.text", "added, string")],
        2: [("", "becomes flexible"), ("rack", "added, string?, tag 0")],
        3: [],
    }


def test_tables_are_compared_if_both_have_them() -> None:
    whole = load_state(SCHEMAS)
    bare = State(whole.files)
    emptied = {
        "formats": replace(whole, formats={}),
        "errors": replace(whole, errors=()),
        "enumerations": replace(whole, enumerations=()),
        "constants": replace(whole, constants=()),
    }
    assert compare(whole, whole) == compare(whole, bare) == compare(bare, whole) == []
    found = {table: {change.subject for change in compare(whole, other)} for table, other in emptied.items()}
    assert not any(one & other for one, other in combinations(found.values(), 2))
    assert all(found.values())


def test_new_version_says_what_is_new(write: Write) -> None:
    text = OLD.replace("versions: 0-3", "versions: 0-4").replace(
        "count, type: int32, default: 5}",
        "count, type: int32, default: 5, versions: 0-3}\n    - {name: size, type: int64, versions: 4+}",
    )
    found = {
        (change.field, change.what, change.verdict)
        for change in of_request(compare(state(write, OLD), state(write, text)))
    }
    assert found == {("", "new version", OK), ("count", "removed", OK), ("size", "added, int64", OK)}


def test_unstable_version_may_change(write: Write) -> None:
    unstable = OLD.replace("  versions: 0-3", "  versions: 0-3\n  unstable: true", 1)
    changes = compare(
        state(write, unstable), state(write, unstable.replace("count, type: int32", "count, type: int64"))
    )
    assert [(str(change.versions), change.verdict) for change in changes] == [("0-2", BREAKS), ("3", NOTE)]


def test_stability(write: Write) -> None:
    unstable = OLD.replace("  versions: 0-3", "  versions: 0-3\n  unstable: true", 1)
    newer = unstable.replace("versions: 0-3", "versions: 0-4")
    assert list(map(str, compare(state(write, OLD), state(write, unstable)))) == [
        "PingRequest 3: is unstable and may still change (note)"
    ]
    assert list(map(str, compare(state(write, unstable), state(write, OLD)))) == [
        "PingRequest 3: became stable (compatible)"
    ]
    assert list(map(str, of_request(compare(state(write, unstable), state(write, newer))))) == [
        "PingRequest 3: became stable (compatible)",
        "PingRequest 4: is unstable and may still change (note)",
        "PingRequest 4: new version (compatible)",
    ]


def test_other_versions_are_deprecated(write: Write) -> None:
    first, second = (OLD.replace("  fields:", f"  deprecated: {version}\n  fields:", 1) for version in (0, 1))
    assert list(map(str, compare(state(write, first), state(write, second)))) == [
        "PingRequest 0: no longer deprecated (note)",
        "PingRequest 1: deprecated (note)",
    ]


def test_structure_and_its_fields_renamed_together(write: Write) -> None:
    new = OLD.replace("name: items", "name: parts").replace("name: index", "name: number")
    assert list(map(str, compare(state(write, OLD), state(write, new)))) == [
        "PingRequest 0-3 items: renamed to parts (note)",
        "PingRequest 0-3 items.index: renamed to number (note)",
    ]
    retyped = new.replace("number, type: int32", "number, type: int64")
    assert [change.verdict for change in compare(state(write, OLD), state(write, retyped))] == [BREAKS, BREAKS]


LAMP = """message: Lamp
kind: data
versions: {versions}
{removed}
fields: [{{name: lit, type: {type}}}]
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (("0-1", "", "bool"), ("1", "4.0", "bool"), [("0", "version dropped")]),
        (("1", "", "bool"), ("1", "4.0", "bool"), [("0", "known, removed in 4.0")]),
        (("1", "4.0", "bool"), ("1", "", "bool"), [("0", "the removed version is no longer known")]),
        (("0", "", "bool"), ("none", "4.0", "bool"), [("0", "version dropped")]),
        (("none", "4.0", "bool"), ("none", "4.0", "bool"), []),
        (
            ("0-1", "", "bool"),
            ("1", "4.0", "int8"),
            [("0", "version dropped"), ("0-1", "type bool became int8")],
        ),
        (("none", "4.0", "bool"), ("none", "4.0", "int8"), [("0", "type bool became int8")]),
    ],
)
def test_removed_versions(
    write: Write, old: tuple[str, str, str], new: tuple[str, str, str], expected: list[tuple[str, str]]
) -> None:
    states = []
    for versions, release, kind in (old, new):
        removed = f'removed: {{"{release}": 0}}' if release else ""
        file = load_file(write(LAMP.format(versions=versions, removed=removed, type=kind)))
        states.append(State({Path("lamp.yaml"): file}))
    assert [(str(change.versions), change.what) for change in compare(*states)] == expected


def test_newest_version_is_taken_back_where_the_others_are_history(write: Write) -> None:
    texts = (("0-3", ""), ("none", 'removed: {"4.0": 0-2}'))
    old, new = (
        State({Path("lamp.yaml"): load_file(write(LAMP.format(versions=versions, removed=removed, type="bool")))})
        for versions, removed in texts
    )
    assert list(map(str, compare(old, new))) == [
        "Lamp 0-2: version dropped (note)",
        "Lamp 3: the newest version was withdrawn (breaks the wire)",
    ]


def test_messages_come_and_go(write: Write) -> None:
    old, new = state(write, OLD), state(write, OLD.replace("api: Ping", "api: Pong"))
    assert [(change.subject, change.what, change.verdict) for change in compare(old, new)] == [
        ("PingRequest", "message removed", NOTE),
        ("PingResponse", "message removed", NOTE),
        ("PongRequest", "new message", OK),
        ("PongResponse", "new message", OK),
    ]


@pytest.mark.parametrize(
    ("flexible", "keys", "expected"),
    [
        ("2+", "request_header: 1", ["PingRequest 2-3: header 2 became 1 (breaks the wire)"]),
        ("2+", "response_header: 0", ["PingResponse 2-3: header 1 became 0 (breaks the wire)"]),
        ("2+", "first_request_header: 0", ["PingRequest 0: header 1 became 0 (breaks the wire)"]),
        ("2+", "first_request_header: 1", []),
        ("none", "request_header: 1\nresponse_header: 0", []),
        (
            "none",
            "request_header: 0\nfirst_request_header: 1",
            ["PingRequest 1-3: header 1 became 0 (breaks the wire)"],
        ),
    ],
)
def test_headers(write: Write, flexible: str, keys: str, expected: list[str]) -> None:
    """The header version that applies to each version of the message is compared, wherever the schema states it."""
    text = OLD.replace("flexible: 2+", f"flexible: {flexible}")
    if flexible == "none":
        text = text.replace(", tag: 0", "")
    old, new = state(write, text), state(write, text.replace("key: 900", f"key: 900\n{keys}"))
    assert list(map(str, compare(old, new))) == expected
    assert len(compare(new, old)) == len(expected)


def test_the_header_of_a_new_version_is_no_change(write: Write) -> None:
    newer = OLD.replace("key: 900", "key: 900\nresponse_header: 0").replace("versions: 0-3", "versions: 0-4")
    assert list(map(str, compare(state(write, OLD), state(write, newer)))) == [
        "PingRequest 4: new version (compatible)",
        "PingResponse 2-3: header 1 became 0 (breaks the wire)",
        "PingResponse 4: new version (compatible)",
    ]


VISIT = """\
record: Visit
type: 99
topic: __visits
key: {versions: 0, fields: [{name: visitor, type: string}]}
value: {versions: 0, fields: []}
"""


def test_records_of_another_topic(write: Write) -> None:
    changes = compare(state(write, VISIT), state(write, VISIT.replace("__visits", "__visitors")))
    assert list(map(str, changes)) == ["VisitKey: topic __visits became __visitors (note)"]


def test_records_in_another_folder(write: Write) -> None:
    lamp = load_file(write("message: Lamp\nkind: metadata\ntype: 4\nversions: 0\nfields: []\n"))
    old, new = (State({Path(folder, "lamp.yaml"): lamp}) for folder in ("lamps", "bulbs"))
    assert list(map(str, compare(old, new))) == ["Lamp: topic __lamps became __bulbs (note)"]
    assert compare(old, old) == []
