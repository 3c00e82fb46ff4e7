"""A generated module has a typed, documented and readable class for each message and structure.

Method: execute the modules of small schemas and check their classes; check the text's line length and the parts that
people read.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType

import pytest

from kafkawire.codegen.emit.messages import emit_messages, module_name
from kafkawire.codegen.load import load_file
from kafkawire.sdk.protocol.schema import DEFAULT, Field
from kafkawire.sdk.protocol.versions import VersionRange as V
from tests.codegen.conftest import Write

PING = """\
api: Ping
key: 900
listeners: [broker]
about: Is anybody there?
request:
  versions: 1-3
  flexible: 2+
  structs:
    - name: Node
      about: where somebody lives
      fields:
        - {name: host, type: string}
  fields:
    - {name: text, type: string, about: what to say}
    - name: items
      type: "[]Item"
      versions: 0-2
      fields:
        - {name: index, type: int32, default: -1}
        - {name: node, type: Node}
    - {name: nodes, type: "[]Node?", versions: 2+, default: null}
    - {name: best, type: "Node?", versions: 2+, default: null}
    - {name: rack, type: string?, versions: 2+, tag: 0, default: null, ignorable: true}
    - {name: blob, type: records?, versions: 1+, flexible: none}
    - {name: identity, type: uuid}
response:
  versions: 1-3
  fields: []
"""


def module(path: Path) -> ModuleType:
    """Return the module of a schema file."""
    text = emit_messages(Path("messages/ping.yaml"), load_file(path), "0" * 64)
    assert max(map(len, text.split("\n"))) <= 120
    found = ModuleType("generated")
    exec(compile(text, "generated", "exec"), found.__dict__)
    return found


@pytest.fixture
def ping(write: Write) -> ModuleType:
    return module(write(PING))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("messages/fetch.yaml", "fetch"),
        ("headers.yaml", "headers"),
        ("coordinator/consumer_offsets/offset_commit.yaml", "coordinator.consumer_offsets.offset_commit"),
    ],
)
def test_module_name(path: str, name: str) -> None:
    assert module_name(Path(path)) == name


def test_classes(ping: ModuleType) -> None:
    assert ping.__all__ == ["PingRequest", "PingResponse"]
    request = ping.PingRequest
    assert request.SCHEMA == ("PingRequest", "request", 900, (1, 3), (2, 3), ())
    assert ping.PingResponse.SCHEMA == ("PingResponse", "response", 900, (1, 3), None, ())
    assert [field.name for field in request.FIELDS] == ["text", "items", "nodes", "best", "rack", "blob", "identity"]
    assert [field.name for field in request.Item.FIELDS] == ["index", "node"]
    assert ping.PingResponse.FIELDS == ()


def test_fields(ping: ModuleType) -> None:
    request = ping.PingRequest
    fields = {field.name: field for field in request.FIELDS}
    assert fields["text"] == Field("text", "string", V(1, 3), default="")
    assert fields["items"] == Field("items", request.Item, V(1, 2), default=(), array=True)
    assert fields["nodes"] == Field("nodes", request.Node, V(2, 3), default=None, array=True, nullable=V(2, 3))
    assert fields["rack"] == Field("rack", "string", V(2, 3), None, False, V(2, 3), 0, V(2, 3), True)
    assert fields["blob"].compact is False
    assert request.Item.FIELDS[1].default is DEFAULT


def test_constructor(ping: ModuleType) -> None:
    request = ping.PingRequest
    message = request(text="a", items=[request.Item(3)], unknown_tags=((7, b"x"),))
    assert (message.text, message.items[0].index, message.rack, message.blob, message.unknown_tags) == (
        "a", 3, None, None, ((7, b"x"),)
    )  # fmt: skip
    assert request.Item().node == request.Node()
    assert message.identity == bytes(16)


def test_annotations(ping: ModuleType) -> None:
    annotations = inspect.get_annotations(ping.PingRequest.__init__)
    assert annotations == {
        "text": "str",
        "items": "Sequence[PingRequest.Item]",
        "nodes": "Sequence[PingRequest.Node] | None",
        "best": "PingRequest.Node | None",
        "rack": "str | None",
        "blob": "Buffer | None",
        "identity": "bytes",
        "unknown_tags": "UnknownTags",
        "return": "None",
    }


def test_descriptions(ping: ModuleType) -> None:
    assert ping.__doc__ == "Ping, API key 900. Is anybody there?"
    request = inspect.getdoc(ping.PingRequest) or ""
    assert request.split("\n") == [
        "Is anybody there?",
        "",
        "Attributes:",
        "    text: what to say.",
    ]
    assert ping.PingResponse.__doc__ == "The response to `PingRequest`."
    assert ping.PingRequest.Node.__doc__ == "Where somebody lives."
    assert ping.PingRequest.Item.__doc__ == "An element of `items`."


def test_descriptions_cannot_leave_their_docstring(write: Write) -> None:
    about = json.dumps('ends """ with \\ and "quotes"')
    lamp = module(write(f"message: Lamp\nkind: data\nabout: {about}\nversions: 0\nfields: []\n"))
    assert lamp.Lamp.__doc__ == "Ends ''' with \\ and \"quotes\"."


def test_messages_of_a_record_and_alone(write: Write) -> None:
    body = "  versions: 0\n  fields: []\n"
    record = module(write(f"record: Visit\ntype: 3\ntopic: __visits\nabout: Who came.\nkey:\n{body}value:\n{body}"))
    assert record.__doc__ == "Visit, records of type 3 in __visits. Who came."
    assert record.VisitKey.__doc__ == "The key of a record in __visits. Who came."
    assert record.VisitValue.__doc__ == "The value of a record in __visits. Who came."
    single = module(write("message: Lamp\nkind: data\nversions: 0\nfields: []\n"))
    assert (single.__doc__, single.Lamp.__doc__, single.Lamp.SCHEMA.key) == ("Lamp.", "Lamp.", None)


def test_message_without_versions_has_no_class(write: Write) -> None:
    lamp = "message: Lamp\nkind: data\nversions: none\nfields: []\n"
    bulb = lamp.replace("Lamp", "Bulb").replace("none", "0")
    assert module(write(f"{lamp}---\n{bulb}")).__all__ == ["Bulb"]
