"""The head of an HTTP request is read strictly: anything else gets an error, and nothing else happens.

Method: read good heads, heads with a single fault, and random bytes.
"""

from __future__ import annotations

import contextlib
import random
from http import HTTPStatus

import pytest

from kafkawire.reference_broker.network.http_requests import (
    HEAD_BYTES_MAX,
    HttpError,
    HttpRequest,
    error_response,
    parse_head,
    response_head,
    too_long,
)

PROMETHEUS = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost:9404\r\nUser-Agent: Prometheus/3.0\r\nAccept: a/b;q=0.5\r\n"
    b"aCCept:\t*/*  \r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n"
)


@pytest.mark.parametrize(
    ("head", "request_"),
    [
        (PROMETHEUS, HttpRequest("GET", "/metrics", "a/b;q=0.5,*/*")),
        (b"HEAD /healthz?x=1?y HTTP/1.0\r\n\r\n", HttpRequest("HEAD", "/healthz", "")),
        (b"GET / HTTP/1.1", HttpRequest("GET", "/", "")),
    ],
)
def test_good_heads(head, request_):
    assert parse_head(head) == request_


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", HTTPStatus.BAD_REQUEST),
        (b"\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /a b HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics HTTP/1.1 \r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics http/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET http://other/metrics HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /metrics HTTP/2.0\r\n\r\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"PRI * HTTP/2.0\r\n\r\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"POST /metrics HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"get /metrics HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nA: b\r\n continued\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 65 + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET /" + b"a" * HEAD_BYTES_MAX, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"\x00\x00\x00\x0c\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff\x00\x00", HTTPStatus.BAD_REQUEST),
    ],
)
def test_bad_heads(head, status):
    with pytest.raises(HttpError) as found:
        parse_head(head)
    assert found.value.http_status is status


def test_random_bytes_give_a_request_or_an_error():
    chosen = random.Random(1)
    for _ in range(2_000):
        head = bytearray(PROMETHEUS)
        for _ in range(chosen.randrange(1, 6)):
            head[chosen.randrange(len(head))] = chosen.randrange(256)
        with contextlib.suppress(HttpError):
            assert parse_head(bytes(head)).path.startswith("/")


def test_responses():
    assert response_head(HTTPStatus.OK, "text/plain", 5).startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
    assert b"\r\nAllow: GET, HEAD\r\n" in error_response(HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "No."))
    head, _, body = error_response(too_long()).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Connection: close" in head
