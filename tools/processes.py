"""Read the kernel's figures for the resources used by processes, including Spark's short-lived Python workers."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_seconds", "peak_memory_mb", "status_kb"]


def cpu_seconds(*others: int) -> float:
    """Return the CPU time of this process, others, and all their descendants, even those that have ended."""
    family = _family({os.getpid(), *others})
    # The user and system time of the process and of those of its children that have ended.
    return sum(sum(map(int, fields[11:15])) for fields in family.values()) / os.sysconf("SC_CLK_TCK")


def peak_memory_mb() -> dict[str, float]:
    """Return the peak resident size in MB of this process's descendants: for each program, the largest."""
    found: dict[str, float] = {}
    for pid in _family({os.getpid()}).keys() - {os.getpid()}:
        try:
            name, size_mb = Path(f"/proc/{pid}/comm").read_text("utf-8").strip(), status_kb(pid, "VmHWM") / 1024
        except (OSError, KeyError):  # it has ended
            continue
        found[name] = max(found.get(name, 0.0), size_mb)
    return found


def status_kb(pid: int, field: str) -> int:
    """Return a size from the status of a process, in KiB. `VmRSS` is the resident size, and `VmHWM` its peak.

    Raises:
        OSError: there is no such process.
        KeyError: the process has ended, but has not been waited for.
    """
    lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(status[field].split()[0])


def _family(pids: set[int]) -> dict[int, list[str]]:
    """Return processes and all their descendants, with the fields of each `stat` file, beginning with the state."""
    everybody: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            everybody[int(path.parent.name)] = path.read_text("utf-8", "replace").rpartition(") ")[2].split()
        except OSError:  # it has ended
            continue
    family, found = set(pids), {0}
    while found:
        found = {pid for pid, fields in everybody.items() if int(fields[1]) in family and pid not in family}
        family |= found
    return {pid: everybody[pid] for pid in family & everybody.keys()}
