"""Commands act on another process's cluster, or, if its supervisor was killed, correct the record or refuse.

Method: run a supervisor in its own process, with stand-ins for brokers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.local_cluster import remote_control as module
from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder
from kafkawire.local_cluster.process_identity import is_running
from kafkawire.local_cluster.remote_control import act_on, current_record
from tests.local_cluster.fake_members import FAKE_BROKER

#: Run a cluster until `stop`, and report when it is up.
SUPERVISOR = """
import asyncio, sys
from kafkawire.local_cluster.cluster_folder import ClusterFolder
from kafkawire.local_cluster.supervisor import ClusterSettings, Supervisor

async def run():
    settings = ClusterSettings(2, sys.argv[2], {}, tuple(sys.argv[3:]))
    supervisor = Supervisor(ClusterFolder(sys.argv[1]), settings)
    await supervisor.start()
    print("up", flush=True)
    await supervisor.stopped.wait()
    await supervisor.stop()

asyncio.run(run())
"""


@pytest.fixture
def supervisor(tmp_path: Path, zookeeper: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a two-broker cluster in the test's folder."""
    command = [sys.executable, "-c", SUPERVISOR, str(tmp_path), zookeeper, *FAKE_BROKER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()
    current_record(ClusterFolder(tmp_path))


def states(folder: ClusterFolder) -> list[str]:
    record, _ = current_record(folder)
    return [member.state.value for member in record.members]


def test_actions_from_another_process(tmp_path: Path, supervisor: subprocess.Popen[bytes]) -> None:
    folder = ClusterFolder(tmp_path)
    act_on(folder, "kill", "1")
    act_on(folder, "pause", "2")
    assert states(folder) == ["killed", "paused"]
    with pytest.raises(ClusterError, match=r"^broker 1 is killed$"):
        act_on(folder, "kill", "1")
    act_on(folder, "restart", "1")
    act_on(folder, "resume", "2")
    _, runs = current_record(folder)
    assert runs
    assert states(folder) == ["running", "running"]
    act_on(folder, "stop", None)
    assert supervisor.wait() == 0
    assert states(folder) == ["stopped", "stopped"]
    with pytest.raises(ClusterError, match=r"^no cluster is running in "):
        act_on(folder, "kill", "1")


def test_a_killed_supervisor_leaves_no_member_behind(tmp_path: Path, supervisor: subprocess.Popen[bytes]) -> None:
    folder = ClusterFolder(tmp_path)
    act_on(folder, "pause", "2")
    before, _ = current_record(folder)
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    after, runs = current_record(folder)
    assert not runs
    assert states(folder) == ["ended", "ended"]
    assert [each.process for each in after.members] == [None, None]
    assert not any(each.process is not None and is_running(each.process) for each in before.members)
    assert folder.read() == after


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_folder_without_a_cluster(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClusterError, match=r"^there is no cluster in "):
        current_record(ClusterFolder(tmp_path / name))
    with pytest.raises(ClusterError, match=r"^there is no cluster in "):
        act_on(ClusterFolder(tmp_path / name), "kill", "1")


def test_a_supervisor_that_takes_no_requests(
    tmp_path: Path, supervisor: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.0)
    folder = ClusterFolder(tmp_path)
    folder.control_path.unlink()
    with pytest.raises(ClusterError, match=r"does not accept requests$"):
        act_on(folder, "kill", "1")
