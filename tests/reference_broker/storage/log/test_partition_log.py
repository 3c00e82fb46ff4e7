"""Logs assign offsets, roll and recover: no acknowledged record is lost, and no torn batch is kept.

Method: append batches to real files; simulate crashes by cutting copies of the files at every byte of the last batch.
"""

import dataclasses
import shutil

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.records import walk
from tests.reference_broker.storage.filled_logs import (
    CONFIG,
    SMALL,
    append,
    batches_read,
    damage_a_length,
    filled,
    opened,
    values,
)
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.rolled_cases import CASES


def test_offsets_and_epoch_are_stamped(tmp_path):
    log = opened(tmp_path / "t-0", CONFIG)
    first = append(log, b"a", b"b")
    second = append(log, b"c")
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    assert (log.next_offset, log.high_watermark, log.log_start_offset) == (3, 3, 0)
    batches = batches_read(log.read(0, 10_000, at_least_one=True))
    assert [(batch.base_offset, batch.partition_leader_epoch) for batch in batches] == [(0, 0), (2, 0)]
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_log_append_time(tmp_path):
    log = opened(tmp_path / "t-0", dataclasses.replace(CONFIG, is_log_append_time=True))
    appended = append(log, b"a", b"b", now_ms=NOW_MS + 77)
    assert appended.log_append_time_ms == NOW_MS + 77
    (batch,) = batches_read(log.read(0, 10_000, at_least_one=True))
    assert [record.timestamp_ms for record in batch.records()] == [NOW_MS + 77] * 2
    latest = log.max_timestamp()
    assert latest is not None
    assert latest.timestamp == NOW_MS + 77


def test_segments_are_rolled_and_named_by_their_first_offset(tmp_path):
    log = filled(tmp_path / "t-0")
    names = sorted(path.stem for path in (tmp_path / "t-0").glob("*.log"))
    assert len(names) > 5
    for name in names:
        content = (tmp_path / "t-0" / f"{name}.log").read_bytes()
        assert len(content) <= SMALL.segment_bytes
        assert next(walk(content)).base_offset == int(name)
    assert log.size_bytes == sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_when_a_log_rolls(tmp_path, case):
    log = opened(tmp_path / "t-0", log_config(case.configs))
    for timestamps in case.batches:
        append(log, *[b"v"] * len(timestamps), timestamps=timestamps)
    assert log.segments.base_offsets == case.bases


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("timestamp", [NOW_MS, -1])
def test_whose_clock_rolls(tmp_path, kind, timestamp):
    log = opened(tmp_path / "t-0", log_config({"segment.ms": "100", "message.timestamp.type": kind}))
    for after_ms in (0, 100, 101, -5000, 150):
        append(log, b"v", now_ms=NOW_MS + after_ms, timestamps=(timestamp,))
    is_producers = kind == "CreateTime" and timestamp >= 0
    assert log.segments.base_offsets == ([0] if is_producers else [0, 2])


@pytest.mark.parametrize("is_clean", [True, False])
def test_age_of_a_segment_goes_on_after_a_restart(tmp_path, is_clean):
    config = log_config({"segment.ms": "100"})
    log = opened(tmp_path / "t-0", config)
    append(log, b"v", timestamps=(NOW_MS,))
    append(log, b"v", timestamps=(NOW_MS + 50,))
    if is_clean:
        log.close()
    log = opened(tmp_path / "t-0", config, is_clean=is_clean)
    append(log, b"v", timestamps=(NOW_MS + 100,))
    append(log, b"v", timestamps=(NOW_MS + 101,))
    assert log.segments.base_offsets == [0, 3]


def test_log_closed_in_order_is_as_it_was(tmp_path):
    log = filled(tmp_path / "t-0")
    before = values(log)
    log.close()
    again = opened(tmp_path / "t-0", SMALL, is_clean=True, recovery_point=log.recovery_point)
    assert (again.next_offset, again.recovery_point) == (60, 60)
    assert values(again) == before
    append(again, b"more")
    assert values(again) == [*before, b"more"]


def test_crash_at_every_byte_of_the_last_batch(tmp_path):
    """Earlier acknowledged batches stay, the torn batch is removed, and the log remains usable."""
    filled(tmp_path / "t-0", CONFIG, batches=5)
    log_file = tmp_path / "t-0" / f"{0:020}.log"
    whole = log_file.read_bytes()
    headers = list(walk(whole))
    last = headers[-1]
    for size in range(last.position, len(whole)):
        folder = tmp_path / f"crash-{size}"
        shutil.copytree(tmp_path / "t-0", folder)
        (folder / log_file.name).write_bytes(whole[:size])
        log = opened(folder, CONFIG, is_clean=False)
        assert log.truncated_bytes == size - last.position
        assert log.next_offset == last.base_offset
        assert (folder / log_file.name).read_bytes() == whole[: last.position]
        assert append(log, b"again").base_offset == last.base_offset
        shutil.rmtree(folder)


