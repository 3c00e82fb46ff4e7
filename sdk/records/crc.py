"""Checksums of record batches: CRC-32C for magic 2, CRC-32 for older formats.

Source: RFC 3720, appendix B.4 (CRC-32C); `org.apache.kafka.common.utils.Crc32C`.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.engines import python_crc
from kafkawire.sdk.records.engines.selection import native

__all__ = ["crc32", "crc32c", "crc32c_of_bytes"]


#: `crc32c` without the buffer check, for callers that pass bytes.
crc32c_of_bytes: Callable[..., int] = python_crc.crc32c if native is None else native.crc32c


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of `data`.

    Args:
        data: any bytes.
        value: the checksum of the preceding bytes.

    Raises:
        TypeError: `data` is not a contiguous buffer.
    """
    return crc32c_of_bytes(data if type(data) is bytes else bytes_of(data), value)
