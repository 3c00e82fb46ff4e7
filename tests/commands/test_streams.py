"""All commands end in the same way if output cannot be written, and print errors as lines that a terminal can show.

Method: run programs whose standard output is closed, full, or a pipe without a reader; print long texts and texts with
control codes; in this process, run a command whose streams belong to the test.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from kafkawire.commands.streams import PIPE_CLOSED, OutputError, announce, printable, say, with_checked_output
from tests.needs import FULL_DEVICE
from tests.thorough import sampled

#: An ApiVersions frame.
FRAME = "0000000f00120000000000070005616c696365"

COMMANDS = [
    ["--help"],
    ["--version"],
    ["dump", "--help"],
    ["broker", "--help"],
    ["codegen", "--help"],
    ["codegen", "list", "Fetch"],
    ["codegen", "show", "FetchRequest"],
    ["codegen", "explain", FRAME],
]


def run(arguments: Sequence[str], redirection: str) -> tuple[int, str]:
    """Run a command with a shell's redirection, and return its exit status and standard error."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "kafkawire", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.returncode, found.stderr


@pytest.mark.parametrize("arguments", sampled(COMMANDS, 3), ids=" ".join)
def test_nobody_reads(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "kafkawire", *arguments]
    with os.fdopen(writer, "wb") as stdout:
        found = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr) == (PIPE_CLOSED, b"")


@FULL_DEVICE.mark
@pytest.mark.parametrize("arguments", sampled(COMMANDS, 3), ids=" ".join)
def test_a_full_disk(arguments: list[str]) -> None:
    status, error = run(arguments, ">/dev/full")
    assert status == 1
    assert error.endswith(": cannot write: [Errno 28] No space left on device\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", sampled([each for each in COMMANDS if each[0] != "broker"], 3), ids=" ".join)
def test_a_closed_output(arguments: list[str]) -> None:
    status, error = run(arguments, ">&-")
    assert status == 1
    assert error.endswith(": cannot write: standard output is closed\n")
    assert error.count("\n") == 1


def test_a_closed_output_of_which_nothing_is_needed() -> None:
    status, error = run(["codegen", "show", "NoSuchMessage"], ">&-")
    assert status == 1
    assert error.startswith("error: unknown message or record format 'NoSuchMessage'")
    assert error.count("\n") == 1


def test_a_service_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)

    def serve() -> int:
        print("listening")
        return 7

    assert with_checked_output("serve", serve, is_service=True) == 7


def test_output_without_a_buffer() -> None:
    code = "from kafkawire.commands.main import main; print('before'); main(['--version']); print('after')"
    found = subprocess.run([sys.executable, "-u", "-c", code], capture_output=True, text=True, check=True)
    before, version, after = found.stdout.splitlines()
    assert (before, version.split()[0], after) == ("before", "kafkawire", "after")


def test_what_a_command_raises(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise OutputError(OSError(5, "Input/output error"))

    def fall_silent() -> int:
        raise OutputError(BrokenPipeError())

    before = sys.stdout
    assert with_checked_output("show", lambda: 3) == 3
    assert with_checked_output("show", fail) == 1
    assert with_checked_output("show", fall_silent) == PIPE_CLOSED
    assert capsys.readouterr() == ("", "show: cannot write: [Errno 5] Input/output error\n")
    assert sys.stdout is before


def test_say(capsys: pytest.CaptureFixture[str]) -> None:
    say("show", "a\nb \x1b[31m \u202e")
    say("show", "x" * 1_000_000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == r"show: a b \x1b[31m \u202e"
    assert second == f"show: {'x' * 4_994}…"


def test_a_closed_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("show", "nothing")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b €\\n", "a b €\\n"), ("\n\r\x1b", r"\n\r\x1b"), ("é\u2028\u200b\udc80", r"é\u2028\u200b\udc80")],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_an_announcement_is_written_at_once_or_logged(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("kafkawire.test")
    with open(os.dup(1), "w", encoding="ascii") as output:
        monkeypatch.setattr(sys, "stdout", output)
        announce("broker on Z\u00fcrich", log)
        assert capfd.readouterr().out == "broker on Z?rich\n"
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)
        announce("nobody reads this", log)
    assert caplog.messages == ["cannot write to standard output: [Errno 32] Broken pipe"]
    monkeypatch.setattr(sys, "stdout", None)
    announce("nobody sees this", log)
    assert len(caplog.messages) == 1
