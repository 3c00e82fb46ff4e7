"""Batch headers are read from files without the records, up to the first bad batch.

Method: read batches made by the record engine, and files in which batches are cut off or damaged.
"""

from typing import Any

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import (
    Window,
    build_batch,
    check_no_gap,
    check_offsets,
    check_stored,
    parse_header,
    record_timestamps,
)
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records import stamp
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, records_in


@pytest.fixture
def file(tmp_path):
    """Return a file with batches of 2, 1 and 3 records."""
    file = MachineDisk(tmp_path).open("log", create=True)
    offset = 10
    for values in ((b"a", b"b"), (b"c" * 5_000,), (b"d", b"e", b"f")):
        data = produced(*values)
        stamp(data, offset, 4)
        file.append(data)
        offset += len(values)
    return file


def test_parse_header():
    data = produced(b"a", b"b", compression=Compression.GZIP, producer_id=5, producer_epoch=6, base_sequence=7)
    stamp(data, 100, 3)
    header = parse_header(b"xx" + data, 2, 55)
    assert (header.position, header.size_bytes, header.base_offset, header.last_offset) == (55, len(data), 100, 101)
    assert (header.leader_epoch, header.magic, header.records_count) == (3, 2, 2)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert header.compression == Compression.GZIP
    assert (header.is_control, header.is_transactional, header.is_log_append_time) == (False, False, False)


def test_stored_batch_is_in_order_and_undamaged(file, tmp_path):
    first = Window(file).header(0)
    check_stored(file, first, 10, 11)
    for lowest, highest in ((11, 11), (10, 10)):
        expected = f"expected offsets from {lowest} to {highest}, got 10 to 11"
        with pytest.raises(DecodeError, match=expected):
            check_stored(file, first, lowest, highest)
    with pytest.raises(DecodeError, match="expected offsets from 10 to 11, got 10 to 9"):
        check_stored(file, first._replace(last_offset_delta=-1), 10, 11)
    with pytest.raises(DecodeError, match=f"expected offsets from .* to {2**63 - 2}"):
        check_offsets(first._replace(base_offset=2**63 - 2), 10, 2**64)
    content = bytearray((tmp_path / "log").read_bytes())
    content[first.size_bytes - 1] ^= 1
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(DecodeError, match="crc at byte"):
        check_stored(file, first, 10, 11)


def test_header_of_a_cut_batch(file):
    file.truncate(Window(file).header(0).size_bytes - 1)
    with pytest.raises(PartialBatch, match="so 1 are missing"):
        Window(file).header(0)


@pytest.mark.parametrize(
    ("byte", "value", "reason"),
    [
        (8, 0x7F, "are missing"),
        (11, 0x30, "the batch has 60 bytes, but at least 61 are needed"),
        (16, 1, "expected magic 2, got 1"),
    ],
)
def test_header_refuses(file, tmp_path, byte, value, reason):
    second = Window(file).header(0).size_bytes
    content = bytearray((tmp_path / "log").read_bytes())
    content[second + 8 : second + 11] = bytes(3)
    content[second + byte] = value
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(DecodeError, match=reason):
        Window(file).header(second)


def test_header(file):
    first = Window(file).header(0)
    assert first.base_offset == 10
    second = Window(file).header(first.size_bytes)
    assert second.base_offset == 12
    with pytest.raises(PartialBatch, match="0 bytes are left"):
        Window(file).header(file.size_bytes)


class Counting:
    """A file that counts its reads and their bytes."""

    def __init__(self, content):
        self.content, self.size_bytes = content, len(content)
        self.sizes = []

    def read(self, position, size_bytes):
        data = self.content[position : position + size_bytes]
        self.sizes.append(len(data))
        return data


@pytest.mark.parametrize(
    ("value_bytes", "count", "reads_max", "share_max"), [(10, 2_000, 10, 1.5), (1_000_000, 5, 5, 0.01)]
)
def test_small_batches_are_read_many_at_a_time(value_bytes, count, reads_max, share_max):
    batch = bytes(produced(bytes(value_bytes)))
    file: Any = Counting(batch * count)
    window, position = Window(file), 0
    while position < file.size_bytes:
        header = window.header(position)
        assert header == parse_header(batch, 0, position)
        position += header.size_bytes
    assert len(file.sizes) <= reads_max
    assert sum(file.sizes) <= share_max * file.size_bytes


def test_a_gap_in_the_offsets_needs_a_good_checksum(file, tmp_path):
    first = Window(file).header(0)
    check_no_gap(file, first, 12)
    check_no_gap(file, first, 99)
    content = bytearray((tmp_path / "log").read_bytes())
    content[first.size_bytes - 1] ^= 1
    (tmp_path / "log").write_bytes(content)
    check_no_gap(file, first, 12)
    with pytest.raises(DecodeError, match="crc"):
        check_no_gap(file, first, 13)


def test_record_timestamps(file):
    window = Window(file)
    second = window.header(window.header(0).size_bytes)
    header = window.header(second.position + second.size_bytes)
    assert list(record_timestamps(file, header)) == [(13, NOW_MS), (14, NOW_MS + 1), (15, NOW_MS + 2)]


def test_own_records_go_through_a_log():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    log = PartitionLog(LogServices(disk), "t-0", log_config({}))
    for records in ([(b"k1", b"v1"), (b"k2", None)], [(b"k3", b"v3")]):
        log.append(*build_batch(records, NOW_MS), NOW_MS, lambda result: None)
    assert list(records_in(log)) == [(b"k1", b"v1"), (b"k2", None), (b"k3", b"v3")]
