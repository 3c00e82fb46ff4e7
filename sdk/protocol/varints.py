"""Variable length integers: seven bits a byte, the lowest first, the eighth bit set while more follow.

The plain form for tools and for code off the fast path; the codec engines and the record engines carry their own, which
must agree with this one. Unsigned numbers hold lengths and tags, signed ones (zigzag: 0, -1, 1, -2, …) the fields of
records. As in Kafka, the numbers are Java's: the unsigned form of 2**31 and above reads as negative, encodings need not
be the shortest, and bits that do not fit are dropped.

Source: `ByteUtils` in Apache Kafka; KIP-482 (flexible versions).
"""

from __future__ import annotations

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.schema import Buffer

__all__ = [
    "read_unsigned_varint",
    "read_varint",
    "read_varlong",
    "unsigned_varint",
    "unsigned_varlong",
    "varint",
    "varint_size",
    "varlong",
    "varlong_size",
]

#: Longest encodings: 32 and 64 bits at seven bits a byte.
_VARINT_BYTES_MAX = 5
_VARLONG_BYTES_MAX = 10


def unsigned_varint(value: int) -> bytes:
    """Return the encoding of an int32 without zigzag; a negative one takes five bytes.

    Raises:
        EncodeError: the value does not fit into 32 bits, as a signed or as an unsigned number.
    """
    return _encode(_bits(value, 32))


def unsigned_varlong(value: int) -> bytes:
    """Return the encoding of an int64 without zigzag; a negative one takes ten bytes.

    Raises:
        EncodeError: the value does not fit into 64 bits, as a signed or as an unsigned number.
    """
    return _encode(_bits(value, 64))


def varint(value: int) -> bytes:
    """Return the zigzag encoding of an int32.

    Raises:
        EncodeError: the value is not an int32.
    """
    return _encode(_zigzag(value, 32))


def varlong(value: int) -> bytes:
    """Return the zigzag encoding of an int64.

    Raises:
        EncodeError: the value is not an int64.
    """
    return _encode(_zigzag(value, 64))


def varint_size(value: int) -> int:
    """Return how many bytes `varint(value)` has."""
    return _size(_zigzag(value, 32))


def varlong_size(value: int) -> int:
    """Return how many bytes `varlong(value)` has."""
    return _size(_zigzag(value, 64))


def read_unsigned_varint(data: Buffer, offset: int = 0) -> tuple[int, int]:
    """Read a number without zigzag.

    Args:
        data: bytes that hold it.
        offset: where it begins.

    Returns:
        The number, -2**31 to 2**31 - 1, and where it ends.

    Raises:
        DecodeError: the bytes end before it does, or it has more than five.
    """
    value, end = _decode(data, offset, _VARINT_BYTES_MAX)
    value &= 2**32 - 1
    return value - 2**32 if value >= 2**31 else value, end


def read_varint(data: Buffer, offset: int = 0) -> tuple[int, int]:
    """Read an int32 with zigzag; arguments, result and errors as `read_unsigned_varint`."""
    value, end = _decode(data, offset, _VARINT_BYTES_MAX)
    return _unzigzag(value & 2**32 - 1), end


def read_varlong(data: Buffer, offset: int = 0) -> tuple[int, int]:
    """Read an int64 with zigzag, at most ten bytes; arguments, result and errors as `read_unsigned_varint`."""
    value, end = _decode(data, offset, _VARLONG_BYTES_MAX)
    return _unzigzag(value & 2**64 - 1), end


def _bits(value: int, width: int) -> int:
    """Return the two's complement of a number that is signed or unsigned."""
    if not -(1 << width - 1) <= value < 1 << width:
        raise EncodeError("", f"{value} does not fit into {width} bits")
    return value & (1 << width) - 1


def _zigzag(value: int, width: int) -> int:
    if not -(1 << width - 1) <= value < 1 << width - 1:
        raise EncodeError("", f"{value} is outside {-(1 << width - 1)} to {(1 << width - 1) - 1}")
    return value << 1 if value >= 0 else ~value << 1 | 1


def _unzigzag(bits: int) -> int:
    return ~(bits >> 1) if bits & 1 else bits >> 1


def _size(bits: int) -> int:
    return max(1, -(-bits.bit_length() // 7))


def _encode(bits: int) -> bytes:
    encoded = bytearray()
    while bits > 0x7F:
        encoded.append(bits & 0x7F | 0x80)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)


def _decode(data: Buffer, offset: int, bytes_max: int) -> tuple[int, int]:
    bits = 0
    for index in range(bytes_max):
        if offset + index >= len(data):
            raise DecodeError("varint", offset, f"the bytes end after {index} of it")
        byte = data[offset + index]
        bits |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return bits, offset + index + 1
    raise DecodeError("varint", offset, f"more than {bytes_max} bytes")
