"""Markers are control batches with the same bytes as Apache Kafka's, and are recognised in the log.

Method: encode and decode markers, and read control batches without a marker.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.producers.markers import StoredMarker, build_marker, markers_in
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.records import BatchBuilder, empty_batch, stamp
from tests.reference_broker.storage.produced_batches import NOW_MS


class Content:
    """A file with one batch."""

    def __init__(self, data: Buffer) -> None:
        self.data = bytes(data)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self.data[position : position + size_bytes]


@pytest.mark.parametrize("is_commit", [False, True])
@pytest.mark.parametrize("coordinator_epoch", [0, 2**31 - 1])
def test_a_marker_is_found_as_it_was_made(is_commit: bool, coordinator_epoch: int) -> None:
    marker = Marker(2**40, 32767, is_commit, coordinator_epoch)
    data, header = build_marker(marker, NOW_MS)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.size_bytes) == (2**40, 32767, len(data))
    stamp(data, 77, 3)
    assert list(markers_in(Content(data), parse_header(data))) == [StoredMarker(marker, 77, NOW_MS)]


def test_other_control_records_are_no_markers() -> None:
    builder = BatchBuilder(producer_id=1, producer_epoch=0, is_control=True)
    builder.append(NOW_MS, b"\0\0\0\x63", b"later")
    data = builder.seal()
    assert not list(markers_in(Content(data), parse_header(data)))


def test_compaction_may_leave_a_control_batch_empty() -> None:
    data = empty_batch(base_offset=5, last_offset_delta=0, producer_id=1, producer_epoch=0, is_control=True)
    assert not list(markers_in(Content(data), parse_header(data)))
