"""Damage bytes in the ways that cables, disks and hostile peers do; `tools/fuzz.py` feeds them to the decoders.

Every function uses the `Random` object passed to it, so a case can be recreated from its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

__all__ = ["MUTATIONS", "mutate"]

#: Maximum number of mutations per case. One or two find most faults, and more can reach other states.
MUTATIONS_MAX = 6

#: Bytes at the boundaries of signed, unsigned and variable-length numbers.
EDGE_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)

#: The longest run of bytes that is inserted, deleted or repeated.
RUN_BYTES_MAX = 64

#: Boundary values of lengths and counts, as signed numbers.
EDGE_NUMBERS = (-(2**63), -(2**31), -(2**15), -2, -1, 0, 1, 2**7, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1)

#: Maximum length of a 64-bit varint in bytes; a longer one is invalid.
_VARINT_BYTES_MAX = 10

Mutation = Callable[[Random, bytearray, bytes], None]


def mutate(random: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with one or more mutations.

    Args:
        random: the source of all choices.
        data: the bytes to damage; not modified.
        other: a second input, from which a piece may be spliced in.
    """
    damaged = bytearray(data)
    mutations = 1
    while mutations < MUTATIONS_MAX and random.random() < 0.4:
        mutations += 1
    for _ in range(mutations):
        random.choice(MUTATIONS)(random, damaged, other)
    return bytes(damaged)


def flip_bit(random: Random, data: bytearray, other: bytes) -> None:
    """Flip one bit."""
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def set_byte(random: Random, data: bytearray, other: bytes) -> None:
    """Replace one byte with a boundary value."""
    if data:
        data[random.randrange(len(data))] = random.choice(EDGE_BYTES)


def truncate(random: Random, data: bytearray, other: bytes) -> None:
    """Cut off the end."""
    del data[random.randrange(len(data) + 1) :]


def insert(random: Random, data: bytearray, other: bytes) -> None:
    """Insert a run of bytes, either random ones or one repeated boundary value."""
    position = random.randrange(len(data) + 1)
    size = random.randrange(1, RUN_BYTES_MAX)
    data[position:position] = random.choice((random.randbytes(size), bytes([random.choice(EDGE_BYTES)]) * size))


def delete(random: Random, data: bytearray, other: bytes) -> None:
    """Remove a run of bytes."""
    start, end = _run(random, data)
    del data[start:end]


def repeat(random: Random, data: bytearray, other: bytes) -> None:
    """Duplicate a run of bytes, like a repeated tagged field or element."""
    start, end = _run(random, data)
    data[end:end] = data[start:end]


def splice(random: Random, data: bytearray, other: bytes) -> None:
    """Continue with the rest of another input."""
    data[random.randrange(len(data) + 1) :] = other[random.randrange(len(other) + 1) :]


def set_length(random: Random, data: bytearray, other: bytes) -> None:
    """Write a fixed-size number where a length may be: a boundary value, or about the number of remaining bytes."""
    size = random.choice((2, 4, 4, 8))
    if len(data) < size:
        return
    position = random.randrange(len(data) - size + 1)
    left = len(data) - position - size
    number = random.choice((*EDGE_NUMBERS, left, left - 1, left + 1, left // 2))
    data[position : position + size] = (number % (1 << 8 * size)).to_bytes(size, "big")


def set_varint(random: Random, data: bytearray, other: bytes) -> None:
    """Replace one byte with an unsigned or zigzag varint: a boundary value, or about the number of remaining bytes."""
    if data:
        position = random.randrange(len(data))
        left = len(data) - position
        number = random.choice((*EDGE_NUMBERS, left, left - 1, left + 1, -left)) % (1 << random.choice((32, 64)))
        data[position : position + 1] = _varint(number)


def lengthen_varint(random: Random, data: bytearray, other: bytes) -> None:
    """Write a one-byte varint with more bytes than necessary, sometimes more than any varint may have."""
    if data:
        position = random.randrange(len(data))
        padding = b"\x80" * random.randrange(_VARINT_BYTES_MAX) + random.choice((b"\x00", b"\x00", b"\x01", b"\x7f"))
        data[position : position + 1] = bytes([data[position] | 0x80]) + padding


MUTATIONS: tuple[Mutation, ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    set_byte,
    truncate,
    insert,
    delete,
    repeat,
    splice,
    set_length,
    set_varint,
    lengthen_varint,
)


def _run(random: Random, data: bytearray) -> tuple[int, int]:
    """Return the start and end of a run of bytes."""
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.randrange(1, RUN_BYTES_MAX))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
