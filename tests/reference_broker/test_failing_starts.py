"""If a broker fails to start on a full or failing disk, the error names the file, and the next startup finds all data.

Method: start brokers on directories left by a workload, on an in-memory disk with little space or with one failing
call.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from kafkawire.reference_broker import server
from kafkawire.reference_broker.server import Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.sdk.protocol.uuids import format_uuid
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.disk.disk_workload import Ledger, run
from tests.thorough import IS_SAMPLE, sampled

#: Files that can be rebuilt, and that a crash may therefore leave truncated.
_REBUILT = ("partition.metadata", "leader-epoch-checkpoint", ".index", ".timeindex", ".snapshot", "last-leader-epoch")


def _clean(disk: MemoryDisk) -> MemoryDisk:
    BrokerBench(disk).core.close()
    return disk


def _without_what_can_be_rebuilt(disk: MemoryDisk) -> MemoryDisk:
    for folder in disk.names(""):
        if folder.rpartition("-")[2].isdigit():
            for name in disk.names(folder):
                if name.endswith(_REBUILT):
                    disk.remove(f"{folder}/{name}")
    return disk


def _without_a_folder(disk: MemoryDisk) -> MemoryDisk:
    """A partition of another broker takes the place of one of this broker's."""
    path = "fast-0/partition.metadata"
    content = disk.open(path).read(0, 100)
    disk.remove(path)
    disk.open(path, create=True).append(content[:-22] + format_uuid(b"another broker's").encode())
    return disk


@pytest.fixture(scope="module")
def left() -> tuple[MemoryDisk, Ledger]:
    disk, ledger = MemoryDisk(), Ledger()
    bench = BrokerBench(disk)
    run(bench, ledger)
    return disk, ledger


def _start(disk: MemoryDisk) -> OSError | None:
    """Start a broker and kill it; return the reason if it does not start."""
    try:
        directory = BrokerBench(disk).core.directory
    except OSError as error:
        return error
    directory.abandon()
    return None


def _check(disk: MemoryDisk, ledger: Ledger) -> None:
    """Start again on the files left by a crash of the broker and by a power cut, and check them."""
    for seed in range(2):
        ledger.check(disk.crash(seed), loses_unsynced=True)
    ledger.check(disk, loses_unsynced=False)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    sampled(
        [
            (MemoryDisk.crash, {"last-leader-epoch.tmp"}),
            (_clean, set()),
            (
                _without_what_can_be_rebuilt,
                {"last-leader-epoch.tmp"},
            ),
        ],
        3,
    ),
)
def test_start_on_a_full_disk(
    left: tuple[MemoryDisk, Ledger], prepare: Callable[[MemoryDisk], MemoryDisk], expected: set[str]
) -> None:
    """If only one partition cannot write its leader epochs or metadata, the broker starts without that partition."""
    before, ledger = left
    ready = prepare(before.crash())
    failed = set()
    for room_bytes in range(0, 160, 5 if IS_SAMPLE else 1):
        disk = ready.crash()
        disk.capacity_bytes = disk.used_bytes + room_bytes
        error = _start(disk)
        if error is not None:
            assert error.errno == errno.ENOSPC
            failed.add(error.filename)
        disk.capacity_bytes = None
        _check(disk, ledger)
    assert failed == expected


@pytest.mark.parametrize("code", sampled([errno.EIO, errno.ENOSPC], 2))
@pytest.mark.parametrize("prepare", sampled([MemoryDisk.crash, _clean, _without_what_can_be_rebuilt], 3))
def test_start_of_which_a_call_fails(
    left: tuple[MemoryDisk, Ledger], prepare: Callable[[MemoryDisk], MemoryDisk], code: int
) -> None:
    before, ledger = left
    ready = prepare(before.crash())
    whole = ready.crash()
    assert _start(whole) is None
    failed = set()
    for number in range(1, whole.calls + 1):
        disk = ready.crash()
        disk.plan = fail_at(number, code)
        error = _start(disk)
        if error is not None:
            assert error.errno == code
            failed.add(error.filename)
        disk.plan = None
        _check(disk, ledger)
    assert {".lock", "topics", "recovery-point-offset-checkpoint"} <= failed


def test_partition_of_another_broker_is_put_aside_on_a_full_disk(left: tuple[MemoryDisk, Ledger]) -> None:
    before, _ = left
    ready = _without_a_folder(before.crash())
    were_offline = set()
    for room_bytes in range(0, 300, 7):
        disk = ready.crash()
        disk.capacity_bytes = disk.used_bytes + room_bytes
        if _start(disk) is None:
            directory = BrokerBench(disk).core.directory
            were_offline.update(name for name, _, log in directory.logs() if log.is_offline)
            directory.abandon()
        disk.capacity_bytes = None
        assert _start(disk) is None
        assert sum(name.endswith("-stray") for name in disk.names("")) == 1
    assert "fast" in were_offline


def test_first_start_on_a_full_disk() -> None:
    failed = set()
    for capacity_bytes in range(0, 400, 3):
        disk = MemoryDisk(capacity_bytes)
        error = _start(disk)
        if error is not None:
            assert error.errno == errno.ENOSPC
            failed.add(error.filename)
        disk.capacity_bytes = None
        BrokerBench(disk).create("t")
    assert failed == {"recovery-point-offset-checkpoint.tmp", "producer-ids.tmp", "meta.properties.tmp"}


def test_broker_that_could_not_start_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk(50)

    async def start_again() -> None:
        broker = Broker(disk)
        with pytest.raises(OSError, match=r"No space left on device.*meta.properties.tmp"):
            await broker.start()
        disk.capacity_bytes = None
        with monkeypatch.context() as patch:
            patch.setattr(server, "Core", lambda *arguments: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await broker.start()
        await broker.start()
        await broker.stop()

    asyncio.run(start_again())
