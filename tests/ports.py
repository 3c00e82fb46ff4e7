"""Reserve ports for servers that need a known number, and wait for a server to listen."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from kafkawire.local_cluster.port_reservation import PortReservation, reserve_free_port

__all__ = ["await_port", "free_port"]

#: On two idle cores, a server answers after 0.2 seconds (the reference broker) or 4 (Apache Kafka), and later on a
#: loaded machine. The limit is below a test's own, so that the log is shown.
START_TIMEOUT_SECONDS = 60

#: The pause between two attempts.
_PAUSE_SECONDS = 0.02

#: Keeps the reservations alive for as long as this process runs.
_reserved: list[PortReservation] = []


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens; no other call in this process returns it.

    Raises:
        ClusterError: no port is free.
    """
    _reserved.append(reserve_free_port())
    return _reserved[-1].port


def await_port(
    port: int, process: subprocess.Popen[bytes], log: Path, timeout_seconds: float = START_TIMEOUT_SECONDS
) -> None:
    """Wait until a process accepts connections.

    Args:
        port: its port on 127.0.0.1.
        process: the process, which has just been started.
        log: the file with its output.
        timeout_seconds: the limit.

    Raises:
        RuntimeError: the process ended, or did not listen in time; the message includes the end of its log.
    """
    deadline = time.monotonic() + timeout_seconds
    while not _listens(port):
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE_SECONDS)
        if process.returncode is not None or time.monotonic() > deadline:
            raise RuntimeError(f"nothing listens on port {port}:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
