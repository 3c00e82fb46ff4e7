"""If a disk hangs, loses files, or cannot be read or written, other requests are served, and errors state the cause.

Method: run a broker on a free port of this machine, and make its system calls fail or hang; start brokers on in-memory
disks.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import ConnectionEnded
from tools.soak.broker_process import FETCH_VERSION, PRODUCE_VERSION, RawClient, fetch_request, produce_request

#: The maximum time that an answer may take, whatever the disk does.
TIMEOUT_SECONDS = 20.0

_SYNCED = {"flush.messages": "1"}
_WRITING = ("create", "append", "truncate", "sync", "make_folder", "rename", "remove", "lock")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BackgroundBroker]:
    with BackgroundBroker(tmp_path / "data") as broker:
        yield broker


def client_of(broker: BackgroundBroker) -> RawClient:
    return RawClient(broker.bootstrap, TIMEOUT_SECONDS)


def produce(client: RawClient, topic: str, value: bytes = b"x") -> Any:
    request = produce_request(topic, 0, [value], now_ms())
    return client.ask(request, PRODUCE_VERSION, ProduceResponse).responses[0].partition_responses[0]


def create(client: RawClient, name: str) -> ErrorCode:
    request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1)])
    return ErrorCode(client.ask(request, 7, CreateTopicsResponse).topics[0].error_code)


def test_slow_sync_holds_up_nobody_else(broker: BackgroundBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, may_go_on, sync = threading.Event(), threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        if "slow-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            asked.set()
            assert may_go_on.wait(TIMEOUT_SECONDS)
        sync(descriptor)

    with client_of(broker) as waiting, client_of(broker) as other:
        other.create({"slow": 1, "quick": 1}, _SYNCED)
        monkeypatch.setattr(os, "fsync", slow)
        try:
            waiting.send(produce_request("slow", 0, [b"x"], now_ms()), PRODUCE_VERSION)
            assert asked.wait(TIMEOUT_SECONDS)
            assert [produce(other, "quick").base_offset for _ in range(3)] == [0, 1, 2]
            assert create(other, "new") is ErrorCode.NONE
            assert len(other.fetch("quick", 0, 0)) > 0
            assert len(other.fetch("slow", 0, 0)) == 0, "records that may still be lost are not readable"
        finally:
            may_go_on.set()
        (partition,) = waiting.receive(ProduceResponse).responses[0].partition_responses
        assert (partition.error_code, partition.base_offset) == (0, 0)
        assert len(other.fetch("slow", 0, 0)) > 0


def test_removed_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = BackgroundBroker(tmp_path / "data")
    broker.start()
    with client_of(broker) as client:
        client.create({"t": 1, "rolling": 1}, {"index.interval.bytes": "0", "segment.index.bytes": "16"})
        assert produce(client, "t").error_code == 0
        shutil.rmtree(tmp_path / "data")
        assert create(client, "new") is ErrorCode.KAFKA_STORAGE_ERROR
        codes = {produce(client, "rolling").error_code for _ in range(8)}
        assert ErrorCode.KAFKA_STORAGE_ERROR in codes, "no new segment can be created"
        assert len(client.ask(MetadataRequest(None), 12, MetadataResponse).topics) == 2
        assert len(client.fetch("t", 0, 0)) > 0, "the file is open"
    broker.stop()
    assert "the shutdown is not clean" in caplog.text
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_record_that_cannot_be_read(
    broker: BackgroundBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*arguments: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with client_of(broker) as client, client_of(broker) as other:
        client.create({"t": 1})
        assert produce(client, "t", bytes(300_000)).error_code == 0
        with monkeypatch.context() as broken:
            for name in ("pread", "sendfile"):
                broken.setattr(os, name, failing)
            client.send(fetch_request("t", 0, 0), FETCH_VERSION)
            try:
                (found,) = client.receive(FetchResponse).responses[0].partitions
            except ConnectionEnded:
                pass  # the response was already being sent
            else:
                assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert len(other.ask(MetadataRequest(None), 12, MetadataResponse).topics) == 1
        assert produce(other, "t").error_code == 0
        assert len(other.fetch("t", 0, 0)) > 300_000
    assert "Input/output error" in caplog.text


def filled() -> MemoryDisk:
    """Return a disk with one record."""
    disk = MemoryDisk()
    with BackgroundBroker(disk) as broker, client_of(broker) as client:
        client.create({"t": 1})
        assert produce(client, "t").error_code == 0
    return disk.crash()


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "filled"])
def test_start_where_nothing_can_be_written(is_new: bool) -> None:
    disk = MemoryDisk() if is_new else filled()

    def read_only(call: DiskCall) -> None:
        if call.name in _WRITING:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), disk.describe(call.path))

    disk.plan = read_only
    with pytest.raises(OSError, match=r"Read-only file system: 'memory:\.lock'"):
        BackgroundBroker(disk).start()
    disk.plan = None
    with BackgroundBroker(disk) as broker, client_of(broker) as client:
        assert create(client, "new") is ErrorCode.NONE


def test_start_on_a_full_disk() -> None:
    with pytest.raises(OSError, match="No space left on device"):
        BackgroundBroker(MemoryDisk(0)).start()
    disk = filled()
    disk.capacity_bytes = disk.used_bytes
    with BackgroundBroker(disk) as broker, client_of(broker) as client:
        assert len(client.fetch("t", 0, 0)) > 0, "existing records can be read"
        assert create(client, "new") is ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.ask(MetadataRequest(None), 12, MetadataResponse).topics[0].name == "t"
    disk = disk.crash()
    disk.capacity_bytes = None
    with BackgroundBroker(disk) as broker, client_of(broker) as client:
        assert produce(client, "t").base_offset == 1


def test_start_where_there_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    for data in (file, file / "data"):
        with pytest.raises(OSError, match=str(file)):
            BackgroundBroker(data).start()
