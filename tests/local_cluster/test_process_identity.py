"""A process is distinguished from a later one with the same pid, and gets no signal once it has ended.

Method: use children of this process; a live process's pid with a different start time stands in for a reused pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafkawire.local_cluster import process_identity
from kafkawire.local_cluster.process_identity import ProcessIdentity, identify, is_running, send_signal


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for input that never comes."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_process_is_the_same_until_it_ends(child: subprocess.Popen[bytes]) -> None:
    before = identity_of(child)
    assert before == identity_of(child) != identify(os.getpid())
    assert is_running(before)
    child.kill()
    child.wait()
    assert not is_running(before)
    assert identify(child.pid) is None


def test_an_ended_child_without_a_reader_of_its_status_does_not_run(child: subprocess.Popen[bytes]) -> None:
    before = identity_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(before)


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_signal_reaches_its_process(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, has_pidfd: bool
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert send_signal(identity_of(child), signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_reused_pid_gets_no_signal(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, has_pidfd: bool
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    former = identity_of(child)._replace(started="before")
    assert not send_signal(former, signal.SIGKILL)
    assert is_running(identity_of(child))


def test_an_ended_process_gets_no_signal(child: subprocess.Popen[bytes]) -> None:
    before = identity_of(child)
    child.kill()
    child.wait()
    assert not send_signal(before, signal.SIGKILL)


@pytest.mark.parametrize("pid", [0, -1, 2**30])
def test_there_is_no_such_process(pid: int) -> None:
    assert identify(pid) is None


def test_without_the_files_of_linux_ps_is_asked(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter(["S+   Mon Nov 30 01:00:00 2026\n", "Z    Mon Nov 30 01:00:00 2026\n", ""])

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == str(child.pid)
        return subprocess.CompletedProcess(command, 0, next(told), "")

    monkeypatch.setattr(process_identity, "_PROC", process_identity.Path("/nowhere"))
    monkeypatch.setattr(subprocess, "run", run)
    assert identify(child.pid) == ProcessIdentity(child.pid, "Mon Nov 30 01:00:00 2026")
    assert identify(child.pid) is None
    assert identify(child.pid) is None
