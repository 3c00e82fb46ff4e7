"""Compress and decompress the records of a batch: a table with one module for each codec."""

from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records.compression.table import check_level, compress, decompress

__all__ = ["Compression", "check_level", "compress", "decompress"]
