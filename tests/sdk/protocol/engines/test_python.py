"""The Python engine explains why its generated code fails, and accepts values of every kind.

Method: make the generated code fail, even where it should not, and pass buffers and arrays of many sizes.
`test_codec.py` compares the engine with the others on every layout.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.python import _KEPT_COUNTS, _UNSIGNED, Program, _length, _Structs, _unsigned
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.primitives import APART_BYTES, MAX_LENGTH, Refused


def test_errors_are_explained() -> None:
    with pytest.raises(DecodeError, match="correlation_id at byte 1: 4 bytes are needed, but 2 are left") as caught:
        Program(layout(ResponseHeader, 0)).decode(b"\0\0\0", 1)
    assert caught.value.offset == 1
    with pytest.raises(EncodeError, match="correlation_id: expected int32"):
        Program(layout(ResponseHeader, 0)).encode(ResponseHeader("x"))  # type: ignore[arg-type]  # a wrong value is the point
    with pytest.raises(EncodeError, match="correlation_id: expected int32"):
        Program(layout(ResponseHeader, 0)).encode_parts(ResponseHeader("x"))  # type: ignore[arg-type]  # a wrong value is the point


def test_a_text_that_cannot_read_what_is_right_is_told() -> None:
    program = Program(layout(ResponseHeader, 0))

    def stumble(*_: Any) -> None:
        raise IndexError

    program._decode = program._encode = stumble
    with pytest.raises(RuntimeError, match="the generated code refused bytes that are valid"):
        program.decode(b"\0\0\0\0")
    with pytest.raises(EncodeError, match="ResponseHeader version 0: a value changed while it was written"):
        program.encode(ResponseHeader())


def test_the_largest_length() -> None:
    assert _unsigned(MAX_LENGTH + 1) == b"\x80\x80\x80\x80\x08"
    with pytest.raises(Refused):
        _unsigned(MAX_LENGTH + 2)


@pytest.mark.parametrize(
    ("encoded", "length"),
    [
        ("8001", 128),
        ("ffffffff07", 2**31 - 1),
        ("ffffffff0f", -1),
        ("8180808008", -(2**31) + 1),
        ("8080808008", 2**31),  # minus one, it is the largest length, as in Java, where the subtraction wraps
    ],
)
def test_compact_lengths_of_more_than_a_byte(encoded: str, length: int) -> None:
    data = bytes.fromhex(encoded)
    assert _length(b"?" + data, 2, data[0]) == (length, 1 + len(data))


def test_what_is_kept_for_the_next_message_is_bounded() -> None:
    structs = _Structs("i")
    for count in range(2 * _KEPT_COUNTS):
        assert structs[count].size == 4 * count
    assert len(structs) == _KEPT_COUNTS
    for value in range(2**14 - 5, 2**14 + 5):
        assert _UNSIGNED[value] == _unsigned(value)
    assert max(_UNSIGNED) == 2**14 - 1


@pytest.mark.parametrize("count", [0, 1, 63, 64, 5000])
def test_arrays_of_numbers_of_any_length(count: int) -> None:
    partition = MetadataResponse.MetadataResponsePartition(replica_nodes=tuple(range(count)))
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
    response = MetadataResponse(topics=[topic])
    program = Program(layout(MetadataResponse, 12))
    assert program.decode(program.encode(response))[0] == response


def of_integers(data: bytes) -> memoryview:
    """Return a view whose items are not bytes, unless it is empty: an empty view cannot be cast."""
    return memoryview(data).cast("i") if data else memoryview(array("i"))


@pytest.mark.parametrize("wrap", [bytearray, memoryview, of_integers])
@pytest.mark.parametrize("version", [0, 2])
def test_bytes_of_every_buffer(wrap: Any, version: int) -> None:
    """The length counts bytes, not the items of the buffer."""
    program = Program(layout(SaslAuthenticateRequest, version))
    expected = program.encode(SaslAuthenticateRequest(bytes(range(8))))
    assert program.encode(SaslAuthenticateRequest(wrap(bytes(range(8))))) == expected


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, of_integers])
@pytest.mark.parametrize("size", [0, 4, APART_BYTES - 4, APART_BYTES])
def test_records_of_every_buffer(wrap: Any, size: int) -> None:
    partition = FetchResponse.PartitionData(records=wrap(bytes(size)))
    response = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition, partition])]
    )
    program = Program(layout(FetchResponse, 12))
    parts = program.encode_parts(response)
    assert b"".join(parts) == program.encode(response)
    assert sum(map(len, parts)) == len(program.encode(response))
    assert len(parts) == (5 if size >= APART_BYTES else 1)
