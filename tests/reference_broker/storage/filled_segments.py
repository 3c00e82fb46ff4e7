"""Segments of small batches with an index interval of 100 bytes, so a few batches result in several index entries."""

import dataclasses

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records import set_max_timestamp, stamp
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

__all__ = ["BASE", "CONFIG", "fill", "fill_with", "new"]

CONFIG = dataclasses.replace(log_config({}), index_interval_bytes=100, segment_bytes=5_000, segment_ms=60_000)
BASE = 500


def new(folder, config, sealed_at=None):
    """Return the segment in a folder, creating its file if it does not exist."""
    disk = MachineDisk(folder.parent)
    disk.open(f"{folder.name}/{BASE:020}.log", create=True)
    return Segment(disk, folder.name, BASE, config, sealed_at)


def fill(segment, batches=20, records=3):
    """Append batches with the given numbers of records, one second apart."""
    for number in range(batches):
        first = NOW_MS + 1000 * number
        data = produced(*[b"v" * 10] * records, timestamps=tuple(range(first, first + records)))
        base_offset = segment.next_offset
        stamp(data, base_offset, 0)
        segment.append(data, parse_header(data), base_offset)
    return segment


def fill_with(segment, timestamps):
    """Append a batch of one record for each timestamp."""
    for timestamp in timestamps:
        data = produced(b"v" * 20, timestamps=(max(timestamp, NO_TIMESTAMP),))
        set_max_timestamp(data, TimestampType.CREATE_TIME, timestamp)
        base_offset = segment.next_offset
        stamp(data, base_offset, 0)
        segment.append(data, parse_header(data), base_offset)
    return segment
