"""What processes take, as the kernel counts it: Spark is a JVM with Python workers, which come and go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_seconds", "memory_mb"]


def cpu_seconds(*others: int) -> float:
    """Return the CPU of this process and others, and of all their descendants, ended ones included."""
    ticks = 0
    for pid in _family({os.getpid(), *others}):
        fields = _stat(pid)
        ticks += sum(map(int, fields[11:15])) if fields else 0  # own and ended children's, user and system
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb() -> dict[str, float]:
    """Return the highest resident size that a descendant of this process has had, the largest by program, in MB."""
    found: dict[str, float] = {}
    for pid in _family({os.getpid()}) - {os.getpid()}:
        try:
            lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
        except OSError:  # it has ended
            continue
        status = dict(line.split(":", 1) for line in lines if ":" in line)
        if "VmHWM" in status:
            name = status["Name"].strip()
            found[name] = max(found.get(name, 0.0), int(status["VmHWM"].split()[0]) / 1024)
    return found


def _family(pids: set[int]) -> set[int]:
    """Return processes with all their descendants."""
    parents = {pid: int(fields[1]) for pid in _pids() if (fields := _stat(pid))}
    family, found = set(pids), {0}
    while found:
        found = {pid for pid, parent in parents.items() if parent in family and pid not in family}
        family |= found
    return family


def _pids() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        yield int(path.name)


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(") ")[2].split()
    except OSError:
        return []
