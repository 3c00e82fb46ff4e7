"""A cluster starts and stops as a whole, keeps its ports and its record, and leaves no process behind.

Method: run stand-ins for brokers, with a socket in place of ZooKeeper, or with a stand-in for its program where the
shutdown order matters.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.local_cluster import supervisor as module
from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder, ClusterRecord, MemberRecord
from kafkawire.local_cluster.member_state import MemberState
from kafkawire.local_cluster.process_identity import ProcessIdentity, identify, is_running
from kafkawire.local_cluster.supervisor import BROKERS_MAX, ClusterSettings, Supervisor, end_left_members
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.storage.properties import parse_properties
from tests.local_cluster.fake_members import FAKE_BROKER, FakeZooKeeper

PATIENCE_SECONDS = 30


def run(
    folder: ClusterFolder, zookeeper: str | None, steps: Callable[[Supervisor], Awaitable[None]], **settings: Any
) -> list[MemberRecord]:
    """Run a cluster for some steps, and return its members' state changes."""
    changes: list[MemberRecord] = []

    async def whole() -> None:
        given = ClusterSettings(zookeeper=zookeeper, broker_command=FAKE_BROKER, **settings)
        supervisor = Supervisor(folder, given, changes.append)
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                await supervisor.start()
                await steps(supervisor)
            finally:
                await supervisor.kill()
                await supervisor.stop()

    asyncio.run(whole())
    return changes


async def nothing(supervisor: Supervisor) -> None:
    """Do nothing, which stops the cluster immediately."""


def states(folder: ClusterFolder) -> list[str]:
    record = folder.read()
    assert record is not None
    return [member.state.value for member in record.members]


def test_a_cluster_and_its_next_start(tmp_path: Path, zookeeper: str) -> None:
    folder = ClusterFolder(tmp_path / "cluster")
    addresses = []

    async def steps(supervisor: Supervisor) -> None:
        record = supervisor.record
        assert folder.read() == record
        addresses.append([broker.address for broker in record.brokers])
        assert states(folder) == ["running"] * len(record.brokers)
        await supervisor.act("kill", "1")
        assert states(folder)[0] == "killed"
        await supervisor.stop()
        assert states(folder) == ["killed", *["stopped"] * (len(record.brokers) - 1)]

    run(folder, zookeeper, steps, brokers=2, options={"min.insync.replicas": "2"})
    run(folder, zookeeper, steps)
    run(folder, zookeeper, steps, brokers=3)
    assert addresses[0] == addresses[1] == addresses[2][:2]
    with pytest.raises(ConfigurationError, match=r"brokers=2: .* has 3 brokers and cannot be started"):
        run(folder, zookeeper, nothing, brokers=2)


def test_configurations(tmp_path: Path, zookeeper: str) -> None:
    folder = ClusterFolder(tmp_path)
    run(folder, f"{zookeeper}/a", nothing, brokers=1, options={"min.insync.replicas": "2"})
    content = parse_properties(folder.config_path("1").read_text())
    found = {entry.name: entry.value for entry in content}
    record = folder.read()
    assert record is not None
    assert found["zookeeper.connect"] == f"{zookeeper}/a" == record.zookeeper_connect
    assert found["listeners"] == f"PLAINTEXT://{record.brokers[0].address}"
    assert found["min.insync.replicas"] == "2"


