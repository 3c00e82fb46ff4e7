"""The twin's text is what it says it is: straight-line Python that refuses what it cannot read, and never explains by
itself.

Method: the text of small layouts by hand; then what happens when the twin stumbles, also where it should not have.
`test_codec.py` compares the twin with the other engines on every layout.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.python import Program, python_text
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.primitives import APART_BYTES


def test_text() -> None:
    assert python_text(layout(RequestHeader, 1)) == (
        '# s0 = Struct(">hhi"); read_… is its unpack_from, write_… its pack\n'
        '# s1 = Struct(">h"); read_… is its unpack_from, write_… its pack\n'
        "# RequestHeader_0 = RequestHeader\n"
        "\n"
        "def decode(b, o, end, buffer):\n"
        "    m = new(RequestHeader_0)\n"
        "    m.request_api_key, m.request_api_version, m.correlation_id = read_s0(b, o); o += 8\n"
        "    n1, = read_s1(b, o); o += 2\n"
        "    if n1 < 0: m.client_id = None\n"
        "    else:\n"
        "        e = o + n1\n"
        "        if e > end or n1 > 32767: raise Refused\n"
        '        m.client_id = b[o:e].decode("utf-8", "kafkawire.java"); o = e\n'
        "    m.unknown_tags = ()\n"
        "    return m, o\n"
        "\n"
        "\n"
        "def encode(m, pieces, records):\n"
        "    a = pieces.append\n"
        "    if m.__class__ is not RequestHeader_0: raise Refused\n"
        "    a(write_s0(m.request_api_key, m.request_api_version, m.correlation_id))\n"
        "    v2 = m.client_id\n"
        "    if v2 is None: a(b'\\xff\\xff')\n"
        "    else:\n"
        "        v2 = encode_text(v2); n3 = len(v2)\n"
        "        if n3 > 32767: raise Refused\n"
        "        a(write_s1(n3))\n"
        "        a(v2)\n"
        "    if m.unknown_tags != () and not is_default(m.unknown_tags, ()): raise Refused\n"
    )


def test_fields_of_fixed_size_are_read_together() -> None:
    assert 'Struct(">ihqq")' in python_text(layout(FetchResponse, 4))


def test_a_structure_that_nobody_set_is_not_made() -> None:
    text = python_text(layout(FetchResponse, 12))
    assert "._current_leader = DEFAULT" in text
    assert "LeaderIdAndEpoch_3()" not in text.partition("def encode")[0]


def test_errors_are_explained() -> None:
    with pytest.raises(DecodeError, match="correlation_id at byte 1: 4 bytes needed, 2 left") as caught:
        Program(layout(ResponseHeader, 0)).decode(b"\0\0\0", 1)
    assert caught.value.offset == 1
    with pytest.raises(EncodeError, match="correlation_id: expected int32"):
        Program(layout(ResponseHeader, 0)).encode(ResponseHeader("x"))  # type: ignore[arg-type]  # a wrong value is the point
    with pytest.raises(EncodeError, match="correlation_id: expected int32"):
        Program(layout(ResponseHeader, 0)).encode_parts(ResponseHeader("x"))  # type: ignore[arg-type]  # a wrong value is the point


def test_a_disagreement_with_the_construct_form_is_told() -> None:
    twin = Program(layout(ResponseHeader, 0))

    def stumble(*_: Any) -> None:
        raise IndexError

    twin._decode = twin._encode = stumble
    with pytest.raises(RuntimeError, match="the twin cannot read what the construct form reads"):
        twin.decode(b"\0\0\0\0")
    with pytest.raises(RuntimeError, match="the twin cannot write what the construct form writes"):
        twin.encode(ResponseHeader())


@pytest.mark.parametrize("count", [0, 1, 63, 64, 5000])
def test_arrays_of_numbers_of_any_length(count: int) -> None:
    partition = MetadataResponse.MetadataResponsePartition(replica_nodes=tuple(range(count)))
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
    response = MetadataResponse(topics=[topic])
    twin = Program(layout(MetadataResponse, 12))
    assert twin.decode(twin.encode(response))[0] == response


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(data).cast("i")])
@pytest.mark.parametrize("size", [0, 4, APART_BYTES - 4, APART_BYTES])
def test_records_of_every_buffer(wrap: Any, size: int) -> None:
    if not size and wrap not in (bytes, bytearray, memoryview):
        pytest.skip("an empty view cannot be cast")
    partition = FetchResponse.PartitionData(records=wrap(bytes(size)))
    response = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition, partition])]
    )
    twin = Program(layout(FetchResponse, 12))
    parts = twin.encode_parts(response)
    assert b"".join(parts) == twin.encode(response)
    assert sum(map(len, parts)) == len(twin.encode(response))
    assert len(parts) == (5 if size >= APART_BYTES else 1)
