"""`kafkawire broker` runs until told to stop, and reports errors in its arguments.

Method: run the command in a separate process, with a time limit; test refusals before startup in this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire import sync
from kafkawire.commands.main import main
from kafkawire.reference_broker.server import BackgroundBroker

COMMAND = [sys.executable, "-m", "kafkawire.commands.main", "broker"]
TIMEOUT_SECONDS = 60

SHOW_MODULES = "import sys; from kafkawire.commands.main import main; main(); print(*sys.modules)"
#: Packages that a broker does not need: those for help, for schemas, or for only some topics.
NOT_LOADED = {
    "typer", "click", "rich", "pydantic", "yaml", "jsonschema", "construct", "lz4", "snappy", "zstandard", "pyarrow",
}  # fmt: skip


def test_runs_until_it_is_stopped(tmp_path):
    command = [sys.executable, "-c", SHOW_MODULES, "broker", "--listen", "127.0.0.1:0"]
    command += ["--data", str(tmp_path / "data"), "--option", "num.partitions=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = line.split(",")[0].split()[-1]
            host, _, port = address.rpartition(":")
            with socket.create_connection((host, int(port)), TIMEOUT_SECONDS):
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_SECONDS) == 0
            loaded = {name.partition(".")[0] for name in process.stdout.read().split()}
        finally:
            process.kill()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert "kafkawire" in loaded
    assert not loaded & NOT_LOADED


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a broker, and yield its process with the line that it prints once it is listening."""
    command = [*COMMAND, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def test_help_begins_with_what_is_needed_first():
    shown = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
    options = re.findall("^  (--[a-z]+)", shown.stdout, re.MULTILINE)
    assert options == ["--data", "--ephemeral", "--config", "--listen", "--option", "--check", "--json"]


def test_configuration_file(tmp_path):
    config = tmp_path / "server.properties"
    data = tmp_path / "data"
    config.write_text(
        "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0\nadvertised.listeners=OUT://example:0\n"
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT\n"
        f"log.dirs={data}\nnum.io.threads=8\nnode.id=5\nno.such.thing=10\n"
    )
    with running("--config", str(config), "--option", "node.id=6") as (process, line):
        assert re.fullmatch(rf"kafkawire broker on IN://127.0.0.1:\d+ OUT://example:\d+, files in {data}\n", line)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0
    assert log.count("\n") == 2
    assert f"{config}:5: num.io.threads: without effect: one event loop does the work of these threads\n" in log
    assert f"{config}:7: no.such.thing: without effect: unknown configuration" in log
    assert "node.id=6" in (data / "meta.properties").read_text()


def test_a_second_signal_ends_it_at_once(tmp_path):
    """A client that does not read its responses delays the effect of the first signal."""
    with running("--ephemeral", "--listen", "127.0.0.1:0") as (process, line):
        host, _, port = line.split()[3].rstrip(",").rpartition(":")
        with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as client:
            request = bytes.fromhex("0003000c 00000001 ffff 00 00 01 00 00 00")  # Metadata of all topics
            client.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                while True:
                    client.sendall((len(request).to_bytes(4, "big") + request) * 1_000)
            process.send_signal(signal.SIGTERM)
            for _ in range(TIMEOUT_SECONDS * 1_000):
                if not is_listening(host, int(port)):
                    break
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_SECONDS)
            assert process.returncode == -signal.SIGTERM


def is_listening(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), TIMEOUT_SECONDS).close()
    except OSError:
        return False
    return True


