"""A program starts a cluster, disturbs its members, and leaves nothing behind, however it ends.

Method: run clusters of stand-ins for brokers, with a socket in place of ZooKeeper.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkawire.local_cluster.cluster import Cluster
from kafkawire.local_cluster.cluster_folder import ClusterError, ClusterFolder
from kafkawire.local_cluster.process_identity import identify
from kafkawire.local_cluster.remote_control import act_on
from kafkawire.sdk.errors import Closed, ConfigurationError, LocalProtocolError
from tests.local_cluster.fake_members import FAKE_BROKER

pytestmark = pytest.mark.usefixtures("fake_brokers")


def test_members_are_disturbed_one_by_one(tmp_path: Path, zookeeper: str) -> None:
    with Cluster(tmp_path / "data", brokers=2, zookeeper=zookeeper) as cluster:
        assert cluster.states == {1: "running", 2: "running"}
        assert cluster.zookeeper == zookeeper
        bootstrap = cluster.bootstrap
        assert bootstrap == ",".join(cluster.addresses.values())
        assert repr(cluster) == f"<Cluster at {bootstrap}>"
        cluster.kill(1)
        cluster.pause(2)
        assert cluster.states == {1: "killed", 2: "paused"}
        cluster.restart(1)
        cluster.resume(2)
        cluster.stop(2)
        assert cluster.states == {1: "running", 2: "stopped"}
        with pytest.raises(ClusterError, match="no member 3"):
            cluster.kill(3)
        cluster.stop()
        cluster.start()
        assert cluster.bootstrap == bootstrap
    assert cluster.data_dir == tmp_path / "data"
    assert (tmp_path / "data" / "cluster.json").exists()


def test_commands_reach_it(tmp_path: Path, zookeeper: str) -> None:
    with Cluster(tmp_path, brokers=1, zookeeper=zookeeper) as cluster:
        act_on(ClusterFolder(tmp_path), "kill", "1")
        assert cluster.states == {1: "killed"}
        with pytest.raises(LocalProtocolError, match="the cluster is already running"):
            cluster.start()


def test_what_needs_a_running_cluster(tmp_path: Path, zookeeper: str) -> None:
    cluster = Cluster(tmp_path, zookeeper=zookeeper)
    assert repr(cluster) == "<Cluster, not running>"
    cluster.stop()
    for use in (
        lambda: cluster.bootstrap,
        lambda: cluster.addresses,
        lambda: cluster.zookeeper,
        lambda: cluster.states,
        lambda: cluster.kill(1),
        lambda: cluster.stop(1),
    ):
        with pytest.raises(Closed, match="the cluster is not running"):
            use()


def test_a_temporary_folder_goes_with_the_cluster(
    tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cluster = Cluster(brokers=1, zookeeper=zookeeper)
    assert list(tmp_path.iterdir()) == []
    with cluster:
        assert cluster.data_dir.parent == tmp_path
        assert cluster.data_dir.stat().st_mode & 0o777 == 0o700
    assert not cluster.data_dir.exists()


def test_a_failed_start_leaves_nothing(tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cluster = Cluster(brokers=1, zookeeper=zookeeper, options={"fake.fails": 5})
    with pytest.raises(ClusterError, match="exit status 5"):
        cluster.start()
    assert not cluster.data_dir.exists()
    with pytest.raises(Closed):
        _ = cluster.bootstrap
    with pytest.raises(ClusterError, match="exit status 5"):
        cluster.start()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"data_dir": ""}, "data_dir='': expected a folder path"),
        ({"data_dir": 5}, "data_dir=5: expected a folder path"),
        ({"brokers": 0}, "brokers=0: expected 1 to 100"),
        ({"zookeeper": "x"}, "zookeeper='x'"),
        ({"options": {"listeners": "x"}}, "listeners='x': must not be given, because the cluster sets it"),
    ],
)
def test_arguments_that_cannot_be(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{text}"):
        Cluster(**given)


#: Fork a child, and then end without closing the cluster.
PROGRAM = """
import json, os, sys
from kafkawire.local_cluster import supervisor
from kafkawire.local_cluster.cluster import Cluster
supervisor.BROKER_COMMAND = tuple(sys.argv[2:])
cluster = Cluster(brokers=1, zookeeper=sys.argv[1])
cluster.start()
if not (child := os.fork()):
    cluster.close()
    sys.exit()
os.waitpid(child, 0)
print((cluster.data_dir / "cluster.json").read_text())
"""


def test_the_end_of_the_program_leaves_nothing(tmp_path: Path, zookeeper: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, zookeeper, *FAKE_BROKER]
    ran = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, text=True, capture_output=True)
    assert ran.stderr == ""
    (broker,) = json.loads(ran.stdout)["brokers"]
    assert broker["state"] == "running"
    process = identify(broker["pid"])
    assert process is None or process.started != broker["started"]
    assert [path.name for path in tmp_path.iterdir()] == [f"kafkawire-ports-{os.getuid()}"]
