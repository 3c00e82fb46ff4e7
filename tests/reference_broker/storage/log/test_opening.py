"""Opened and truncated logs have exactly the state that their files contain.

Method: open logs with undecided transactions and stale files on an in-memory disk.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import write_file
from kafkawire.reference_broker.storage.log.opening import CheckpointedLog, load_log_producers, open_log, truncate_log
from kafkawire.reference_broker.storage.log.truncation import Truncation, begin_truncation
from kafkawire.reference_broker.storage.producers.markers import Marker
from kafkawire.reference_broker.storage.producers.producer_state import Snapshots
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import FOLDER, SMALL, Replica, batches_of


@pytest.fixture
def replica() -> Replica:
    """Return a replica with a transaction at offsets 0 to 1, and one at offset 2 that has no marker."""
    replica = Replica()
    log = replica.log
    log.lead(3)
    for producer in (1, 2):
        data = produced(b"a" * 300, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
        guard = log.producers.begin_verification(producer, 0, 0, NOW_MS, has_epoch_per_transaction=False)
        log.append(data, parse_header(data), NOW_MS, lambda result: None, verification=guard)
        if producer == 1:
            log.append_marker(Marker(1, 0, False, 0), 0, NOW_MS, lambda result: None)
    assert log.segments.base_offsets == [0, 2]
    return replica


def known(**changes: object) -> CheckpointedLog:
    return CheckpointedLog(True, 0, 0, 0, 0)._replace(**changes)


@pytest.mark.parametrize(
    ("high_watermark", "unstable"),
    [(0, 0), (1, 0), (2, 2), (3, 2)],
)
def test_transactions_are_undecided_until_all_replicas_have_their_markers(replica, high_watermark, unstable):
    """A snapshot past the high watermark lacks such transactions, so an earlier snapshot, or none, is used."""
    replica.log.close()
    snapshots = Snapshots(replica.disk, FOLDER)
    opened = open_log(replica.disk, FOLDER, SMALL, snapshots, known(high_watermark=high_watermark))
    assert opened.producers.first_unstable_offset == unstable
    assert [entry.producer_id for segment in opened.segments for entry in segment.transactions] == [1]


def test_only_replica_has_decided_them(replica):
    replica.log.close()
    opened = open_log(replica.disk, FOLDER, SMALL, Snapshots(replica.disk, FOLDER), known(high_watermark=None))
    assert opened.producers.first_unstable_offset == 2


def test_epochs_of_unsynced_batches_are_found_in_them(replica):
    write_file(replica.disk, f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\n9 1\n")
    opened = open_log(replica.disk, FOLDER, SMALL, Snapshots(replica.disk, FOLDER), known(is_clean=False))
    assert opened.epochs.entries() == [(3, 0)]
    # A clean shutdown has stored these epochs.
    write_file(replica.disk, f"{FOLDER}/leader-epoch-checkpoint", b"0\n2\n1 0\n2 1\n")
    opened = open_log(replica.disk, FOLDER, SMALL, Snapshots(replica.disk, FOLDER), known())
    assert opened.epochs.entries() == [(1, 0), (2, 1)]


def test_opening_completes_a_truncation(replica):
    begin_truncation(replica.disk, FOLDER, Truncation(0, 1))
    opened = open_log(replica.disk, FOLDER, SMALL, Snapshots(replica.disk, FOLDER), known(recovery_point=3))
    assert opened.is_truncated
    assert (opened.segments.last.next_offset, opened.recovery_point, opened.log_start_offset) == (1, 1, 0)
    assert [producer.producer_id for producer in opened.producers] == [1]


def test_truncated_log(replica):
    log = replica.log
    found = truncate_log(replica.disk, FOLDER, SMALL, log.snapshots, log.segments, 0, Truncation(0, 2))
    assert (found.segments.base_offsets, found.end_offset) == ([0, 2], 2)
    assert found.segments.first is log.segments.first, "segments that stay are not read again"
    assert found.segments.last is not log.segments.last
    producers = load_log_producers(log.snapshots, found.segments, is_clean=False, high_watermark=2)
    assert [producer.producer_id for producer in producers] == [1]
    assert list(batches_of(log)) == [0, 1]