def test_arguments_count_more_than_the_file(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("listeners=IN://host.invalid:0\nlog.dirs=/nowhere/at/all\n")
    with running("--config", str(config), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")) as (_, line):
        assert line.startswith("kafkawire broker on 127.0.0.1:")


def opened_by(pid: int) -> list[str]:
    """Return the targets of a process's descriptors, except those that it closes meanwhile."""
    opened = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            opened.append(os.readlink(entry))
    return opened


def test_nothing_is_written_by_an_ephemeral_broker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with running("--ephemeral", "--listen", "127.0.0.1:0") as (process, line):
        assert line.endswith(", in memory only\n")
        with sync.Producer(line.split()[3].rstrip(",")) as producer:
            assert producer.send("t", b"x").result().offset == 0
        assert not [path for path in opened_by(process.pid) if path.startswith("/") and not path.startswith("/dev")]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def status_of(*arguments: str) -> int | str | None:
    """Run the command in this process, with arguments that it refuses, and return its status."""
    try:
        return main(["broker", *arguments])
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("num.partitions=no", ":1: num.partitions='no': expected an integer"),
        ("node.id=1\nlisteners=nonsense", ":2: listeners='nonsense': 'nonsense' is not of the form NAME://host:port"),
        (
            "listeners=SSL://:0\nssl.keystore.location=/x\nssl.keystore.type=PEM",
            ":2: ssl.keystore.location='/x': listener",
        ),
        (
            "listeners=PLAINTEXT://:0\nlistener.name.plaintext.max.connections=0",
            ":2: listener.name.plaintext.max.connections='0': expected 1",
        ),
        (
            "num.partitions=1\nlisteners=TLS://127.0.0.1:0",
            ":2: listeners='TLS://127.0.0.1:0': no security protocol is defined for the listener TLS; ",
        ),
        ("a=\\u1", "line 1: "),
    ],
)
def test_bad_configuration_file(tmp_path, capsys, text, reason):
    config = tmp_path / "server.properties"
    config.write_text(text)
    assert status_of("--ephemeral", "--config", str(config)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
    assert str(config) in line


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "--data (or --ephemeral, or log.dirs in --config)"),
        (["--ephemeral", "--data", "x"], 2, "--ephemeral and --data are mutually exclusive"),
        (["--ephemeral", "--listen", ":0", "--option", "listeners=A://:0"], 2, "are mutually exclusive"),
        (["--ephemeral", "--config", "/no/such/file"], 1, "/no/such/file"),
        (["--ephemeral", "--json"], 2, "--json requires --check"),
    ],
)
def test_arguments_that_do_not_fit(capsys, arguments, status, text):
    assert status_of(*arguments) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--listen", "nowhere"], "--listen='nowhere': the port is missing"),
        (["--listen", "localhost:99999"], "port 99999 is outside 0 to 65535"),
        (["--option", "num.partitions"], "expected NAME=VALUE, got 'num.partitions'"),
        (["--option", "num.partition=2"], "did you mean num.partitions"),
        (["--option", "port=9092"], "port='9092': no such option"),
        (["--option", "handlers=mine"], "handlers='mine': no such option"),
        (["--opt", "num.partitions=2"], "unrecognized arguments: --opt"),
    ],
)
def test_bad_arguments(tmp_path, capsys, arguments, text):
    assert status_of("--data", str(tmp_path), *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line


def test_an_address_that_does_not_exist(tmp_path):
    command = [*COMMAND, "--data", str(tmp_path), "--listen", "host.invalid:0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "kafkawire broker: " in result.stderr


#: A program that simulates a disk with no room for one of the files.
FULL_FOR_ONE = """
import errno, os, sys
name, write = sys.argv.pop(1), os.write
def write_unless(descriptor, data):
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/" + name):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return write(descriptor, data)
os.write = write_unless
from kafkawire.commands.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["meta.properties.tmp", "last-leader-epoch.tmp"])
def test_full_disk_at_the_start_is_reported_with_the_file(tmp_path, name):
    data = tmp_path / "data"
    if name.startswith("last"):
        with BackgroundBroker(data) as broker, sync.Producer(broker.bootstrap) as producer:
            producer.send("t", b"x").result()
        (data / ".kafka_cleanshutdown").unlink()
    command = [sys.executable, "-c", FULL_FOR_ONE, name, "broker", "--listen", "127.0.0.1:0", "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"kafkawire broker: [Errno 28] No space left on device: '{data / name}'\n"
    with running("--listen", "127.0.0.1:0", "--data", str(data)) as (_, line):
        assert f"files in {data}" in line


def first_line_of_log(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.parametrize("kind", ["full", "nobody reads"])
def test_it_goes_on_without_standard_output(tmp_path, kind):
    command = [*COMMAND, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    if kind == "full":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        end, output = os.pipe()
        os.close(end)
    with subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True) as process:
        os.close(output)
        try:
            assert "cannot write to standard output" in first_line_of_log(process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
