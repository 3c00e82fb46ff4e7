"""A port is reserved for one process, and a failed wait for a server shows why it failed."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.local_cluster.cluster_folder import ClusterError
from kafkawire.local_cluster.port_reservation import reserve_port
from tests.ports import await_port, free_port


def test_port_is_given_once() -> None:
    start = free_port()
    with pytest.raises(ClusterError, match=f"port {start} on .* is used by another program"):
        reserve_port(start)
    program = f"from kafkawire.local_cluster.port_reservation import reserve_port; reserve_port({start})"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "is used by another program" in other.stderr


def test_what_does_not_come_shows_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", "print('no such disk')"], stdout=output)
        with pytest.raises(RuntimeError, match=r"nothing listens on port .*\nno such disk"):
            await_port(free_port(), process, log)
    process.wait()
