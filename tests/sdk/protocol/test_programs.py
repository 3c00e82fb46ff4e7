"""Programs are found by message and version, are created once, and do not need construct.

Method: check lookups and their errors, and list the modules loaded in fresh interpreters that use the client and the
broker. `test_codec.py` tests the programs themselves on every layout.
"""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
from enum import IntEnum
from typing import Any

import pytest
from construct import Struct

from kafkawire.sdk.errors import LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.schema import Message
from tests.engines import AVAILABLE


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
    with pytest.raises(UnsupportedVersion, match="MetadataRequest has no version 99; the known versions are 0-13"):
        program("MetadataRequest", 99)


@pytest.mark.parametrize("name", [None, 5, b"FetchRequest", [], {}, MetadataRequest])
def test_a_name_that_is_no_text(name: Any) -> None:
    with pytest.raises(LocalProtocolError, match=f"^{re.escape(repr(name))[:50]}.* is not the name of a message$"):
        message_class(name)


def test_an_unknown_message_names_the_nearest() -> None:
    with pytest.raises(LocalProtocolError, match=r"no message is named 'FetchRequst'; did you mean FetchRequest\?"):
        program("FetchRequst", 4)
    with pytest.raises(LocalProtocolError, match=r"no message is named 'xyz'$"):
        message_class("xyz")


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="engine 'rust' is not available"):
        program(MetadataRequest, 12, "rust")


Inner = MetadataRequest.MetadataRequestTopic


@pytest.mark.parametrize("find", [codec, program])
@pytest.mark.parametrize(
    ("message", "version", "error"),
    [
        (None, 1, "None is"),
        (12, 1, "12 is"),
        (int, 1, "<class 'int'> is not a message class"),
        (Message, 1, "Message is part of messages and has no versions of its own"),
        (Inner, 1, "MetadataRequest.MetadataRequestTopic is part of messages and has no versions of its own"),
        ("MetadataRequest", "1", "MetadataRequest: version '1' is not an int"),
        ("MetadataRequest", 1.0, "MetadataRequest: version 1.0 is not an int"),
        ("MetadataRequest", True, "MetadataRequest: version True is not an int"),
        ("MetadataRequest", None, "MetadataRequest: version None is not an int"),
        ("MetadataRequest", -1, "MetadataRequest has no version -1; the known versions are 0-13"),
    ],
)
def test_arguments_of_other_kinds(find: Any, message: Any, version: Any, error: str) -> None:
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match=f"^{re.escape(error)}"):
            find(message, version)


@pytest.mark.parametrize("message", [MetadataRequest(), [], {}])
def test_a_message_is_not_its_class(message: Any) -> None:
    with pytest.raises(LocalProtocolError, match="is neither a message class nor the name of one"):
        codec(message, 1)
    with pytest.raises(LocalProtocolError, match=r"MetadataRequest: version \[\] is not an int"):
        codec(MetadataRequest, [])  # type: ignore[call-overload]  # the point
    with pytest.raises(LocalProtocolError, match=r"\[\] is not the name of an engine"):
        codec(MetadataRequest, 1, [])  # type: ignore[call-overload]  # the point


@pytest.mark.parametrize("find", [codec, program, layout])
def test_what_equals_a_version_leaves_nothing_behind(find: Any) -> None:
    for wrong in (True, 1.0):
        with pytest.raises(LocalProtocolError, match=f"version {wrong} is not an int"):
            find(ListGroupsRequest, wrong)
        found = find(ListGroupsRequest, 1)
        assert type(getattr(found, "version", 1)) is int
        with pytest.raises(LocalProtocolError, match=f"version {wrong} is not an int"):
            find(ListGroupsRequest, wrong)
    number = IntEnum("number", {"ONE": 1})
    assert type(codec(ListGroupsRequest, number.ONE).version) is int  # type: ignore[attr-defined]  # made above


@pytest.mark.parametrize("engine", AVAILABLE)
def test_codecs_are_copied_and_pickled(engine: str) -> None:
    found = codec(ResponseHeader, 1, engine)
    assert copy.copy(found) is found
    assert copy.deepcopy(found) is found
    assert pickle.loads(pickle.dumps(found)) is found
    frame: Any = copy.deepcopy(Struct("header" / found))
    assert frame.parse(b"\0\0\0\7\0").header == ResponseHeader(7)


@pytest.mark.parametrize("engine", AVAILABLE)
def test_messages_are_copied_and_pickled(engine: str) -> None:
    partition = FetchResponse.PartitionData(3, records=b"abc")
    sent = FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t", partitions=[partition])])
    sent.unknown_tags = ((9, b"kept"),)
    data = program(FetchResponse, 12, engine).encode(sent)
    message, _ = program(FetchResponse, 12, engine).decode(data)
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert other == message
        assert type(other) is FetchResponse
        assert program(FetchResponse, 12, engine).encode(other) == data
    deep = copy.deepcopy(message)
    deep.responses[0].partitions[0].partition_index = 4
    assert message.responses[0].partitions[0].partition_index == 3


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


def test_long_names_and_numbers_are_shown_in_few_characters() -> None:
    for wrong in (
        lambda: message_class("x" * 1_000_000),
        lambda: message_class(10**5000),  # type: ignore[arg-type]  # an application may pass it
        lambda: program("HeartbeatRequest", 4, "x" * 1_000_000),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            wrong()
        assert len(str(caught.value)) < 200
