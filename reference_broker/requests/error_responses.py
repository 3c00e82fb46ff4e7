"""The error response for any API, which reports that a whole request has failed.

If the response has a top-level error code, that code is set. Otherwise, each element of the request (topic, partition,
group, …) is answered with the error: the response's arrays mirror the request's arrays, and the fields that identify an
element are copied. No API needs special treatment; the field tables suffice.

Source: Apache Kafka, `getErrorResponse` of every class derived from `AbstractRequest`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.schema import Field, Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["error_response"]

_CODES = ("error_code", "partition_error_code")
_TEXT = "error_message"
#: The field of an element that only says where its topics are to be.
_PLACE = "path"

#: Fields that identify an element in the request.
_IDENTITIES = (
    "group_id",
    "index",
    "key",
    "name",
    "partition",
    "partition_index",
    "producer_id",
    "resource_name",
    "resource_type",
    "topic",
    "topic_id",
    "topic_name",
    "transactional_id",
    "user",
)


def error_response(call: Call, message: Any, code: ErrorCode, text: str) -> Work[Message]:
    """Build the response to a failed request; yield after each element.

    Args:
        call: the request's context.
        message: the request; None for ApiVersions in an unknown version.
        code: the error.
        text: the error message, used if the response has a field for it; may be empty.

    Raises:
        RemoteProtocolError: the client expects no response (acks=0), or the API's response has no error code.
    """
    response = call.api.response()
    if (call.api.key == ApiKey.PRODUCE and message.acks == Acks.NONE) or not _has_code(type(response), call.version):
        raise RemoteProtocolError(f"{call.api.name} version {call.version} failed with {code.name}")
    return _filled(response, message, call.version, code, text)


def _filled(response: Message, message: Any, version: int, code: ErrorCode, text: str) -> Work[Message]:
    yield from _fill(response, message, version, code, text)
    return response


def _fill(response: Message, request: Message | None, version: int, code: ErrorCode, text: str) -> Work[None]:
    """Set the error of a response or an element, or of everything inside it that has its own error code."""
    fields = _fields(type(response), version)
    own = [name for name in _CODES if name in fields]
    for name in own:
        setattr(response, name, code)
    if own and text and _TEXT in fields:
        setattr(response, _TEXT, text)
    if own or request is None:
        return
    for field in fields.values():
        if not isinstance(field.type, type) or not _has_code(field.type, version):
            continue
        if field.array:
            elements = []
            for asked in _elements(request, version):
                element = field.type()
                _identify(element, asked, version)
                yield from _fill(element, asked, version, code, text)
                elements.append(element)
                yield
            setattr(response, field.name, elements)
        else:
            inner = field.type()
            yield from _fill(inner, request, version, code, text)
            setattr(response, field.name, inner)


def _identify(element: Message, asked: Any, version: int) -> None:
    """Copy the identity of a request element to the corresponding response element."""
    own = [name for name in _IDENTITIES if name in _fields(type(element), version)]
    if not isinstance(asked, Message):
        fitting = (name for name in own if isinstance(getattr(element, name), type(asked)))
        if (name := next(fitting, None)) is not None:
            setattr(element, name, asked)
        return
    theirs = [name for name in _IDENTITIES if name in _fields(type(asked), version)]
    shared = [name for name in own if name in theirs]
    for name, their_name in zip(shared, shared, strict=True) if shared else zip(own, theirs, strict=False):
        value, nullable = getattr(asked, their_name), _fields(type(element), version)[name].nullable
        if value is not None or (nullable is not None and version in nullable):
            setattr(element, name, value)


def _elements(request: Message, version: int) -> Iterator[Any]:
    """Yield the entries that a request, or one of its elements, asks about: topics, not the directories for them."""
    for field in _fields(type(request), version).values():
        for each in (getattr(request, field.name) or ()) if field.array else ():
            if isinstance(each, Message) and _PLACE in _fields(type(each), version):
                yield from _elements(each, version)
            else:
                yield each


@cache
def _has_code(kind: type[Message], version: int) -> bool:
    """Return whether a response, or anything inside it, has an error code."""
    fields = _fields(kind, version)
    return any(name in fields for name in _CODES) or any(
        isinstance(field.type, type) and _has_code(field.type, version) for field in fields.values()
    )


@cache
def _fields(kind: type[Message], version: int) -> dict[str, Field]:
    return {field.name: field for field in kind.FIELDS if version in field.versions}
