"""`kafkawire broker` runs until it is told to stop, and says what is wrong with its arguments.

Method: the command in a process of its own, with a time limit.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "kafkawire.commands.main", "broker"]
TIMEOUT_SECONDS = 60

SHOW_MODULES = "import sys; from kafkawire.commands.main import main; main(); print(*sys.modules)"
#: What a broker does without: packages that make help and read schemas, or that only some topics need.
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


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--listen", "nowhere"], 2, "--listen='nowhere': the port is missing"),
        (["--listen", "localhost:99999"], 2, "port 99999 is outside 0 to 65535"),
        (["--listen", "host.invalid:0"], 1, "kafkawire broker: "),
        (["--option", "num.partitions"], 2, "'num.partitions' is not NAME=VALUE"),
        (["--option", "num.partition=2"], 2, "did you mean num.partitions"),
        (["--opt", "num.partitions=2"], 2, "unrecognized arguments: --opt"),
    ],
)
def test_bad_arguments(tmp_path, arguments, status, text):
    command = [*COMMAND, "--data", str(tmp_path), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert result.returncode == status
    assert text in result.stderr
    assert result.stderr.count("\n") == 1