def test_a_second_supervisor_is_refused_and_changes_nothing(
    tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ClusterFolder(tmp_path)
    monkeypatch.setattr("kafkawire.local_cluster.cluster_folder._LOCK_SECONDS", 0.0)
    monkeypatch.setattr(ClusterFolder.lock, "__defaults__", (0.0,))

    async def steps(supervisor: Supervisor) -> None:
        before = folder.record_path.read_bytes(), folder.control_path.read_bytes()
        other = Supervisor(folder, ClusterSettings(zookeeper=zookeeper))
        with pytest.raises(ClusterError, match=r"another process is running the cluster in .*; stop it first"):
            await other.start()
        await other.stop()
        assert (folder.record_path.read_bytes(), folder.control_path.read_bytes()) == before

    run(folder, zookeeper, steps, brokers=1)


def test_a_member_that_fails_ends_the_start(tmp_path: Path, zookeeper: str) -> None:
    folder = ClusterFolder(tmp_path)
    with pytest.raises(ClusterError, match="ended with exit status 3 during startup"):
        run(folder, zookeeper, nothing, brokers=2, options={"fake.fails": "3"})
    assert "ended" in states(folder)
    assert set(states(folder)) <= {"ended", "stopped"}  # the first failure stops the others
    assert not folder.control_path.exists()
    lock = folder.lock(0)
    assert lock is not None


def test_a_stop_during_the_start_is_no_failure(tmp_path: Path, zookeeper: str) -> None:
    folder = ClusterFolder(tmp_path)

    async def whole() -> None:
        supervisor = Supervisor(folder, ClusterSettings(1, zookeeper, {}, FAKE_BROKER))
        async with asyncio.timeout(PATIENCE_SECONDS):
            start = asyncio.create_task(supervisor.start())
            while folder.read() is None or states(folder) != ["starting"]:
                await asyncio.sleep(0)
            await supervisor.stop()
            await start

    asyncio.run(whole())
    assert states(folder) == ["stopped"]


def test_zookeeper_starts_beside_the_brokers_and_stops_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_zookeeper", FakeZooKeeper)
    folder = ClusterFolder(tmp_path)

    async def steps(supervisor: Supervisor) -> None:
        await supervisor.act("restart", "zookeeper")
        await supervisor.stop()

    changes = [(each.name, each.state.value) for each in run(folder, None, steps, brokers=1)]
    assert changes[:2] == [("zookeeper", "starting"), ("1", "starting")]
    assert sorted(changes[2:4]) == [("1", "running"), ("zookeeper", "running")]
    assert changes[4:] == [
        *(("zookeeper", state) for state in ("stopping", "stopped", "starting", "running")),
        *((name, state) for name in ("1", "zookeeper") for state in ("stopping", "stopped")),
    ]


@pytest.mark.parametrize("what", ["unannounced", "alone"])
def test_a_start_waits_until_each_broker_knows_all(tmp_path: Path, zookeeper: str, what: str) -> None:
    folder = ClusterFolder(tmp_path)

    async def steps(supervisor: Supervisor) -> None:
        for name in ("1", "2"):
            assert "it knows all" in folder.log_path(name).read_text()
        folder.log_path("2").write_text("")
        await supervisor.act("restart", "1")
        assert "it knows all" in folder.log_path("2").read_text()

    run(folder, zookeeper, steps, brokers=2, options={f"fake.{what}": "3"})


def test_a_broker_that_never_hears_of_another(tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_SECONDS", 0.0)
    with pytest.raises(ClusterError, match=r"^broker 1 did not list brokers 2 within 0 s$"):
        run(ClusterFolder(tmp_path), zookeeper, nothing, brokers=2, options={"fake.alone": "1000000"})


def test_actions_that_are_refused(tmp_path: Path, zookeeper: str) -> None:
    folder = ClusterFolder(tmp_path)

    async def steps(supervisor: Supervisor) -> None:
        for action, name, text in (
            ("kill", "7", "the cluster has no member 7; its members are 1"),
            ("kill", None, "kill requires the id of a member"),
            ("paint", "1", "unknown action paint"),
            ("resume", "1", "broker 1 is running"),
        ):
            with pytest.raises(ClusterError, match=rf"^{text}$"):
                await supervisor.act(action, name)
        await supervisor.act("stop", "1")
        for action in ("stop", "kill", "pause"):
            with pytest.raises(ClusterError, match=r"^broker 1 is stopped$"):
                await supervisor.act(action, "1")
        await supervisor.act("stop", None)
        with pytest.raises(ClusterError, match=r"^the cluster is stopping$"):
            await supervisor.act("restart", "1")

    run(folder, zookeeper, steps, brokers=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (ClusterSettings(brokers=0), "brokers=0: expected 1 to 100"),
        (ClusterSettings(brokers=BROKERS_MAX + 1), "brokers=101: expected 1 to 100"),
        (ClusterSettings(zookeeper="nowhere"), "zookeeper='nowhere': expected host:port, got 'nowhere'"),
        (ClusterSettings(options={"broker.id": "1"}), "broker.id='1': must not be given, because the cluster sets it"),
    ],
    ids=["none", "too-many", "zookeeper", "option"],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: ClusterSettings, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{text}"):
        Supervisor(ClusterFolder(tmp_path), settings)


def test_a_zookeeper_where_nothing_listens(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no server is listening at this address"):
        run(ClusterFolder(tmp_path), "127.0.0.1:1,127.0.0.1:2/chroot", nothing)


def test_members_that_were_left_are_ended_and_others_are_not(tmp_path: Path) -> None:
    """A record names two members with live processes: one correctly, the other with the pid of an unrelated process."""
    folder = ClusterFolder(tmp_path)
    assert end_left_members(folder) is None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as left:
        process = identify(left.pid)
        own = identify(os.getpid())
        assert process is not None
        assert own is not None
        members = (
            MemberRecord("1", "127.0.0.1:20001", MemberState.PAUSED, process),
            MemberRecord("2", "127.0.0.1:20002", MemberState.RUNNING, ProcessIdentity(own.pid, "before")),
            MemberRecord("3", "127.0.0.1:20003", MemberState.KILLED, None, -9),
        )
        folder.write(ClusterRecord(members, None, "z:1"))
        after = end_left_members(folder)
        assert left.wait() == -signal.SIGKILL
    assert after == folder.read() == end_left_members(folder)
    assert is_running(own)
    assert states(folder) == ["ended", "ended", "killed"]


def test_a_record_that_cannot_be_written_stops_nothing(
    tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = ClusterFolder(tmp_path)

    async def steps(supervisor: Supervisor) -> None:
        def fail(self: ClusterFolder, record: ClusterRecord) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(ClusterFolder, "write", fail)
            await supervisor.act("kill", "1")
        assert "cluster.json cannot be written" in caplog.text
        await supervisor.act("restart", "1")
        assert states(folder) == ["running"]

    run(folder, zookeeper, steps, brokers=1)