@pytest.mark.parametrize("noise", [b"\x00" * 100, b"\xff" * 100, b"\x00" * 8 + b"\x00\x00\x00\x40" + b"x" * 80])
def test_nonsense_behind_the_last_batch_is_cut_off(tmp_path, noise):
    log = filled(tmp_path / "t-0", CONFIG, batches=5)
    before = values(log)
    with open(tmp_path / "t-0" / f"{0:020}.log", "ab") as file:
        file.write(noise)
    again = opened(tmp_path / "t-0", CONFIG, is_clean=False)
    assert again.truncated_bytes == len(noise)
    assert values(again) == before


def test_segments_behind_a_damaged_one_go(tmp_path):
    filled(tmp_path / "t-0")
    files = sorted((tmp_path / "t-0").glob("*.log"))
    content = bytearray(files[2].read_bytes())
    content[-1] ^= 1
    files[2].write_bytes(content)
    log = opened(tmp_path / "t-0", SMALL, is_clean=False)
    assert sorted((tmp_path / "t-0").glob("*.log")) == files[:3]
    assert int(files[2].stem) <= log.next_offset < int(files[3].stem)
    assert not list((tmp_path / "t-0").glob(f"{files[3].stem}*"))


def test_segments_before_the_recovery_point_are_not_checked(tmp_path):
    filled(tmp_path / "t-0").close()
    files = sorted((tmp_path / "t-0").glob("*.log"))
    content = bytearray(files[0].read_bytes())
    content[-1] ^= 1
    files[0].write_bytes(content)
    log = opened(tmp_path / "t-0", SMALL, is_clean=False, recovery_point=int(files[1].stem))
    assert log.next_offset == 60


def test_a_length_that_takes_in_the_last_batches_is_noticed_when_a_closed_log_is_opened(tmp_path):
    """The batch's header looks valid; only the checksum shows that the batch ends elsewhere."""
    log = opened(tmp_path / "t-0", dataclasses.replace(CONFIG, index_interval_bytes=300))
    size = next(size for size in range(100) if len(produced(b"v" * size)) == 128)
    for _ in range(6):
        append(log, b"v" * size)
    log.close()
    path = tmp_path / "t-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    position = len(content) - 256
    content[position + 11] ^= 128  # from 116 to 244, as if one batch were more than twice as large
    path.write_bytes(content)
    again = opened(tmp_path / "t-0", log.config, is_clean=True, recovery_point=6)
    assert (again.next_offset, again.truncated_bytes) == (4, 256)


def test_damage_at_the_end_of_a_closed_log_is_cut_off(tmp_path, caplog):
    filled(tmp_path / "t-0").close()
    last = sorted((tmp_path / "t-0").glob("*.log"))[-1]
    size = last.stat().st_size
    damage_a_length(last)
    log = opened(tmp_path / "t-0", SMALL, is_clean=True, recovery_point=60)
    assert (log.next_offset, log.truncated_bytes) == (int(last.stem), size)
    assert f"cutting off the last {size} of {size} bytes" in caplog.text


def test_indexes_without_a_segment_are_removed(tmp_path):
    filled(tmp_path / "t-0")
    orphan = tmp_path / "t-0" / f"{999:020}.index"
    orphan.write_bytes(b"")
    opened(tmp_path / "t-0", SMALL)
    assert not orphan.exists()


@pytest.mark.parametrize("at_least_one", [False, True])
def test_aborted_transactions_are_told_to_those_who_read_committed_records(tmp_path, at_least_one):
    log = filled(tmp_path / "t-0", CONFIG, batches=2)
    for offset in (0, log.next_offset):
        read = log.read(offset, 10_000, at_least_one=at_least_one, is_committed=False)
        assert read.aborted is None
        read = log.read(offset, 10_000, at_least_one=at_least_one, is_committed=True)
        assert read.aborted is not None
        assert not read.aborted


def test_create_time_is_told_as_no_append_time(tmp_path):
    assert append(opened(tmp_path / "t-0", CONFIG), b"a").log_append_time_ms == NO_TIMESTAMP


@pytest.mark.parametrize("batches_in_segment", [1, 2, 4, 7])
@pytest.mark.parametrize("is_stored", [True, False])
def test_batches_sent_again_after_a_crash_keep_their_places(tmp_path, batches_in_segment, is_stored):
    """If the log has rolled in between, Apache Kafka rejects four of the five batches."""

    def send(log, number):
        values = [b"x"] * (number + 1)
        sequence = number * (number + 1) // 2
        return append(log, *values, producer_id=7, producer_epoch=0, base_sequence=sequence)

    log = opened(tmp_path / "t-0", CONFIG)
    appended = []
    for number in range(8):
        if number and number % batches_in_segment == 0:
            log.roll(lambda: None)
        appended.append(send(log, number))
    again = opened(tmp_path / "t-0", CONFIG, is_clean=False, recovery_point=log.recovery_point if is_stored else 0)
    assert [send(again, number)[:2] for number in range(3, 8)] == [result[:2] for result in appended[3:]]
    with pytest.raises(BrokerError, match="OUT_OF_ORDER"):
        send(again, 2)
    assert send(again, 8).base_offset == 36
