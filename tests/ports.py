"""Ports for servers that need a known number: Kafka nodes, which name one another, and brokers that restart.

The kernel takes ports for outgoing connections, and for servers without a fixed port, from one range
(`net.ipv4.ip_local_port_range`). A port that was found free there may be taken before its server listens, or while it
is down between two starts; a client of the server then talks to another program. So these ports are below that range,
and a lock reserves each for the requesting process until it ends.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["await_port", "free_port"]

#: Below the kernel's range, which begins at 32,768, and above the default ports of servers.
PORTS = range(20_000, 32_000)

#: A server answers after 0.2 seconds (the reference broker) or 4 (Apache Kafka) on two idle cores, and later on a
#: loaded machine. The limit is below that of a test, so that the log is shown.
START_TIMEOUT_SECONDS = 60

#: The pause between two attempts.
_PAUSE_SECONDS = 0.02

#: Descriptors, not file objects: they are never closed, and Python would warn about file objects at exit.
_locks: list[int] = []


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens, and which no other call returns while this process lives.

    Raises:
        RuntimeError: every port is taken.
    """
    folder = Path(tempfile.gettempdir()) / f"kafkawire-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.sample(PORTS, len(PORTS)):
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        _locks.append(lock)
        return port
    raise RuntimeError(f"no port of {PORTS.start} to {PORTS.stop - 1} is free")


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a process accepts connections.

    Args:
        port: its port on 127.0.0.1.
        process: the process, just started.
        log: the file with its output.

    Raises:
        RuntimeError: it has ended, or does not listen in time; the message has the end of its log.
    """
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
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
