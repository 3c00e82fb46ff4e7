"""The generated module has a constant for each node and a named tuple for each content type.

Method: run and use the module of a small table with every key; look up Kafka's nodes in the checked-in module.
"""

from __future__ import annotations

import typing
from inspect import cleandoc
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.emit.znodes import emit_znodes
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
from kafkawire.sdk.protocol.tables import znodes as generated
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.znodes import Access, Mode

VERSION = ZnodeFieldSpec("version", "version", ZnodeType("version"), required=ALL)
RED = ZnodeFieldSpec("red", "red", ZnodeType("int16"), required=ALL, min=0)
LAMP = ContentSpec(
    "LampState",
    'The state of a "lamp".',
    (
        ZnodeFieldSpec("bright", "brightness", ZnodeType("int8"), ALL, NONE, Versions(1, 1), True, -7, about="percent"),
        VERSION,
        ZnodeFieldSpec(
            "colors",
            "colors",
            ZnodeType("Color", True, "int32"),
            Versions(2, OPEN),
            NONE,
            ALL,
            True,
            {},
            order="scala_map",
        ),
        ZnodeFieldSpec("id", "id", ZnodeType("uuid", is_nullable=True), has_default=True, is_omitted=True),
        ZnodeFieldSpec("mood", "mood", ZnodeType("string"), has_default=True, default="x", one_of=("x",)),
        ZnodeFieldSpec("name", "name", ZnodeType("sanitized"), required=ALL, about="of the lamp " * 20),
    ),
    Versions(1, 3),
    Versions(1, OPEN),
    Versions(1, 2),
    refuses_unknown=True,
)
PLAIN = ContentSpec(
    "Plain",
    "Nothing else.",
    (VERSION, ZnodeFieldSpec("tags", "tags", ZnodeType("string", True), has_default=True, default=[])),
    Versions(0, 0),
    None,
    Versions(0, 0),
    is_default_if_empty=True,
)
REGISTRY = RegistrySpec(
    (
        ZnodeSpec("LAMPS", "/lamps", "lamps", is_made_at_startup=True, access="open"),
        ZnodeSpec("SWITCHES", "/switches", "how many", content="int32", access="secret"),
        ZnodeSpec("PLAIN", "/plain/{a}", "plain", {"a": "int32?"}, "ephemeral", "Plain"),
        ZnodeSpec(
            "LAMP",
            "/lamps/{a_room_in_the_house}/lamp_with_a_long_name_{sequence}",
            "a lamp",
            {"a_room_in_the_house": "sanitized?", "sequence": "sequence"},
            "persistent_sequential",
            "LampState",
        ),
    ),
    (LAMP, PLAIN),
    (StructureSpec("Color", "A color.", (RED,), True),),
)


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    text = emit_znodes(REGISTRY, "0")
    assert max(map(len, text.splitlines())) <= 120
    found: dict[str, Any] = {"__name__": "sample"}
    exec(compile(text, "sample.py", "exec"), found)
    return found


def test_nodes(module: dict[str, Any]) -> None:
    lamp, lamps, plain = module["LAMP"], module["LAMPS"], module["PLAIN"]
    assert module["ZNODES"] == {name: module[name] for name in ("LAMPS", "SWITCHES", "PLAIN", "LAMP")}
    assert (lamps.mode, lamps.access, lamps.is_made_at_startup) == (Mode.PERSISTENT, Access.OPEN, True)
    assert (lamp.mode, lamp.access, lamp.is_made_at_startup) == (Mode.PERSISTENT_SEQUENTIAL, Access.READABLE, False)
    assert (plain.mode, module["SWITCHES"].access) == (Mode.EPHEMERAL, Access.SECRET)
    assert lamp.path(None, 4) == "/lamps/<default>/lamp_with_a_long_name_0000000004"
    assert module["SWITCHES"].encode(5) == b"5"
    names = ["LAMP", "LAMPS", "PLAIN", "SWITCHES", "ZNODES", "Color", "LampState", "Plain"]
    assert module["__all__"] == names


def test_contents(module: dict[str, Any]) -> None:
    state, color, lamp = module["LampState"], module["Color"], module["LAMP"]
    assert state._fields == ("name", "bright", "colors", "id", "mood", "version")
    assert state("n") == ("n", -7, {}, None, "x", 2)
    assert lamp.encode(state("a b", 3, {1: (color(2),)})) == (
        b'{"brightness":3,"version":2,"colors":{"1":[{"red":2}]},"mood":"x","name":"a%20b"}'
    )
    assert lamp.encode(state("n", id=bytes(16), version=1)) == (
        b'{"brightness":-7,"version":1,"id":"AAAAAAAAAAAAAAAAAAAAAA","mood":"x","name":"n"}'
    )
    assert lamp.decode(b'{"version":9,"brightness":"?","name":"n"}') == state("n", version=9)
    assert module["PLAIN"].decode(None) == module["Plain"](()) == ((),)


@pytest.mark.parametrize(
    "content",
    [
        b'{"version":0,"name":"n"}',
        b'{"version":1}',
        b'{"version":1,"name":"n","x":1}',
        b'{"version":1,"name":"n","mood":"y"}',
        b'{"version":1,"name":"n","brightness":"?"}',
        b'{"version":1,"name":"n","colors":{"1":[{"red":-1}]}}',
        b'{"version":1,"name":"n","colors":{"1":[{"red":1,"x":1}]}}',
        b"",
    ],
)
def test_every_condition_is_written(module: dict[str, Any], content: bytes) -> None:
    with pytest.raises(DamagedZnode):
        module["LAMP"].decode(content)


def test_descriptions(module: dict[str, Any]) -> None:
    lines = cleandoc(module["LampState"].__doc__).splitlines()
    assert lines[:4] == ['The state of a "lamp".', "", "Attributes:", "    bright: percent."]
    assert lines[4].startswith("    name: of the lamp of the lamp")
    assert module["Color"].__doc__ == "A color."


def test_kafkas_nodes() -> None:
    registry = load_registry(SCHEMAS / "registry.yaml")
    assert list(generated.ZNODES) == [spec.name for spec in registry.znodes]
    for spec in registry.znodes:
        node = generated.ZNODES[spec.name]
        assert node is getattr(generated, spec.name)
        assert (node.template, node.mode.value, node.access.value) == (spec.path, spec.mode, spec.access)
    hints = typing.get_type_hints(generated.BrokerRegistration)
    assert hints["endpoints"] == tuple[str, ...]
    assert hints["rack"] == str | None
