"""Identify the process with a stored pid. A pid may be reused once its process has ended, but the start time differs.

A process is signalled only if it is still the same one. On Linux, nothing can happen between the check and the
signal; elsewhere, the pid would have to be reused within microseconds.

Source: proc_pid_stat(5), pidfd_open(2).
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessIdentity", "identify", "is_running", "send_signal"]

_PROC = Path("/proc")

#: The index, among the fields after the program's name, of the start time in `stat`, in clock ticks since boot.
_START_FIELD = 19


class ProcessIdentity(NamedTuple):
    """A process, distinct from all others on this machine.

    Attributes:
        pid: its number.
        started: its start time, in a form that only this module interprets.
    """

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process that has a pid now; None if there is none, or if it has ended."""
    if pid <= 0:
        return None
    started = _started(pid) if (_PROC / "self" / "stat").exists() else _started_by_ps(pid)
    return ProcessIdentity(pid, started) if started else None


def is_running(process: ProcessIdentity) -> bool:
    """Return whether a process is still running."""
    return identify(process.pid) == process


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to a process; return whether the process still existed.

    Raises:
        PermissionError: the process belongs to another user.
    """
    try:
        if not hasattr(os, "pidfd_open"):
            if not is_running(process):
                return False
            os.kill(process.pid, number)
            return True
        handle = os.pidfd_open(process.pid)
        try:
            if not is_running(process):
                return False
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except ProcessLookupError:
        return False
    return True


def _started(pid: int) -> str:
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # the program's name may contain spaces and brackets
    if fields[0] in "ZX":  # it has ended, but its parent has not fetched its exit status
        return ""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"{boot} {fields[_START_FIELD]}"


def _started_by_ps(pid: int) -> str:
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    state, _, started = told.partition(" ")
    return "" if state.startswith("Z") else started.strip()
