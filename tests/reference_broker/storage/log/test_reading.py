"""A log can be read by offset and by time, reads can wait for more data, and damage is reported.

Method: append batches to real files, in one segment and in many, and read them.
"""

import random

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.producers.producers import Producer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch, walk
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.committed_records import committed
from tests.reference_broker.storage.filled_logs import (
    CONFIG,
    SMALL,
    append,
    batches_read,
    damage_a_length,
    filled,
    opened,
)
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.transacting_logs import SMALL as TRANSACTIONS
from tests.reference_broker.storage.transacting_logs import TransactingLog
from tests.thorough import sampled


@pytest.mark.parametrize("config", [CONFIG, SMALL])
def test_every_offset_can_be_read(tmp_path, config):
    log = filled(tmp_path / "t-0", config)
    for offset in range(60):
        read = log.read(offset, 1, at_least_one=True)
        (batch,) = batches_read(read)
        assert read.is_first_whole
        assert batch.base_offset == offset - offset % 2
    assert log.read(60, 100, at_least_one=True).records is None
    for offset in (-1, 61):
        with pytest.raises(BrokerError) as caught:
            log.read(offset, 100, at_least_one=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_small_limit_without_at_least_one(tmp_path):
    log = filled(tmp_path / "t-0")
    read = log.read(0, 10, at_least_one=False)
    assert read.records is not None
    assert (len(read.records), read.is_first_whole) == (10, False)


def test_offset_for_timestamp(tmp_path):
    log = filled(tmp_path / "t-0")
    for number in range(30):
        found = log.offset_for_timestamp(NOW_MS + number)
        assert found == (NOW_MS + number, 2 * number, 0)
    earliest = log.offset_for_timestamp(0)
    assert earliest is not None
    assert earliest.offset == 0
    assert log.offset_for_timestamp(NOW_MS + 30) is None
    assert log.max_timestamp() == (NOW_MS + 29, 58, 0)
    assert opened(tmp_path / "t-1", CONFIG).max_timestamp() is None


def test_offset_for_timestamp_inside_a_batch(tmp_path):
    log = opened(tmp_path / "t-0", CONFIG)
    append(log, b"a", b"b", b"c", timestamps=(NOW_MS, NOW_MS + 10, NOW_MS + 5))
    assert log.offset_for_timestamp(NOW_MS + 5) == (NOW_MS + 10, 1, 0)


def test_damage_in_the_middle_of_a_closed_log_is_reported(tmp_path, caplog):
    filled(tmp_path / "t-0").close()
    files = sorted((tmp_path / "t-0").glob("*.log"))
    batch = next(walk(files[1].read_bytes()))
    assert isinstance(batch, RecordBatch)
    timestamp = batch.base_timestamp
    damage_a_length(files[1])
    log = opened(tmp_path / "t-0", SMALL, is_clean=True, recovery_point=60)
    assert (log.next_offset, log.truncated_bytes) == (60, 0)
    first = int(files[1].stem)
    assert log.read(first - 1, 10_000, at_least_one=True).is_first_whole
    with pytest.raises(BrokerError, match=f"segment {first}: batch at byte 0: partial batch") as caught:
        log.read(first, 10_000, at_least_one=True)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert f"t-0/{first:020}.log: segment {first}: batch at byte 0: partial batch" in caplog.text
    with pytest.raises(BrokerError) as caught:
        log.offset_for_timestamp(timestamp)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_watchers_hear_of_readable_bytes(tmp_path):
    log = opened(tmp_path / "t-0", CONFIG)
    heard, replica = [], leading(log)
    replica.watch(heard.append)
    data = produced(b"x")
    log.append(data, parse_header(data), NOW_MS, lambda result: None)
    assert heard == [len(data)]
    replica.unwatch(heard.append)


def test_start_of_the_log_takes_the_last_stable_offset_along(tmp_path):
    log = filled(tmp_path / "t-0")
    log.producers.restore([Producer(1, 0, transaction_start=5)], 60)
    assert log.last_stable_offset == 5
    told, replica = [], leading(log)
    replica.watch(told.append)
    log.begin_at(9)
    assert log.last_stable_offset == 9
    assert told == [0], "fetch sessions inform consumers where the log begins"


# Committed records.


def test_reads_of_committed_records_end_at_the_last_stable_offset():
    log = TransactingLog()
    log.plain(b"a")
    log.append(1, b"b")
    log.plain(b"c")
    assert (log.log.readable_to(is_committed=False), log.log.readable_to(is_committed=True)) == (3, 1)
    read = log.log.read(0, 1000, at_least_one=True, is_committed=True)
    assert [batch.base_offset for batch in batches_read(read)] == [0]
    assert read.aborted == []
    for offset in (1, 2, 3):
        nothing = log.log.read(offset, 1000, at_least_one=True, is_committed=True)
        assert (nothing.records, nothing.aborted) == (None, ())
        assert log.log.read(offset, 1000, at_least_one=True).aborted is None
    with pytest.raises(BrokerError):
        log.log.read(4, 1000, at_least_one=True, is_committed=True)


def test_a_read_of_one_segment_finds_what_a_later_one_aborts():
    log = TransactingLog(TRANSACTIONS)
    log.append(1, b"x" * 300)
    log.plain(b"x" * 300)
    log.plain(b"x" * 300)
    log.abort(1)
    log.append(2, b"x" * 300)
    log.abort(2)
    assert len(log.log.segments) > 3
    read = log.log.read(0, 10_000, at_least_one=True, is_committed=True)
    assert [batch.base_offset for batch in batches_read(read)] == [0]
    assert read.aborted is not None
    assert [entry.producer_id for entry in read.aborted] == [1]


@pytest.mark.parametrize("seed", sampled(range(20), 3))
def test_random_transactions_are_read_as_they_ended(seed):
    chance = random.Random(seed)
    log = TransactingLog(TRANSACTIONS)
    written, is_open = [], {}  # [value, is committed]; the undecided records of each producer
    for number in range(200):
        producer = chance.randrange(5)
        if producer in is_open and chance.random() < 0.3:
            is_commit = chance.random() < 0.5
            log.end(producer, is_commit)
            for entry in is_open.pop(producer):
                entry[1] = is_commit
        else:
            value = b"%d" % number + b"x" * chance.randrange(150)
            entry = [value, producer == 0]
            written.append(entry)
            if producer == 0:
                log.plain(value)
            else:
                log.append(producer, value)
                is_open.setdefault(producer, []).append(entry)
    for producer in is_open:
        log.abort(producer)
    expected = [value for value, is_committed in written if is_committed]
    for each in (log.log, log.closed(), log.opened(is_clean=False)):
        for max_bytes in (1, 500, 10_000):
            assert list(committed(each, max_bytes)) == expected, f"seed {seed}"


def test_times_of_what_is_not_stable_are_not_found():
    log = TransactingLog()
    log.plain(b"a")
    log.append(1, b"b", b"c")
    log.plain(b"d")
    stable = log.log.readable_to(is_committed=True)
    assert log.log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 1, 2, 0)
    assert log.log.offset_for_timestamp(NOW_MS + 1, up_to=stable) is None
    assert log.log.offset_for_timestamp(NOW_MS, up_to=stable) == (NOW_MS, 0, 0)
    assert log.log.max_timestamp() == (NOW_MS + 1, 2, 0)
    assert log.log.max_timestamp(up_to=stable) is None
    log.commit(1)
    assert log.log.max_timestamp(up_to=log.log.readable_to(is_committed=True)) == (NOW_MS + 1, 2, 0)
