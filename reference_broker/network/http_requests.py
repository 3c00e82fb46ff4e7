"""Read the head of an HTTP request, and write responses, without I/O.

The server answers one request per connection and reads no bodies, so nothing after the head matters. Anything that is
not a small and well-formed request for GET or HEAD gets an error.

Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, NamedTuple

__all__ = [
    "HEAD_BYTES_MAX",
    "HttpError",
    "HttpRequest",
    "HttpResponse",
    "error_response",
    "parse_head",
    "response_head",
    "too_long",
]

#: The maximum size of a request line and headers; Prometheus sends about 400 bytes.
HEAD_BYTES_MAX: Final = 8 * 1024

#: The maximum number of headers.
_HEADERS_MAX: Final = 64

_METHODS: Final = ("GET", "HEAD")

_REQUEST_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/([0-9])\.([0-9])")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")


class HttpError(Exception):
    """A request that gets an error.

    Attributes:
        http_status: the status of the response.
        reason: a sentence for the body.
    """

    def __init__(self, http_status: HTTPStatus, reason: str) -> None:
        super().__init__(http_status, reason)
        self.http_status = http_status
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.http_status.value}: {self.reason}"


class HttpRequest(NamedTuple):
    """A request.

    Attributes:
        method: `GET` or `HEAD`.
        path: the path without the query.
        accept: the `Accept` headers, joined by commas; empty if there are none.
    """

    method: str
    path: str
    accept: str


class HttpResponse(NamedTuple):
    """A response.

    Attributes:
        status: its status.
        content_type: the type of the content.
        content: the body; not sent for HEAD.
    """

    status: HTTPStatus
    content_type: str
    content: bytes


def parse_head(head: bytes) -> HttpRequest:
    """Read a request line and headers.

    Args:
        head: all bytes up to the empty line, with or without it.

    Raises:
        HttpError: the request is malformed, too long, or neither GET nor HEAD.
    """
    if len(head) > HEAD_BYTES_MAX:
        raise too_long()
    first, *rest = head.decode("latin-1").split("\r\n")
    parsed = _REQUEST_LINE.fullmatch(first)
    if parsed is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "The request line is malformed.")
    method, target, major, _ = parsed.groups()
    if major != "1":
        raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Only HTTP/1 is supported.")
    headers = [line for line in rest if line]
    if len(headers) > _HEADERS_MAX:
        raise too_long()
    accept = []
    for line in headers:
        header = _HEADER.fullmatch(line)
        if header is None or not line.replace("\t", " ").isprintable():
            raise HttpError(HTTPStatus.BAD_REQUEST, "A header is malformed.")
        if header[1].lower() == "accept":
            accept.append(header[2])
    if method not in _METHODS:
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are supported.")
    if not target.startswith("/"):
        raise HttpError(HTTPStatus.BAD_REQUEST, "The target is not a path.")
    return HttpRequest(method, target.partition("?")[0], ",".join(accept))


def too_long() -> HttpError:
    """Return the error for a head that exceeds a limit."""
    return HttpError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"The head may have at most {HEAD_BYTES_MAX} bytes and {_HEADERS_MAX} headers.",
    )


def response_head(status: HTTPStatus, content_type: str, size_bytes: int) -> bytes:
    """Return the head of a response, after whose body the connection is closed."""
    allow = f"Allow: {', '.join(_METHODS)}\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {size_bytes}\r\n"
        f"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n"
    ).encode("ascii")


def error_response(error: HttpError) -> bytes:
    """Return the whole response for an error."""
    body = f"{error.reason}\n".encode()
    return response_head(error.http_status, "text/plain; charset=utf-8", len(body)) + body
