"""Ports for servers that are told their number: nodes of Kafka, which name one another, and brokers that come back.

The kernel takes ports for outgoing connections, and for servers that ask for any, from one range
(`net.ipv4.ip_local_port_range`). A port that was found free there may be taken before its server listens, or while it
is down between two starts; whoever asks for the server then talks to somebody else. So these are below that range, and
a lock keeps each for the process that asked, until it ends.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import TextIO

__all__ = ["free_port"]

#: Below the kernel's range, which begins at 32,768, and above what servers have by default.
PORTS = range(20_000, 32_000)

_locks: list[TextIO] = []


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens, and which no other call returns while this process lives.

    Raises:
        RuntimeError: each is taken.
    """
    folder = Path(tempfile.gettempdir()) / f"kafkawire-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.sample(PORTS, len(PORTS)):
        lock = (folder / str(port)).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return port
    raise RuntimeError(f"no port of {PORTS.start} to {PORTS.stop - 1} is free")
