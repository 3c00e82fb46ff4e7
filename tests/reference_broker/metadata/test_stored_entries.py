"""Entries of a file are changed one change at a time, survive a restart, and stay as they were if a change fails.

Method: change entries of a broker's directory on an in-memory disk; read the file again; plan a disk fault.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from kafkawire.reference_broker.metadata.stored_entries import FILE_BYTES_MAX, StoredEntries, quoted, unquoted
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

NAME = "entries"


def stored(disk: MemoryDisk) -> StoredEntries:
    return StoredEntries(BrokerBench(disk).core.directory, NAME, "entries")


def added(entries: StoredEntries, **values: str) -> list[BrokerError | None]:
    outcome: list[BrokerError | None] = []
    entries.change(lambda before: {**before, **values}, outcome.append)
    return outcome


def test_entries_are_read_again() -> None:
    bench = BrokerBench(MemoryDisk())
    entries = StoredEntries(bench.core.directory, NAME, "entries")
    assert entries.entries == {}
    assert added(entries, a="1") == [None]
    assert added(entries, b="ü\n") == [None]
    again = StoredEntries(bench.core.directory, NAME, "entries")
    assert again.entries == entries.entries == {"a": "1", "b": "ü\n"}


def test_a_failed_change_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    entries = stored(disk)

    def refuse(before: Mapping[str, str]) -> Mapping[str, str]:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "no")

    def fail(call: DiskCall) -> None:
        if call.path.startswith(NAME):
            raise OSError(errno.EIO, "a planned fault", call.path)

    outcome: list[BrokerError | None] = []
    entries.change(refuse, outcome.append)
    disk.plan = fail
    outcome += added(entries, a="1")
    disk.plan = None
    outcome += added(entries, a="x" * FILE_BYTES_MAX)
    codes = [None if error is None else error.code for error in outcome]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.POLICY_VIOLATION]
    assert entries.entries == {}
    assert "entries cannot be written" in caplog.text
    assert added(entries, a="1") == [None]


def test_a_damaged_file_is_refused() -> None:
    disk = MemoryDisk()
    replace_file(disk, NAME, b"\xff")
    with pytest.raises(DamagedFile, match="entries is damaged"):
        stored(disk)


@pytest.mark.parametrize("name", ["", "a", "a/b", "a%2Fb", "%", "%25", "a%b/c%"])
def test_quoted_names_contain_no_slash(name: str) -> None:
    assert "/" not in quoted(name)
    assert unquoted(quoted(name)) == name
