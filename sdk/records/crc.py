"""Checksums of record batches: CRC-32C for magic 2, CRC-32 before.

Source: RFC 3720, appendix B.4 (CRC-32C); `org.apache.kafka.common.utils.Crc32C`.
"""

from __future__ import annotations

from zlib import crc32

from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.records.engine import native

__all__ = ["crc32", "crc32c"]


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of `data`.

    Args:
        data: any bytes.
        value: the checksum of what came before.
    """
    if native is not None:
        checksum: int = native.crc32c(data, value)
        return checksum
    from crc32c import crc32c as package

    return int(package(data, value))
