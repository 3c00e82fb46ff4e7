"""What is in a log can be read: by offset, by time, and by those who wait for more; what is damaged is told.

Method: batches appended to real files, in one segment and in many.
"""

import pytest

from kafkawire.reference_broker.log.batches import parse_header
from kafkawire.reference_broker.log.reading import storage_error
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch, walk
from tests.reference_broker.log.filled_logs import CONFIG, SMALL, append, batches_read, damage_a_length, filled, opened
from tests.reference_broker.log.produced_batches import NOW_MS, produced


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


def test_damage_in_the_middle_of_a_closed_log_is_told(tmp_path, caplog):
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
    assert f"t-0, segment {first}: batch at byte 0: partial batch" in caplog.text
    with pytest.raises(BrokerError) as caught:
        log.offset_for_timestamp(timestamp)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_watchers_hear_of_readable_bytes(tmp_path):
    log = opened(tmp_path / "t-0", CONFIG)
    heard = []
    log.watch(heard.append)
    data = produced(b"x")
    log.append(data, parse_header(data), NOW_MS, lambda result: None)
    assert heard == [len(data)]
    log.unwatch(heard.append)


def test_storage_error_says_what_failed():
    error = storage_error(OSError(5, "gone"))
    assert (error.code, str(error)) == (ErrorCode.KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR: [Errno 5] gone")
