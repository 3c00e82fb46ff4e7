"""`kafkawire cluster` runs a cluster until a signal or `stop`; its other commands act on the cluster or show its state.

Method: run `start` in a separate process with stand-ins for brokers, and the other commands in this process.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.commands import main
from kafkawire.commands.cluster import cluster as module
from tests.local_cluster.fake_members import FAKE_BROKER, listening_address

#: The command, with stand-ins for brokers; the command for a stand-in has four words.
PROGRAM = """
import sys
from kafkawire.local_cluster import supervisor
from kafkawire.commands.main import main
supervisor.BROKER_COMMAND = tuple(sys.argv[1:5])
sys.exit(main(sys.argv[5:]))
"""


@contextmanager
def started(
    folder: Path, zookeeper: str, *options: str, output: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `kafkawire cluster start`, and kill it if the test leaves it running."""
    arguments = ["cluster", "start", "--data", str(folder), "--zookeeper", zookeeper, *options]
    command = [sys.executable, "-c", PROGRAM, *FAKE_BROKER, *arguments]
    with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def zookeeper() -> Iterator[str]:
    """The address of a socket that accepts connections, as a ZooKeeper server would."""
    with listening_address() as address:
        yield address


def run(*arguments: str) -> int:
    return main.main(["cluster", *arguments])


def lines_until(process: subprocess.Popen[bytes], text: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        line = process.stdout.readline()
        assert line, lines
        lines.append(line.decode().rstrip())
    return lines


def test_a_cluster_from_start_to_stop(tmp_path: Path, zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    with started(tmp_path, zookeeper, "--brokers", "2", "--option", "min.insync.replicas=2") as process:
        lines = lines_until(process, "files in")
        assert "broker 2 is running" in lines
        assert lines[-2].startswith("kafkawire cluster: 2 brokers on 127.0.0.1:")
        assert lines[-1] == f"files in {tmp_path}"
        data = ("--data", str(tmp_path))
        assert [run(action, "1", *data) for action in ("pause", "resume", "kill", "restart", "kill")] == [0] * 5
        assert run("kill", "1", *data) == 1
        assert capsys.readouterr().err == "error: broker 1 is killed\n"
        assert run("status", *data) == 0
        shown = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert shown[0][:4] == ["id", "address", "pid", "state"]
        assert [(line[0], line[2]) for line in shown[1:2]] == [("1", "killed")]
        assert [(line[0], line[3]) for line in shown[2:]] == [("2", "running")]
        assert run("stop", *data) == 0
        assert process.wait() == 0
        assert lines_until(process, "broker 2 is stopped")[-1] == "broker 2 is stopped, exit status 0"
    record = json.loads((tmp_path / "cluster.json").read_text())
    assert [each["state"] for each in record["brokers"]] == ["killed", "stopped"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all(
    tmp_path: Path, zookeeper: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT works even if it is ignored at startup, as in a shell's background jobs."""
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", ignored + PROGRAM)
    with started(tmp_path, zookeeper, "--brokers", "1") as process:
        lines_until(process, "files in")
        process.send_signal(number)
        assert lines_until(process, "is stopped") == ["broker 1 is stopping", "broker 1 is stopped, exit status 0"]
        assert process.wait() == 0


def test_it_goes_on_without_a_reader_of_its_output(tmp_path: Path, zookeeper: str) -> None:
    with started(tmp_path, zookeeper, "--brokers", "1") as process:
        lines_until(process, "files in")
        assert process.stdout is not None
        process.stdout.close()
        data = ("--data", str(tmp_path))
        assert [run(action, "1", *data) for action in ("kill", "restart")] == [0, 0]
        assert run("stop", *data) == 0
        assert process.wait() == 0
    record = json.loads((tmp_path / "cluster.json").read_text())
    assert [each["state"] for each in record["brokers"]] == ["stopped"]


def test_a_table_in_a_terminal(tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    own, other = pty.openpty()
    with started(tmp_path, zookeeper, "--brokers", "1", output=other) as process:
        os.close(other)
        shown = b""
        while b"running" not in shown:
            shown += os.read(own, 1_000)
        process.send_signal(signal.SIGTERM)
        while b"stopped (0)" not in shown:
            shown += os.read(own, 1_000)
        assert process.wait() == 0
    os.close(own)
    assert b"address" in shown


def test_a_second_start_is_refused(
    tmp_path: Path, zookeeper: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkawire.local_cluster.cluster_folder.ClusterFolder.lock.__defaults__", (0.0,))
    with started(tmp_path, zookeeper, "--brokers", "1") as process:
        lines_until(process, "files in")
        assert run("start", "--data", str(tmp_path), "--zookeeper", zookeeper) == 1
        assert capsys.readouterr().err == (
            f"error: another process is running the cluster in {tmp_path}; stop it first\n"
        )
        assert process.poll() is None


@pytest.mark.parametrize("command", [("status",), ("stop",), ("kill", "1"), ("restart", "zookeeper")])
def test_a_folder_without_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert run(*command, "--data", str(tmp_path / "nowhere")) == 1
    assert capsys.readouterr().err == f"error: there is no cluster in {tmp_path / 'nowhere'}\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--option", "min.insync.replicas"), "expected NAME=VALUE, got 'min.insync.replicas'"),
        (("--option", "broker.id=1"), "broker.id='1': must not be given, because the cluster sets it for each broker"),
        (("--brokers", "0"), "brokers=0: expected 1 to 100"),
        (("--zookeeper", "z"), "zookeeper='z': expected host:port, got 'z'"),
    ],
)
def test_arguments_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], text: str
) -> None:
    assert run("start", "--data", str(tmp_path / "new"), *options) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_table_that_is_watched(tmp_path: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watching continues until it is interrupted, here after two tables."""
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    with started(tmp_path, zookeeper, "--brokers", "1") as process:
        lines_until(process, "files in")
        output = io.StringIO()
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setattr(module.asyncio, "sleep", pause)
        assert run("status", "--watch", "--data", str(tmp_path)) == main.INTERRUPTED
        monkeypatch.setattr(module.asyncio, "sleep", asyncio.sleep)
    assert pauses == [1.0, 1.0]
    assert "running" in output.getvalue()
