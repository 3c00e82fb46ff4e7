"""Startup reports damaged files in the data directory, and repairs them if it can; no partition affects another.

Method: damage directories, on real files or in memory, while they are closed.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import ConfigurationError
from tests.reference_broker.storage.directories import append, create, create_logs, on
from tests.reference_broker.storage.produced_batches import NOW_MS, produced


@pytest.fixture
def reopen(tmp_path):
    last: list[Any] = []

    def reopen():
        if last:
            last.pop().directory.abandon()
        last.append(on(MachineDisk(tmp_path)))
        return last[0]

    return reopen


def append_by(producer_id, log):
    data = produced(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    log.append(data, parse_header(data), NOW_MS, lambda result: None)


@pytest.mark.parametrize(
    "content",
    [b"", bytes(20), b"\xff\xfe", b"next.producer.id=1x\n", b"next.producer.id=" + b"9" * 5000, b"other=1\n"],
    ids=["empty", "zeros", "binary", "no number", "too high", "another name"],
)
def test_reservation_of_producer_ids_is_rebuilt(reopen, tmp_path, caplog, content):
    append_by(1700, create_logs(reopen(), "t")[0])
    (tmp_path / "producer-ids").write_bytes(content)
    store = reopen()
    assert "producer-ids is damaged" in caplog.text
    first = 1701 + 2**32
    assert f"producer ids continue at {first}, far above those in the logs" in caplog.text
    assert store.directory.producer_ids.reserve(1000) == first
    assert reopen().directory.producer_ids.reserve(1000) == first + 1000


def test_damaged_reservation_although_no_producer_has_written(reopen, tmp_path):
    assert reopen().directory.producer_ids.reserve(1000) == 0
    (tmp_path / "producer-ids").write_bytes(b"")
    assert reopen().directory.producer_ids.reserve(1000) == 2**32


def test_reservation_after_the_highest_id_that_a_log_is_believed(reopen, tmp_path):
    append_by(2**61, create_logs(reopen(), "t")[0])
    (tmp_path / "producer-ids").write_bytes(b"")
    first = 2**61 + 1 + 2**32
    assert reopen().directory.producer_ids.reserve(1000) == first
    assert reopen().directory.producer_ids.reserve(1000) == first + 1000, "the file written afterwards is not damaged"


def test_lost_reservation_of_producer_ids(reopen, tmp_path):
    store = reopen()
    assert [store.directory.producer_ids.reserve(1000) for _ in range(2)] == [0, 1000]
    topic = create(store, "t", 2)
    for number, producer_id in enumerate((1700, 2**63 - 1)):
        data = produced(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        store.directory.of(topic.name)[number].append(data, parse_header(data), NOW_MS, lambda result: None)
    assert reopen().directory.producer_ids.reserve(1000) == 2000
    (tmp_path / "producer-ids").unlink()
    first = 1701 + 2**32
    assert reopen().directory.producer_ids.reserve(1000) == first, "the ids after those in the logs may be in use"
    assert reopen().directory.producer_ids.reserve(1000) == first + 1000


def test_folder_in_place_of_the_reservation_of_producer_ids(reopen, tmp_path):
    reopen()
    (tmp_path / "producer-ids").unlink()
    (tmp_path / "producer-ids").mkdir()
    with pytest.raises(IsADirectoryError, match="producer-ids"):
        reopen()


def as_folder(path):
    path.unlink()
    path.mkdir()


def as_full_folder(path):
    as_folder(path)
    (path / "x").touch()


def as_pipe(path):
    path.unlink()
    os.mkfifo(path)


def as_device(path):
    path.unlink()
    path.symlink_to("/dev/full")


def as_file(path):
    shutil.rmtree(path)
    path.touch()


DAMAGES = [
    ("t-0/partition.metadata", as_folder),
    ("t-0/partition.metadata", as_full_folder),
    ("t-0/partition.metadata", as_pipe),
    ("t-0/partition.metadata", as_device),
    ("t-0", as_file),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_partition_without_a_usable_folder_is_offline_and_alone(reopen, tmp_path, name, damage, caplog):
    store = reopen()
    for topic in ("t", "other"):
        append_by(1, create_logs(store, topic)[0])
    damage(tmp_path / name)
    store = reopen()
    assert store.directory.log("t", 0).is_offline
    assert "t-0: taking the log offline" in caplog.text
    append_by(2, store.directory.log("other", 0))
    assert store.directory.log("other", 0).high_watermark == 2
    assert (tmp_path / name).exists(), "the folder is left alone"


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_topic_without_a_usable_folder_can_be_deleted_and_made_again(reopen, tmp_path, name, damage):
    append_by(1, create_logs(reopen(), "t")[0])
    damage(tmp_path / name)
    store = reopen()
    results: list[Any] = []
    store.delete(store.topics["t"], results.append)
    assert results == [None]
    assert "t" not in reopen().topics
    (tmp_path / "t-0").unlink() if damage is as_file else None
    append_by(1, create_logs(reopen(), "t")[0])
    assert reopen().directory.log("t", 0).high_watermark == 1


def test_deleted_topic_goes_with_the_folders_in_its_own(reopen, tmp_path):
    store = reopen()
    create(store, "t")
    (tmp_path / "t-0" / "notes").mkdir()
    (tmp_path / "t-0" / "notes" / "today").touch()
    store.delete(store.topics["t"], lambda error: None)
    assert not [name for name in os.listdir(tmp_path) if "-0" in name or "-delete" in name]
    assert os.listdir(tmp_path / "topics") == []


HUGE_BYTES = 8 * 2**30


@pytest.mark.parametrize("name", ["meta.properties", "topics/t.topic"])
def test_huge_file_is_refused_unread(reopen, tmp_path, name):
    append_by(1, create_logs(reopen(), "t")[0])
    reopen().directory.close()
    os.truncate(tmp_path / name, HUGE_BYTES)
    with pytest.raises(ConfigurationError, match=rf"{name} is damaged: the file is larger than 134217728 bytes"):
        reopen()


@pytest.mark.parametrize(
    "name",
    [
        "t-0/partition.metadata",
        "last-leader-epoch",
        "recovery-point-offset-checkpoint",
        "producer-ids",
        ".kafka_cleanshutdown",
    ],
)
def test_huge_file_that_can_be_made_again_is_left_out_unread(reopen, tmp_path, name):
    store = reopen()
    append_by(1, create_logs(store, "t")[0])
    store.directory.producer_ids.reserve(1)
    store.directory.close()
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, HUGE_BYTES)
    log = reopen().directory.log("t", 0)
    assert (log.error, log.high_watermark) == (None, 1)


def test_damaged_log_start_offsets(caplog):
    disk = MemoryDisk()
    store = on(disk)
    create(store, "t")
    store.directory.close()
    write_file(disk, "log-start-offset-checkpoint", b"?")
    assert on(disk).directory.of("t")[0].log_start_offset == 0
    assert "log-start-offset-checkpoint is damaged" in caplog.text


def test_damaged_configuration_is_refused_by_name():
    disk = MemoryDisk()
    store = on(disk)
    create(store, "t", 1, {"segment.bytes": "2000000"})
    store.directory.close()
    content = read_file(disk, "topics/t.topic")
    assert content is not None
    write_file(disk, "topics/t.topic", content.replace(b"2000000", b"many"))
    with pytest.raises(
        ConfigurationError, match="configuration of the topic t is damaged: expected a number, got 'many'"
    ):
        on(disk)


def test_reservation_is_lost_although_no_log_knows_a_producer(reopen, tmp_path, caplog):
    assert reopen().directory.producer_ids.reserve(1000) == 0
    (tmp_path / "producer-ids").unlink()
    assert reopen().directory.producer_ids.reserve(1000) == 2**32
    assert "producer-ids is damaged: the file is missing; producer ids continue at 4294967296" in caplog.text


@pytest.mark.parametrize("seed", range(20))
def test_leader_epoch_does_not_go_back_where_a_power_cut_takes_what_a_clean_stop_has_not_synced(seed):
    disk = MemoryDisk()
    append(create_logs(on(disk), "t")[0], b"x")
    disk = disk.crash()
    store = on(disk)
    epoch = store.directory.of("t")[0].leader_epoch
    assert epoch > 0
    store.directory.close()
    log = on(disk.crash(seed)).directory.of("t")[0]
    assert (log.leader_epoch, log.next_offset) == (epoch, 1)


@pytest.mark.parametrize("at", [3, 9, 25, 40])
def test_flipped_bit_in_the_metadata_of_a_partition_takes_no_records(reopen, tmp_path, at):
    store = reopen()
    append(create_logs(store, "t")[0], b"x")
    store.directory.close()
    path = tmp_path / "t-0" / "partition.metadata"
    good = path.read_bytes()
    path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    assert reopen().directory.of("t")[0].next_offset == 1
    assert path.read_bytes() == good
