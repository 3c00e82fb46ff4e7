"""Captured requests and responses, and the records of Kafka's internal topics, as JSON; does not need Spark.

`functions.py` runs this in Spark's Python workers, one Arrow array at a time. Messages have the form that Apache
Kafka's own converters print. If data is unreadable, the row contains an error text or the task fails, depending on the
mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow

from kafkawire.sdk.errors import ConfigurationError, DecodeError, KafkaWireError
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.observation import read_request
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS
from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS, decode_record
from kafkawire.sdk.spark.columns.inputs import check_binary, check_text
from kafkawire.sdk.spark.damage import Mode

__all__ = [
    "INTERNAL",
    "INTERNAL_DDL",
    "MESSAGE",
    "MESSAGE_DDL",
    "REQUEST",
    "REQUEST_DDL",
    "RESPONSE",
    "RESPONSE_DDL",
    "internal_records",
    "messages",
    "requests",
    "responses",
]

_TEXT, _INT32 = pyarrow.string(), pyarrow.int32()

#: The result type of each function, in Arrow and in Spark; names are quoted because they may be reserved.
MESSAGE: Final = pyarrow.struct([("message", _TEXT), ("error", _TEXT)])
MESSAGE_DDL: Final = "struct<`message`: string, `error`: string>"
REQUEST: Final = pyarrow.struct(
    [
        ("api", _TEXT),
        ("version", _INT32),
        ("correlationId", _INT32),
        ("clientId", _TEXT),
        ("message", _TEXT),
        ("error", _TEXT),
    ]
)
REQUEST_DDL: Final = (
    "struct<`api`: string, `version`: int, `correlationId`: int, `clientId`: string, `message`: string, "
    "`error`: string>"
)
RESPONSE: Final = pyarrow.struct([("correlationId", _INT32), ("message", _TEXT), ("error", _TEXT)])
RESPONSE_DDL: Final = "struct<`correlationId`: int, `message`: string, `error`: string>"
INTERNAL: Final = pyarrow.struct(
    [("type", _INT32), ("name", _TEXT), ("key", _TEXT), ("version", _INT32), ("value", _TEXT), ("error", _TEXT)]
)
INTERNAL_DDL: Final = (
    "struct<`type`: int, `name`: string, `key`: string, `version`: int, `value`: string, `error`: string>"
)

Row = dict[str, Any]


def messages(bodies: Iterable[pyarrow.Scalar], name: str, version: int, mode: Mode) -> pyarrow.Array:
    """Decode messages without a header; bytes after a message are an error.

    Args:
        bodies: the messages, binary.
        name: the name of the message, such as `MetadataResponse`.
        version: the version of all the messages.
        mode: FAILFAST raises an error; in the other modes, the row contains the reason.

    Raises:
        ConfigurationError: there is no such message or version, or the bodies are not binary.
        DecodeError: the mode is FAILFAST, and a message is unreadable.
    """
    try:
        cls = message_class(name)
        program(cls, version)
    except KafkaWireError as error:
        raise ConfigurationError("message", f"{name} version {version}", str(error)) from None
    check_binary("message", bodies)

    def row(body: bytes) -> Row:
        return {"message": _read(cls, version, body, 0)}

    return _rows(bodies, row, MESSAGE, mode)


def requests(frames: Iterable[pyarrow.Scalar], mode: Mode) -> pyarrow.Array:
    """Decode requests with their headers, which identify them.

    Args:
        frames: binary, each without its length.
        mode: see `messages`.

    Raises:
        ConfigurationError: the frames are not binary.
        DecodeError: the mode is FAILFAST, and a request is unreadable.
        RemoteProtocolError: the mode is FAILFAST, and a header is not a request header.
    """
    check_binary("request", frames)

    def row(frame: bytes) -> Row:
        request = read_request(frame)
        if request.version_error:
            raise DecodeError(
                "request_api_version", 2, f"{request.api.name} has no version {request.asked_version} here"
            )
        message = json.dumps(to_json(request.message, request.version))
        known = {"api": request.api.name, "version": request.version, "correlationId": request.correlation_id}
        return {**known, "clientId": request.client_id, "message": message}

    return _rows(frames, row, REQUEST, mode)


def responses(frames: Iterable[pyarrow.Scalar], api: str, version: int, mode: Mode) -> pyarrow.Array:
    """Decode responses with their headers.

    Args:
        frames: binary, each without its length.
        api: the name of the API, such as `Fetch`; case is ignored.
        version: the version of the requests that these responses answer.
        mode: see `messages`.

    Raises:
        ConfigurationError: there is no such API or version, or the frames are not binary.
        DecodeError: the mode is FAILFAST, and a response is unreadable.
    """
    found = _api(api)
    if type(version) is not int or version not in found.known_versions:  # True equals 1, and so does 1.0
        raise ConfigurationError("version", version, f"{found.name} has {found.known_versions}")
    header_version = found.response_header_version(version)
    check_binary("response", frames)

    def row(frame: bytes) -> Row:
        header, start = program(ResponseHeader, header_version).decode(frame)
        return {"correlationId": header.correlation_id, "message": _read(found.response, version, frame, start)}

    return _rows(frames, row, RESPONSE, mode)


def internal_records(
    topics: Iterable[pyarrow.Scalar], keys: Iterable[pyarrow.Scalar], values: Iterable[pyarrow.Scalar], mode: Mode
) -> pyarrow.Array:
    """Decode records of Kafka's internal topics; records of other topics become null.

    Args:
        topics: string.
        keys, values: binary.
        mode: see `messages`.

    Raises:
        ConfigurationError: the topics are not strings, or the keys or values are not binary.
        DecodeError: the mode is FAILFAST, and a record is unreadable.
    """
    check_text("topic", topics)
    check_binary("key", keys)
    check_binary("value", values)
    rows = []
    for topic, key, value in zip(topics, keys, values, strict=True):
        try:
            rows.append(_internal(topic.as_py(), key.as_py(), value.as_py()))
        except DecodeError as error:
            if mode is Mode.FAILFAST:
                raise
            rows.append({"error": str(error)})
    return pyarrow.array(rows, INTERNAL)


def _internal(topic: str | None, key: bytes | None, value: bytes | None) -> Row | None:
    if topic is None or topic not in INTERNAL_TOPICS:
        return None
    found = decode_record(topic, key, value).to_json()
    texts = {part: None if found.get(part) is None else json.dumps(found[part]) for part in ("key", "value")}
    return {"type": found["type"], "name": found["name"], "version": found["version"], **texts}


def _rows(
    data: Iterable[pyarrow.Scalar], row: Callable[[bytes], Row], kind: pyarrow.DataType, mode: Mode
) -> pyarrow.Array:
    """Return a row for each value; null for a null."""
    rows: list[Row | None] = []
    for each in data:
        content = each.as_py()
        try:
            rows.append(None if content is None else row(content))
        except KafkaWireError as error:
            if mode is Mode.FAILFAST:
                raise
            rows.append({"error": str(error)})
    return pyarrow.array(rows, kind)


def _read(cls: type[Message], version: int, data: bytes, start: int) -> str:
    """Return a message as JSON."""
    message, end = program(cls, version).decode(data, start)
    if end != len(data):
        raise DecodeError("", end, f"{len(data) - end} bytes follow the {cls.SCHEMA.name} of version {version}")
    return json.dumps(to_json(message, version))


def _api(name: str) -> Api:
    wanted = name.lower() if isinstance(name, str) else name
    for api in KNOWN_APIS.values():
        if api.name.lower() == wanted:
            return api
    raise ConfigurationError("api", name, "there is no API of this name")
