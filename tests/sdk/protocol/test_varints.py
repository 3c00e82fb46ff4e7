"""Variable length integers are Kafka's, byte by byte and size by size, and no bytes are read past the end.

Method: Apache Kafka's vectors through the conformance checks; every cut of a long encoding; hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.conformance.misc_vectors import check_misc_vector
from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.primitives import MAX_TAG
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.varints import (
    read_unsigned_varint,
    read_varint,
    read_varlong,
    unsigned_varint,
    unsigned_varlong,
    varint,
    varint_size,
    varlong,
    varlong_size,
)
from tests.vectors import read_vectors

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
READERS = [(read_unsigned_varint, 5), (read_varint, 5), (read_varlong, 10)]


def test_vectors() -> None:
    vectors = [vector for vector in read_vectors("misc") if vector["kind"].startswith("var")]
    assert {vector["kind"] for vector in vectors} == {"varint", "varlong", "varint-read"}
    assert [failure for vector in vectors if (failure := check_misc_vector(vector, ENGINE))] == []


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "native" or native is not None])
def test_every_codec_engine_reads_and_writes_the_vectors(engine: str) -> None:
    """Unsigned varints, as the tag of a field that no version knows; tags are not negative when they are written."""
    headers = program(ResponseHeader, 1, engine)
    for vector in read_vectors("misc"):
        if vector["kind"] == "varint":
            value, data = vector["value"], bytes.fromhex(vector["unsigned_hex"])
            if 0 <= value <= MAX_TAG:
                assert headers.encode(ResponseHeader(unknown_tags=((value, b""),))) == bytes(4) + b"\1" + data + b"\0"
        elif vector["kind"] == "varint-read":
            expected = vector["unsigned_varint"]
            data = bytes.fromhex(vector["hex"])
            if "error" in expected:
                with pytest.raises(DecodeError, match=r"^unknown_tags at byte 5: "):
                    headers.decode(bytes(4) + b"\1" + data)
                continue
            value, data = expected["value"], data[: expected["consumed"]]
        else:
            continue
        assert headers.decode(bytes(4) + b"\1" + data + b"\0")[0].unknown_tags == ((value, b""),)


@given(value=INT32, before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_int32(value: int, before: bytes, after: bytes) -> None:
    for encoded, read in ((varint(value), read_varint), (unsigned_varint(value), read_unsigned_varint)):
        assert read(before + encoded + after, len(before)) == (value, len(before) + len(encoded))
    assert varint_size(value) == len(varint(value)) == len(varlong(value))


@given(value=INT64)
def test_int64(value: int) -> None:
    assert read_varlong(varlong(value)) == (value, varlong_size(value))
    assert unsigned_varlong(value) == unsigned_varlong(value & 2**64 - 1)


@pytest.mark.parametrize(("read", "longest"), READERS)
def test_cut_and_too_long(read: Callable[[bytes, int], tuple[int, int]], longest: int) -> None:
    for size in range(longest):
        with pytest.raises(DecodeError, match=f"end after {size} of it"):
            read(b"\xff" * 2 + b"\x80" * size, 2)
    with pytest.raises(DecodeError, match=f"more than {longest} bytes"):
        read(b"\x80" * longest + b"\x00", 0)


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (varint, 2**31),
        (varint, -(2**31) - 1),
        (varint_size, 2**31),
        (unsigned_varint, 2**32),
        (unsigned_varint, -(2**31) - 1),
        (varlong, 2**63),
        (varlong_size, -(2**63) - 1),
        (unsigned_varlong, 2**64),
    ],
)
def test_out_of_range(write: Callable[[int], object], value: int) -> None:
    with pytest.raises(EncodeError, match=str(value)):
        write(value)
