"""Headers begin with the same fields in every version.

Method: write each known version of both headers with its codec.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.header_start import CORRELATION_ID_BYTES, HEADER_START, correlation_id_of
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.programs import program


@pytest.mark.parametrize("version", RequestHeader.SCHEMA.known_versions.numbers())
def test_requests(version: int) -> None:
    header = program(RequestHeader, version).encode(RequestHeader(18, 3, -7))
    assert HEADER_START.unpack_from(header) == (18, 3, -7)


@pytest.mark.parametrize("version", ResponseHeader.SCHEMA.known_versions.numbers())
def test_responses(version: int) -> None:
    header = program(ResponseHeader, version).encode(ResponseHeader(-7))
    assert len(header) >= CORRELATION_ID_BYTES
    assert correlation_id_of(header + b"body") == -7
