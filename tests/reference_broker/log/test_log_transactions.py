"""A log ends transactions with markers, which wait, roll and fail as any other append.

Method: logs in memory; background work at once, or held until the test lets it happen.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.log.partition_log import Appended
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.log.held_work import HeldWork
from tests.reference_broker.log.transacting_logs import SMALL, TransactingLog

PRODUCER, OTHER = 1, 2


def test_a_marker_ends_a_transaction() -> None:
    log = TransactingLog()
    log.plain(b"before")
    log.append(PRODUCER, b"a", b"b")
    assert (log.log.high_watermark, log.log.last_stable_offset) == (3, 1)
    assert log.end(PRODUCER, is_commit=True) == Appended(3, 3, NO_TIMESTAMP)
    assert (log.log.high_watermark, log.log.last_stable_offset) == (4, 4)


def test_the_oldest_open_transaction_holds_back_what_is_stable() -> None:
    log = TransactingLog()
    log.append(PRODUCER, b"a")
    log.append(OTHER, b"b")
    log.commit(OTHER)
    assert log.log.last_stable_offset == 0
    log.append(OTHER, b"c")
    log.abort(PRODUCER)
    assert log.log.last_stable_offset == 3
    log.commit(OTHER)
    assert log.log.last_stable_offset == log.log.high_watermark == 6


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "code"),
    [
        (0, 5, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 4, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (1, 5, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_fencing(epoch: int, coordinator_epoch: int, version: int, code: ErrorCode) -> None:
    log = TransactingLog()
    log.append(PRODUCER, b"a", epoch=1)
    log.end(PRODUCER, True, 1, coordinator_epoch=5)
    log.append(PRODUCER, b"b", epoch=1)
    with pytest.raises(BrokerError) as refused:
        log.end(PRODUCER, True, epoch, coordinator_epoch, version)
    assert refused.value.code == code
    assert (log.log.next_offset, log.log.last_stable_offset) == (3, 2)


def test_a_transaction_begins_only_verified() -> None:
    log = TransactingLog()
    guard_of_another = TransactingLog().log.producers.verify(PRODUCER, 0, 0, 0, has_epoch_per_transaction=False)
    log.log.producers.verify = lambda *_, **__: guard_of_another  # type: ignore[method-assign]  # of another log
    with pytest.raises(BrokerError) as refused:
        log.append(PRODUCER, b"a")
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE


def test_markers_wait_for_a_new_segment_in_order() -> None:
    work = HeldWork()
    log = TransactingLog(SMALL, background=work)
    log.append(PRODUCER, b"x" * 300)
    waiting = [
        log.submit(OTHER, b"x" * 100),
        log.submit_end(PRODUCER, is_commit=True),
        log.submit_end(OTHER, is_commit=True),
    ]
    assert waiting == [[], [], []]
    work.run()
    assert [results[0].base_offset for results in waiting if isinstance(results[0], Appended)] == [1, 2, 3]
    assert len(log.log.segments) == 2
    assert log.log.last_stable_offset == 4


def test_a_marker_begins_a_segment_when_there_is_no_room() -> None:
    log = TransactingLog(SMALL)
    log.append(PRODUCER, b"x" * 360)
    log.abort(PRODUCER)
    assert log.log.segments.base_offsets == [0, 1]


def test_what_waits_is_answered_when_the_log_ends() -> None:
    work = HeldWork()
    log = TransactingLog(SMALL, background=work)
    log.append(PRODUCER, b"x" * 360)
    waiting = log.submit_end(PRODUCER, is_commit=True)
    log.log.fail(OSError("broken"))
    (error,) = waiting
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    (again,) = log.submit_end(PRODUCER, is_commit=True)
    assert again == error
