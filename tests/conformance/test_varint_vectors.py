"""Every engine reads and writes variable-length integers as Apache Kafka does, and the checks notice differences.

Method: check every vector on every engine, then vectors with one value changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.conformance.varint_vectors import check_varint, check_varint_read, check_varlong
from kafkawire.sdk.protocol.engines.selection import ENGINES, native
from tests.vectors import read_vectors

AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
CHECKS: dict[str, Callable[[dict[str, Any], str], str | None]] = {
    "varint": check_varint,
    "varlong": check_varlong,
    "varint-read": check_varint_read,
}


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("kind", CHECKS)
def test_every_engine_agrees_with_kafka(kind: str, engine: str) -> None:
    vectors = [vector for vector in read_vectors("misc") if vector["kind"] == kind]
    assert vectors
    assert [failure for vector in vectors if (failure := CHECKS[kind](vector, engine)) is not None] == []


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(
    ("kind", "vector", "said"),
    [
        ("varint", {"value": 64, "zigzag_hex": "8001", "unsigned_hex": "41"}, "unsigned: read as 65"),
        ("varint", {"value": 64, "zigzag_hex": "8201", "unsigned_hex": "40"}, "zigzag: read as 65"),
        ("varint", {"value": 64, "zigzag_hex": "8001", "unsigned_hex": "c000"}, "unsigned: written as"),
        ("varint", {"value": 64, "zigzag_hex": "808100", "unsigned_hex": "40"}, "zigzag: written as"),
        ("varlong", {"value": -1, "zigzag_hex": "03"}, "zigzag: read as -2"),
        ("varlong", {"value": -1, "zigzag_hex": "8100"}, "zigzag: written as"),
    ],
)
def test_a_number_that_differs_is_found(kind: str, vector: dict[str, Any], said: str, engine: str) -> None:
    failure = CHECKS[kind](vector, engine)
    assert failure is not None
    assert failure.startswith(said)


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("unsigned_varint", {"value": 3, "consumed": 1}),
        ("varint", {"value": -1, "consumed": 1}),
        ("varlong", {"value": 1, "consumed": 2}),
        ("varlong", {"error": "java.nio.BufferUnderflowException"}),
    ],
)
def test_a_reading_that_differs_is_found(name: str, changed: dict[str, Any], engine: str) -> None:
    two = {"value": 2, "consumed": 1}
    one = {"value": 1, "consumed": 1}
    good = {"kind": "varint-read", "hex": "0200", "unsigned_varint": two, "varint": one, "varlong": one}
    assert check_varint_read(good, engine) is None
    failure = check_varint_read(good | {name: changed}, engine)
    assert failure is not None
    assert failure.startswith(name)
