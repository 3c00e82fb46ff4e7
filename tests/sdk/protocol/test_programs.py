"""Programs are found by message and version, made once, and without construct.

Method: look-ups and their errors; fresh interpreters that use client and broker and list their modules. What programs
do is tested in `test_codec.py` on every layout.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkawire.sdk.errors import LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.programs import message_class, program

AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]


@pytest.mark.parametrize("engine", AVAILABLE)
def test_decode_and_encode(engine: str) -> None:
    headers = program(ResponseHeader, 0, engine)
    assert headers.encode(ResponseHeader(7)) == b"\0\0\0\7"
    assert headers.encode_parts(ResponseHeader(7)) == [b"\0\0\0\7"]
    assert headers.decode(b"more\0\0\0\7", 4) == (ResponseHeader(7), 8)


def test_the_same_program_for_the_same_arguments() -> None:
    assert program("MetadataRequest", 12) is program("MetadataRequest", 12)
    assert type(program(MetadataRequest, 12)) is type(program(MetadataRequest, 12, ENGINE))


def test_a_codec_runs_the_program() -> None:
    assert codec(MetadataRequest, 12).decode == program(MetadataRequest, 12, ENGINE).decode


def test_an_unknown_version_names_message_version_and_range() -> None:
    with pytest.raises(UnsupportedVersion, match="MetadataRequest has no version 99, versions 0-13 exist"):
        program("MetadataRequest", 99)


def test_an_unknown_message_names_the_nearest() -> None:
    with pytest.raises(LocalProtocolError, match=r"no message is named 'FetchRequst'; is it FetchRequest\?"):
        program("FetchRequst", 4)
    with pytest.raises(LocalProtocolError, match=r"no message is named 'xyz'$"):
        message_class("xyz")


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="engine 'rust' is not available"):
        program(MetadataRequest, 12, "rust")


CONSTRUCT_FREE = [
    "from kafkawire import Admin, Consumer, Producer",
    "import kafkawire.reference_broker.server",
    "from kafkawire.sdk.protocol.programs import program; p = program('MetadataRequest', 12); p.decode(p.encode("
    "__import__('kafkawire.sdk.protocol.messages.metadata', fromlist=['x']).MetadataRequest()))",
]


@pytest.mark.parametrize("engine", [engine for engine in AVAILABLE if engine != "construct"])
@pytest.mark.parametrize("statements", CONSTRUCT_FREE)
def test_construct_is_not_loaded(statements: str, engine: str) -> None:
    ask = "; import sys; print('construct' in sys.modules)"
    environment = {**os.environ, "KAFKAWIRE_ENGINE": engine}
    result = subprocess.run(
        [sys.executable, "-c", statements + ask], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
