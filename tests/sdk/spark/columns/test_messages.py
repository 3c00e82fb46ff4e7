"""Captured frames and internal records become JSON; unreadable ones become an error in their row or fail the query.

Method: decode frames from a connection without I/O, with every API in its latest version, bodies from the vectors, and
each kind of damage with both outcomes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkawire.protocol import APIS, ClientConnection, ServerConnection, message_class
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.spark.damage import Mode

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.columns import messages  # noqa: E402 - it needs pyarrow

#: Values that a program might pass by mistake.
NOTHING: Any = None

TOPIC = pyarrow.array(["__consumer_offsets"])


def binary(*values: bytes | None) -> Any:
    return pyarrow.array(values, pyarrow.binary())


def talk(asked: Any, answer: Any, version: int) -> tuple[bytes, bytes]:
    """Return a request and its response, without their length prefixes."""
    client = ClientConnection("app")
    server = ServerConnection({key: api.versions for key, api in APIS.items()})
    sent = b"".join(client.request(asked, version).parts)[4:]
    return sent, b"".join(server.respond(server.receive(sent), answer))[4:]


def test_frames_of_every_api(subtests: pytest.Subtests) -> None:
    for api in APIS.values():
        with subtests.test(api=api):
            version = api.versions.last
            asked, answer = message_class(f"{api.name}Request")(), message_class(f"{api.name}Response")()
            request, response = talk(asked, answer, version)
            (found,) = messages.requests(binary(request), Mode.FAILFAST).to_pylist()
            assert json.loads(found.pop("message")) == to_json(asked, version)
            assert found == {"api": api.name, "version": version, "correlationId": 0, "clientId": "app", "error": None}
            (found,) = messages.responses(binary(response), api.name.upper(), version, Mode.FAILFAST).to_pylist()
            assert json.loads(found.pop("message")) == to_json(answer, version)
            assert found == {"correlationId": 0, "error": None}


REQUEST, RESPONSE = talk(HeartbeatRequest("g", 3), HeartbeatResponse(7), 4)
BODY = program(HeartbeatRequest, 4).encode(HeartbeatRequest("g", 3))

DAMAGED = [
    (lambda data, mode: messages.requests(data, mode), REQUEST[:-1], "HeartbeatRequest|at byte"),
    (lambda data, mode: messages.requests(data, mode), REQUEST[:3], "3 bytes, but 8 are needed"),
    (lambda data, mode: messages.requests(data, mode), b"\x7f\0" + REQUEST[2:], "no API has the key 32512"),
    (lambda data, mode: messages.requests(data, mode), b"\0\x12\0\x63" + REQUEST[4:], "ApiVersions has no version 99"),
    (lambda data, mode: messages.responses(data, "Heartbeat", 4, mode), RESPONSE[:-1], "at byte"),
    (lambda data, mode: messages.responses(data, "Heartbeat", 4, mode), RESPONSE + b"x", "1 bytes follow"),
    (lambda data, mode: messages.messages(data, "HeartbeatRequest", 4, mode), BODY + b"xy", "2 bytes follow the Heart"),
    (lambda data, mode: messages.messages(data, "HeartbeatRequest", 4, mode), b"", "at byte 0"),
]


@pytest.mark.parametrize(("decode", "data", "text"), DAMAGED)
def test_damage(decode: Any, data: bytes, text: str) -> None:
    with pytest.raises(KafkaWireError, match=text):
        decode(binary(data), Mode.FAILFAST)
    first, damaged = decode(binary(None, data), Mode.PERMISSIVE).to_pylist()
    assert first is None
    assert {name for name, value in damaged.items() if value is not None} == {"error"}


def test_messages_without_a_header() -> None:
    (found,) = messages.messages(binary(BODY), "HeartbeatRequest", 4, Mode.FAILFAST).to_pylist()
    assert json.loads(found["message"]) == to_json(HeartbeatRequest("g", 3), 4)


def test_internal_records() -> None:
    key = b"\0\2\0\1g"
    topics = pyarrow.array(["__consumer_offsets", "orders", None, "__consumer_offsets", "__consumer_offsets"])
    keys, values = binary(key, key, key, b"\0", b"\x7f\0"), binary(None, None, None, None, b"v")
    found = messages.internal_records(topics, keys, values, Mode.PERMISSIVE).to_pylist()
    empty = dict.fromkeys(("type", "name", "key", "version", "value", "error"))
    assert found[0] == {**empty, "type": 2, "name": "GroupMetadata", "key": '{"group": "g"}'}
    assert found[1:3] == [None, None]
    assert "a record has a key of at least 2 bytes" in found[3].pop("error")
    assert "record type 32512 is unknown" in found[4].pop("error")
    with pytest.raises(KafkaWireError, match="at least 2 bytes"):
        messages.internal_records(topics, keys, values, Mode.FAILFAST)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: messages.messages([], "Heartbeat", 0, Mode.FAILFAST), "message='Heartbeat version 0'"),
        (lambda: messages.messages([], "HeartbeatRequest", 99, Mode.FAILFAST), "message='HeartbeatRequest version 99'"),
        (lambda: messages.responses([], "Heartbeats", 0, Mode.FAILFAST), "api='Heartbeats'"),
        (lambda: messages.responses([], NOTHING, 0, Mode.FAILFAST), "api=None"),
        (lambda: messages.responses([], "Heartbeat", 99, Mode.FAILFAST), "version=99.*Heartbeat has 0-4"),
        (lambda: messages.responses([], "Heartbeat", True, Mode.FAILFAST), "version=True.*Heartbeat has 0-4"),
        (lambda: messages.responses([], "Heartbeat", NOTHING, Mode.FAILFAST), "version=None.*Heartbeat has 0-4"),
    ],
)
def test_what_there_is_not(ask: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ask()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda no, mode: messages.messages(no, "HeartbeatRequest", 0, mode), "column='message int32': .* binary"),
        (lambda no, mode: messages.requests(no, mode), "column='request int32': .* binary"),
        (lambda no, mode: messages.responses(no, "Heartbeat", 0, mode), "column='response int32': .* binary"),
        (
            lambda no, mode: messages.internal_records(no, binary(b"k"), binary(None), mode),
            "column='topic int32': .* string",
        ),
        (lambda no, mode: messages.internal_records(TOPIC, no, binary(None), mode), "column='key int32': .* binary"),
        (lambda no, mode: messages.internal_records(TOPIC, binary(b"k"), no, mode), "column='value int32': .* binary"),
    ],
    ids=["message", "request", "response", "topic", "key", "value"],
)
def test_columns_of_other_types(ask: Any, text: str, mode: Mode) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ask(pyarrow.array([1], pyarrow.int32()), mode)


def test_types_in_both_words() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: the extra `spark` brings it")
    from pyspark.sql.pandas.types import from_arrow_type

    for kind, ddl in (
        (messages.MESSAGE, messages.MESSAGE_DDL),
        (messages.REQUEST, messages.REQUEST_DDL),
        (messages.RESPONSE, messages.RESPONSE_DDL),
        (messages.INTERNAL, messages.INTERNAL_DDL),
    ):
        assert from_arrow_type(kind).simpleString() == ddl.replace(": ", ":").replace(", ", ",").replace("`", "")
