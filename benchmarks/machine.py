"""Describe the machine and packages of a benchmark run, without which the numbers are meaningless."""

from __future__ import annotations

import mmap
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

__all__ = ["description", "environment", "touch_memory"]

#: Packages that affect the numbers; those that are not installed are skipped.
_PACKAGES = (
    "kafkawire",
    "construct",
    "kio",
    "kafka-python",
    "aiokafka",
    "confluent-kafka",
    "pyarrow",
    "crc32c",
    "cramjam",
    "lz4",
    "python-snappy",
    "zstandard",
)


def description(command: str, more: Mapping[str, str] | None = None) -> str:
    """Return the date, machine, versions and load as a Markdown table.

    Args:
        command: the command line of the run.
        more: rows specific to this run.
    """
    rows = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": f"`{command}`",
        "revision": _revision(),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "system": f"{_system()}, {platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}",
        "packages": ", ".join(f"{name} {version}" for name, version in _versions().items()),
        "load when it began": ", ".join(f"{load:.1f}" for load in os.getloadavg()) + " (1, 5, 15 minutes)",
    }
    rows |= more or {}
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def environment() -> dict[str, str]:
    """Return this process's environment, changed to keep compiled modules, for a program whose startup is measured."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def touch_memory(size_bytes: int) -> None:
    """Use memory and free it, so the host has already provided it when it is used next.

    The host provides a virtual machine's page on first use, and reclaims pages that have been free for a while. A
    broker whose records use such pages would pay for that with 2 to 6 s of CPU time per GB. At most half of the free
    memory is used.
    """
    free_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, min(size_bytes, free_bytes // 2), flags).close()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    cpu = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    model = cpu.get("model name", platform.machine())
    numbers = [f"{name} {cpu[key]}" for name, key in (("family", "cpu family"), ("model", "model")) if key in cpu]
    return f"{model} ({', '.join(numbers)})" if numbers else model


def _revision() -> str:
    """Return the measured commit, and the number of files that differ from it."""
    try:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", "sdk", "src", "benchmarks"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "not known"
    count = len(changed.stdout.splitlines())
    return commit.stdout.strip() + (f" with {count} files changed" if count else "")


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return sys.platform


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
