"""The brokers to measure: this project's, Apache Kafka, and franz-go's kfake.

Each is a separate process; time and memory are the kernel's figures for that process.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import environment
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka.apache import RELEASE, ApacheKafka
from tests.ports import free_port
from tools.processes import status_kb

__all__ = [
    "APACHE",
    "KFAKE",
    "OURS",
    "Server",
    "apache_kafka",
    "count_syncs",
    "cpu_seconds_of",
    "java_release",
    "kfake",
    "reference_broker",
]

OURS = "kafkawire"
APACHE = f"Apache Kafka {RELEASE}"
KFAKE = "kfake"

#: How Linux numbers the CPU clock of a process, like `clock_getcpuclockid`; the figures in /proc have a resolution of
#: just 10 ms.
_CLOCK_SHIFT, _CLOCK_OF_PROCESS = 3, 2

_START_TIMEOUT_SECONDS = 120
_STOP_TIMEOUT_SECONDS = 30
_METADATA_VERSION = 12


class Server(NamedTuple):
    """A running broker.

    Attributes:
        name: the name in the tables.
        pid: the process id.
        port: the port on the loopback interface.
        start_seconds: the time from the start of the process to the first Metadata response that names a broker.
        idle_mb: the resident memory at that time.
    """

    name: str
    pid: int
    port: int
    start_seconds: float
    idle_mb: float

    def cpu_seconds(self) -> float:
        """Return the total CPU time of the broker's threads so far."""
        return cpu_seconds_of(self.pid)

    def resident_mb(self) -> float:
        """Return the broker's resident memory."""
        return _resident_mb(self.pid)


def cpu_seconds_of(pid: int) -> float:
    """Return the total CPU time of a process so far."""
    return time.clock_gettime(~pid << _CLOCK_SHIFT | _CLOCK_OF_PROCESS)


def _resident_mb(pid: int) -> float:
    return status_kb(pid, "VmRSS") / 1000


def _started(name: str, pid: int, port: int, start: float, is_running: Callable[[], bool]) -> Server:
    """Wait for the first Metadata response.

    Raises:
        RuntimeError: the process has ended, or does not respond in time.
    """
    while not _has_broker(port):
        if not is_running() or time.perf_counter() - start > _START_TIMEOUT_SECONDS:
            raise RuntimeError(f"{name} did not start")
        time.sleep(0.001)
    seconds = time.perf_counter() - start
    return Server(name, pid, port, seconds, _resident_mb(pid))


def _has_broker(port: int) -> bool:
    connection = ClientConnection("benchmark")
    try:
        with FrameSocket("127.0.0.1", port) as client:
            client.send(*connection.request(MetadataRequest([]), _METADATA_VERSION).parts)
            response = connection.receive(client.receive()).message
    except OSError:
        return False
    return isinstance(response, MetadataResponse) and bool(response.brokers)


@contextlib.contextmanager
def _process(name: str, command: list[str], port: int) -> Iterator[Server]:
    start = time.perf_counter()
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, env=environment())
    try:
        yield _started(name, process.pid, port, start, lambda: process.poll() is None)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def reference_broker(name: str, folder: Path, *options: str) -> contextlib.AbstractContextManager[Server]:
    """Run this project's broker.

    Args:
        name: the name in the tables.
        folder: the folder for its files.
        options: broker options such as `event_loop=uvloop`.
    """
    port = free_port()
    command = [sys.executable, "-m", "kafkawire", "broker", "--listen", f"127.0.0.1:{port}", "--data", str(folder)]
    command += [part for option in options for part in ("--option", option)]
    return _process(name, command, port)


@contextlib.contextmanager
def apache_kafka() -> Iterator[Server]:
    """Run Apache Kafka with a heap of 1 GB, and otherwise with its defaults."""
    with ApacheKafka() as node:
        yield _started(APACHE, node.pid, node.port, node.started_at, lambda: True)


def java_release() -> str:
    """Return the Java version on which Apache Kafka runs."""
    result = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return result.stderr.partition("\n")[0]


def kfake(program: Path) -> contextlib.AbstractContextManager[Server]:
    """Run a program that takes a port, calls `kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port))`, and waits."""
    port = free_port()
    return _process(KFAKE, [str(program), str(port)], port)


def count_syncs(pid: int, work: Callable[[], int]) -> tuple[int, int] | None:
    """Return how many times a process calls fsync or fdatasync during some work, and the result of the work.

    `perf` counts the calls in the kernel, for any program. The result is None if perf is missing or not permitted.
    """
    perf = shutil.which("perf")
    if perf is None:
        return None
    events = "syscalls:sys_enter_fsync,syscalls:sys_enter_fdatasync"
    counter = subprocess.Popen(
        [perf, "stat", "-x", ",", "-e", events, "-p", str(pid)], stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.5)  # perf does not report when it has started counting
    done = work()
    counter.send_signal(2)
    _, text = counter.communicate()
    counts = [line.split(",")[0] for line in text.splitlines() if "sys_enter" in line]
    if not counts or not all(count.isdigit() for count in counts):
        return None
    return sum(map(int, counts)), done
