"""Explain each byte of a whole frame: length, header, body, and the bytes after them.

A request identifies itself, since it begins with its API key and version. A response does not, so the user must give
the request, or its API and version. `explain.py` calls this module, as does `captures.py` for the frames in a capture.

Source: Kafka protocol guide, "Network"; KIP-482 (headers), KIP-511 (ApiVersions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.codegen.names import near, shown
from kafkawire.commands.inspection.explaining.records import Row, bounded, cell_text
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.connection import opens_with_unsupported_version
from kafkawire.sdk.protocol.engines.construct import trace
from kafkawire.sdk.protocol.engines.construct_primitives import Span
from kafkawire.sdk.protocol.frames import LENGTH_BYTES
from kafkawire.sdk.protocol.header_start import CORRELATION_ID_BYTES, HEADER_START, correlation_id_of
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.observation import read_request
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["Asked", "Explanation", "api_named", "asked_by", "explain_request", "explain_response", "is_request"]


class Asked(NamedTuple):
    """The request to which a frame is the response; `correlation_id` is None if unknown."""

    api: Api
    version: int
    correlation_id: int | None = None


class Explanation(NamedTuple):
    """The explanation of a frame's bytes.

    Attributes:
        title: the description of the frame.
        rows: its bytes.
        error: why the rest was not read; None if nothing is left.
    """

    title: str
    rows: list[Row]
    error: str | None


def api_named(name: str, apis: Mapping[int, Api] = KAFKA_APIS) -> Api:
    """Return an API by its name, ignoring case, or by its key.

    Raises:
        ValueError: no API has this name or key.
    """
    wanted = name.lower().removesuffix("request").removesuffix("response")
    for api in apis.values():
        if wanted in (api.name.lower(), str(int(api.key))):
            return api
    raise ValueError(f"unknown API {shown(name)}{near(wanted, [api.name for api in apis.values()])}")


def asked_by(frame: bytes, apis: Mapping[int, Api] = KAFKA_APIS) -> Asked:
    """Return the API, version and correlation id in a request's frame.

    Raises:
        ValueError: the frame is not a request of a known API.
    """
    start, _ = _request_bounds(frame, apis)
    least = start + HEADER_START.size
    if len(frame) < least:
        raise ValueError(
            f"a frame of {len(frame)} bytes is too short for a request; the length and the header alone take {least}"
        )
    key, version, correlation_id = HEADER_START.unpack_from(frame, start)
    if key not in apis:
        raise ValueError(_unknown_key(key))
    return Asked(apis[key], version, correlation_id)


def explain_request(data: bytes, apis: Mapping[int, Api] = KAFKA_APIS) -> Explanation:
    """Explain the frame of a request, with or without its length prefix.

    Args:
        data: the frame; any bytes after it get a row of their own.
        apis: the known APIs, by key.

    Raises:
        ValueError: the frame is too short for a request, or the API is unknown.
    """
    start, end = _request_bounds(data, apis)
    asked = asked_by(data, apis)
    api, version = asked.api, asked.version
    title = f"{api.name} request, version {version}"
    rows = _length_rows(data, start)
    known = version in api.known_versions
    header_version = api.request_header_version(version) if known else RequestHeader.SCHEMA.versions.first
    at, error = _message(RequestHeader, header_version, data[:end], start, "header.", rows, api.name)
    if error is None and not known:
        error = f"{api.name} has no version {version}; known versions: {api.known_versions}"
    if error is None:
        at, error = _message(api.request, version, data[:end], at, "", rows)
    return _finished(title, data, rows, at, start, end, error)


def explain_response(data: bytes, asked: Asked) -> Explanation:
    """Explain the frame of a response, with or without its length prefix.

    Args:
        data: the frame; any bytes after it get a row of their own.
        asked: the request.

    Raises:
        ValueError: the response answers another request.
        UnsupportedVersion: the API does not exist in this version.
    """
    api, version, correlation_id = asked
    if version not in api.known_versions and api.key != ApiKey.API_VERSIONS:
        layout(api.response, version)  # raises, except for ApiVersions, which has a response for unknown versions
    start, end = _response_bounds(data, correlation_id)
    rows = _length_rows(data, start)
    header = layout(ResponseHeader, api.response_header_version(version))
    at, error = _message(ResponseHeader, header.version, data[:end], start, "header.", rows)
    if error is None and correlation_id is not None:
        found = correlation_id_of(data[start:])
        if found != correlation_id:
            raise ValueError(f"expected the request's correlation id {correlation_id} in the response, got {found}")
    if api.key == ApiKey.API_VERSIONS and opens_with_unsupported_version(data[:end], at):
        version = api.versions.first  # how a broker reports that it does not know the version
    if error is None:
        at, error = _message(api.response, version, data[:end], at, "", rows)
    return _finished(f"{api.name} response, version {version}", data, rows, at, start, end, error)


def _request_bounds(data: bytes, apis: Mapping[int, Api]) -> tuple[int, int]:
    """Return the start of the header and the end of the frame, with or without a length prefix."""
    end = _announced_end(data)
    # A Produce request without its length prefix begins like a frame of up to 13 bytes.
    if not (end is not None and is_request(data[LENGTH_BYTES:end], apis)) and is_request(data, apis):
        return 0, len(data)
    return LENGTH_BYTES, len(data) if end is None else end


def is_request(frame: bytes, apis: Mapping[int, Api]) -> bool:
    """Return whether a frame, without its length prefix, can be read as a request."""
    try:
        read_request(frame, apis)
    except KafkaWireError:
        return False
    return True


def _response_bounds(data: bytes, correlation_id: int | None) -> tuple[int, int]:
    """Return the start of the header and the end of the frame, with or without a length prefix."""
    end = _announced_end(data)
    if correlation_id is not None:
        header = correlation_id.to_bytes(CORRELATION_ID_BYTES, "big", signed=True)
        # The length prefix can look like the id, but then the id follows it.
        if data.startswith(header) and (end is None or not data[LENGTH_BYTES:end].startswith(header)):
            return 0, len(data)
    return LENGTH_BYTES, len(data) if end is None else end


def _announced_end(data: bytes) -> int | None:
    """Return the end of a frame according to its length prefix; None if there is none, or if fewer bytes follow."""
    length = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
    fits = len(data) >= LENGTH_BYTES and 0 <= length <= len(data) - LENGTH_BYTES
    return LENGTH_BYTES + length if fits else None


def _length_rows(data: bytes, start: int) -> list[Row]:
    if start == 0:
        return []
    return [Row(0, data[:LENGTH_BYTES], "length", str(int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)))]


def _message(
    cls: type[Message], version: int, data: bytes, start: int, prefix: str, rows: list[Row], name: str = ""
) -> tuple[int, str | None]:
    """Add the rows of a message, with the name of the API; return where it ends, and the error if there is one."""
    spans, error = trace(layout(cls, version), data, min(start, len(data)))
    found = bounded((_row(span, data, prefix, name) for span in spans), data)
    rows += found
    end = found[-1].offset + len(found[-1].data) if found else start
    return end, None if error is None else f"{prefix}{error}"


def _row(span: Span, data: bytes, prefix: str, name: str) -> Row:
    text = cell_text(span.value)
    if name and span.path == "request_api_key":
        text += f" ({name})"
    return Row(span.offset, data[span.offset : span.offset + span.length], f"{prefix}{span.path}", text)


def _finished(
    title: str, data: bytes, rows: list[Row], at: int, start: int, end: int, error: str | None
) -> Explanation:
    """Add the bytes after the message, and any error in the length prefix."""
    if at < end:
        told = f"{end - at} bytes not read" if error else f"{end - at} bytes after the message, within its frame"
        rows.append(Row(at, data[at:end], "", told))
    if end < len(data):
        rows.append(Row(end, data[end:], "", f"{len(data) - end} bytes after the frame"))
    if start:
        length = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
        if length != end - start:
            error = f"the length prefix is {length}, but {len(data) - start} bytes follow" + (
                f"; {error}" if error else ""
            )
    return Explanation(title + ("" if start else ", without its length prefix"), rows, error)


def _unknown_key(key: int) -> str:
    return (
        f"no API has the key {key}, so this is not a request; for a response, specify its request with "
        "--request HEX, or --api NAME --api-version NUMBER"
    )
