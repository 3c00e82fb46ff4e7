"""Ports on loopback that stay reserved for a cluster, even while one of its members is down.

The kernel picks ports for outgoing connections, and for servers without a fixed port, from one range
(`net.ipv4.ip_local_port_range`). A free port in that range may be taken before its server listens, or while the server
is restarting, and its clients would then talk to another program. Therefore these ports are below that range, and a
locked file reserves each port among the programs that use this module.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

from kafkawire.local_cluster.cluster_folder import ClusterError

__all__ = ["PORTS", "PortReservation", "reserve_free_port", "reserve_port"]

#: The ports are below the kernel's range, which begins at 32,768, and above the default ports of servers.
PORTS: Final = range(20_000, 32_000)

_HOST = "127.0.0.1"


class PortReservation:
    """A port that no other user of this module can reserve; created by the module's functions.

    Args:
        port: the port.
        lock: the descriptor of the locked file, owned by this object.
    """

    def __init__(self, port: int, lock: int) -> None:
        self.port: Final = port
        self._lock: int | None = lock

    def close(self) -> None:
        """Release the port; may be called more than once."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def reserve_port(port: int) -> PortReservation:
    """Reserve one port.

    Raises:
        ClusterError: another program is listening on the port, or has reserved it.
        OSError: the locks cannot be written.
    """
    reservation = _try_to_reserve(port)
    if reservation is None:
        raise ClusterError(f"port {port} on {_HOST} is used by another program")
    return reservation


def reserve_free_port() -> PortReservation:
    """Reserve a port on which nothing listens.

    Raises:
        ClusterError: no port is free.
        OSError: the locks cannot be written.
    """
    for port in random.sample(PORTS, len(PORTS)):
        reservation = _try_to_reserve(port)
        if reservation is not None:
            return reservation
    raise ClusterError(f"no port between {PORTS.start} and {PORTS.stop - 1} is free")


def _try_to_reserve(port: int) -> PortReservation | None:
    folder = Path(tempfile.gettempdir()) / f"kafkawire-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((_HOST, port))
    except OSError:
        os.close(lock)
        return None
    return PortReservation(port, lock)
