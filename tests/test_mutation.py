"""Mutations give the same result for the same seed, leave their input unchanged, and do what their names say.

Method: run every mutation with many seeds on short and empty inputs, and compare the results with the allowed ones.
"""

from __future__ import annotations

from random import Random

import pytest

from tools import mutation
from tools.mutation import EDGE_BYTES, MUTATIONS, mutate

DATA = bytes(range(40, 60))
OTHER = b"other input"


def damaged(name: str, data: bytes = DATA, other: bytes = OTHER) -> set[bytes]:
    """Return the results of one mutation on `data` with many seeds."""
    results = set()
    for seed in range(300):
        content = bytearray(data)
        getattr(mutation, name)(Random(seed), content, other)
        results.add(bytes(content))
    return results


def test_same_seed_same_damage() -> None:
    runs = [[mutate(Random(seed), DATA, OTHER) for seed in range(200)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 150


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01"])
@pytest.mark.parametrize("name", sorted({each.__name__ for each in MUTATIONS}))
def test_short_inputs(name: str, data: bytes) -> None:
    assert damaged(name, data, b"")


def test_flip_bit() -> None:
    for result in damaged("flip_bit"):
        assert (int.from_bytes(result) ^ int.from_bytes(DATA)).bit_count() == 1


def test_set_byte() -> None:
    for result in damaged("set_byte"):
        changed = [new for new, old in zip(result, DATA, strict=True) if new != old]
        assert len(changed) == 1
        assert changed[0] in EDGE_BYTES


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("truncate", range(len(DATA) + 1)),
        ("insert", range(len(DATA) + 1, len(DATA) + mutation.RUN_BYTES_MAX)),
        ("delete", range(len(DATA) + 1)),
        ("repeat", range(len(DATA), 2 * len(DATA) + 1)),
        ("splice", range(len(DATA) + len(OTHER) + 1)),
        ("set_length", [len(DATA)]),
        ("set_varint", range(len(DATA), len(DATA) + 10)),
        ("lengthen_varint", range(len(DATA) + 1, len(DATA) + 11)),
    ],
)
def test_sizes(name: str, sizes: range | list[int]) -> None:
    results = damaged(name)
    assert {len(result) for result in results} <= set(sizes)
    assert len(results) > 5


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("set_length", b"\x7f\xff\xff\xff"),
        ("set_length", b"\xff\xff\xff\xff"),
        ("set_varint", b"\xff\xff\xff\xff\x0f"),
        ("set_varint", b"\x80\x80\x80\x80\x08"),
        ("lengthen_varint", b"\x80\x80\x80\x00"),
    ],
)
def test_edges_are_reached(name: str, pattern: bytes) -> None:
    assert any(pattern in result for result in damaged(name))
