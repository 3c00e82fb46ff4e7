"""UUIDs are shown, parsed, ordered and reserved as in Apache Kafka.

Method: run the conformance checks on Kafka's vectors, compare unusual texts with Kafka's results, and use hypothesis.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.conformance.misc_vectors import check_misc_vector
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.protocol.uuids import (
    METADATA_TOPIC_UUID,
    RESERVED_UUIDS,
    ZERO_UUID,
    format_uuid,
    parse_uuid,
    uuid_order,
)
from tests.vectors import read_vectors

UUIDS = st.binary(min_size=16, max_size=16)


def test_vectors() -> None:
    vectors = [vector for vector in read_vectors("misc") if vector["kind"].startswith("uuid")]
    assert {vector["kind"] for vector in vectors} == {"uuid", "uuid-read", "uuid-compare"}
    assert [failure for vector in vectors if (failure := check_misc_vector(vector, ENGINE))] == []


@given(uuid=UUIDS)
def test_round_trip(uuid: bytes) -> None:
    text = format_uuid(uuid)
    assert len(text) == 22
    assert parse_uuid(text) == parse_uuid(text + "==") == uuid


@given(left=UUIDS, right=UUIDS)
def test_order_is_total(left: bytes, right: bytes) -> None:
    assert (uuid_order(left) == uuid_order(right)) == (left == right)


@pytest.mark.parametrize("half", [0, 8])
def test_order_is_that_of_two_signed_numbers(half: int) -> None:
    """Kafka compares the halves as signed numbers, so only the first byte of each half has a sign bit."""
    ascending = [bytes(half) + number + bytes(8 - half) for number in (
        b"\x80" + bytes(7), b"\xff" * 8, bytes(8), bytes(7) + b"\x01", bytes(6) + b"\x01\x00", b"\x7f" + b"\xff" * 7
    )]  # fmt: skip
    shuffled = ascending[3:] + ascending[:3]
    assert sorted(shuffled, key=uuid_order) == ascending


def test_order_is_signed() -> None:
    assert sorted([b"\x00" * 16, b"\xff" * 16, b"\x7f" * 16], key=uuid_order) == [
        b"\xff" * 16,
        b"\0" * 16,
        b"\x7f" * 16,
    ]


def test_reserved() -> None:
    assert {ZERO_UUID, METADATA_TOPIC_UUID} == RESERVED_UUIDS
    assert format_uuid(METADATA_TOPIC_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "A" * 21,
        "A" * 23,
        "A" * 24,
        "A" * 22 + "=",
        "A" * 22 + "===",
        "A" * 20 + "==",
        "A" * 21 + "/",
        "A" * 21 + "é",
        "A" * 22 + "\n",
        "A" * 5000,
        " " + "A" * 22,
    ],
)
def test_no_uuid(text: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"of {len(text)} characters is not a UUID") as caught:
        parse_uuid(text)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("size", [0, 15, 17])
def test_wrong_size(size: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"the UUID has {size} bytes, but 16 are expected"):
        format_uuid(bytes(size))


@pytest.mark.parametrize("wrong", [None, 5, b"x" * 22, [], "x" * 16])
def test_neither_text_nor_bytes_of_a_uuid(wrong: Any) -> None:
    with pytest.raises(LocalProtocolError, match="is not a UUID"):
        parse_uuid(wrong)
    with pytest.raises(LocalProtocolError, match=r"is not a UUID: 16 bytes are expected|the UUID has 22 bytes"):
        format_uuid(wrong)


def test_a_view_of_wider_elements() -> None:
    assert format_uuid(memoryview(array("i", [0] * 4))) == "AAAAAAAAAAAAAAAAAAAAAA"  # type: ignore[arg-type]  # a buffer
    with pytest.raises(LocalProtocolError, match=r"^the UUID has 64 bytes, but 16 are expected$"):
        format_uuid(memoryview(array("i", [0] * 16)))  # type: ignore[arg-type]  # a buffer
