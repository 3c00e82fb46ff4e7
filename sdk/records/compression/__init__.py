"""Compress and decompress the records of a batch: a table of codecs, each with its own module."""

from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records.compression.table import CODEC_NAMES, check_level, compress, decompress

__all__ = ["CODEC_NAMES", "Compression", "check_level", "compress", "decompress"]
