"""The service manager is told when the broker is ready and when it stops.

Method: stand in for systemd with a datagram socket, at a path and at an abstract address.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from kafkawire.reference_broker.network.service_notices import READY, STOPPING, notify

TIMEOUT_SECONDS = 60


@pytest.fixture
def manager():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(TIMEOUT_SECONDS)
        yield manager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_notices(tmp_path, monkeypatch, manager, is_abstract):
    path = f"@kafkawire-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    manager.bind("\0" + path[1:] if is_abstract else path)
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    notify(READY, "STATUS=x")
    assert manager.recv(1_000) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize("path", [None, "", "relative", "/no/such/socket", "vsock:1:2", "/" + "x" * 200])
def test_without_a_manager_nothing_happens(monkeypatch, path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if path is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", path)
    notify(READY)


def test_the_command_tells_it(tmp_path, manager):
    manager.bind(str(tmp_path / "notify"))
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
    command = [sys.executable, "-m", "kafkawire", "broker", "--ephemeral", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert manager.recv(1_000).decode() == READY
            process.send_signal(signal.SIGTERM)
            assert manager.recv(1_000).decode() == STOPPING
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()
