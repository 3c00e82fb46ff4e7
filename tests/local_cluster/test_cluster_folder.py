"""`cluster.json` is read back as it was written, and is replaced as a whole; if it is damaged, the error names it.

Method: use a temporary folder; a held lock stands in for a supervisor.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kafkawire.local_cluster.cluster_folder import (
    ZOOKEEPER,
    ClusterError,
    ClusterFolder,
    ClusterRecord,
    MemberRecord,
    replace_file,
)
from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.process_identity import ProcessIdentity

RUNNING = MemberRecord("1", "127.0.0.1:20001", MemberState.RUNNING, ProcessIdentity(17, "then"))
ENDED = MemberRecord("2", "127.0.0.1:20002", MemberState.ENDED, None, -9)
OWN = MemberRecord(ZOOKEEPER, "127.0.0.1:20003", MemberState.PAUSED, ProcessIdentity(16, "before"))


@pytest.mark.parametrize(
    "record",
    [
        ClusterRecord((RUNNING, ENDED), OWN, OWN.address),
        ClusterRecord((RUNNING,), None, "zookeeper:2181/chroot"),
    ],
    ids=["own-zookeeper", "other-zookeeper"],
)
def test_what_was_written_is_read(tmp_path: Path, record: ClusterRecord) -> None:
    folder = ClusterFolder(tmp_path)
    assert folder.read() is None
    folder.write(record)
    assert folder.read() == record
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_the_form_of_the_file(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.write(ClusterRecord((RUNNING, ENDED), OWN, OWN.address))
    entry = {"id": 1, "address": "127.0.0.1:20001", "pid": 17, "state": "running"}
    found = json.loads(folder.record_path.read_text())
    assert found["brokers"][0].items() >= entry.items()
    assert found["brokers"][1].items() >= {"pid": None, "state": "ended", "exit_status": -9}.items()
    assert found["zookeeper"].items() >= {"address": "127.0.0.1:20003", "pid": 16, "state": "paused"}.items()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"brokers": [], "zookeeper": null}',
        '{"brokers": [{"id": "x"}], "zookeeper": {"state": 1}}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    folder = ClusterFolder(tmp_path)
    folder.record_path.write_text(content)
    with pytest.raises(ClusterError, match=r"cluster\.json is not a valid cluster record"):
        folder.read()


def test_members_and_addresses() -> None:
    record = ClusterRecord((RUNNING, ENDED), OWN, OWN.address)
    assert record.members == (OWN, RUNNING, ENDED)
    assert record._replace(zookeeper=None).members == (RUNNING, ENDED)
    assert record.bootstrap == "127.0.0.1:20001,127.0.0.1:20002"
    assert (OWN.full_name, RUNNING.full_name) == ("ZooKeeper", "broker 1")


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "new")
    folder.create()
    lock = folder.lock()
    assert lock is not None
    assert folder.lock(0) is None
    os.close(lock)
    again = folder.lock(0)
    assert again is not None
    os.close(again)


def test_a_replaced_file_keeps_secrets(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    (tmp_path / ".secret.new").write_text("left by a crash")
    replace_file(path, "one", 0o600)
    replace_file(path, "two", 0o600)
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_paths_of_members(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    paths = [folder.config_path("1"), folder.log_path("1"), folder.log_path(ZOOKEEPER), folder.broker_data(1)]
    shown = [path.relative_to(tmp_path).as_posix() for path in (*paths, folder.zookeeper_data)]
    assert shown == ["config/broker-1.properties", "logs/broker-1.log", "logs/zookeeper.log", "broker-1", "zookeeper"]
