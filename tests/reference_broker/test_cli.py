"""`kafkawire broker` runs until it is told to stop, and says what is wrong with its arguments.

Method: the command in a process of its own, with a time limit.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from kafkawire.cli import main; main()", "broker"]
TIMEOUT_SECONDS = 60


def test_runs_until_it_is_stopped(tmp_path):
    command = [*COMMAND, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--option", "num.partitions=2"]
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
        finally:
            process.kill()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--listen", "nowhere"], "is not HOST:PORT"),
        (["--option", "num.partitions"], "is not NAME=VALUE"),
        (["--option", "num.partition=2"], "did you mean num.partitions"),
    ],
)
def test_bad_arguments(tmp_path, arguments, text):
    command = [*COMMAND, "--data", str(tmp_path), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert result.returncode
    assert text in " ".join(result.stderr.split())
