"""A port is reserved for one process, and a failed wait for a server shows the reason."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ports as module
from tests.ports import PORTS, await_port, free_port


def test_ports_are_outside_of_what_the_kernel_gives_away() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert PORTS.stop <= lowest
    assert free_port() in PORTS


def test_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    start = free_port()
    monkeypatch.setattr(module, "PORTS", range(start, start + 1))
    with pytest.raises(RuntimeError, match=f"no port of {start} to {start} is free"):
        free_port()
    program = f"from tests import ports as it; it.PORTS = range({start}, {start + 1}); it.free_port()"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "RuntimeError: no port of" in other.stderr


def test_port_on_which_somebody_listens_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(module, "PORTS", range(port, port + 1))
        with pytest.raises(RuntimeError, match="is free"):
            free_port()
    assert free_port() == port


def test_what_does_not_come_shows_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", "print('no such disk')"], stdout=output)
        with pytest.raises(RuntimeError, match=r"nothing listens on port .*\nno such disk"):
            await_port(free_port(), process, log)
    process.wait()
