"""Clusters of stand-ins: brokers that merely listen, and a socket in place of ZooKeeper."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["FAKE_BROKER", "FakeZooKeeper", "listening_address"]

#: The command that runs a stand-in, before `--config FILE`.
FAKE_BROKER: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_broker.py")))


class FakeZooKeeper:
    """A stand-in for ZooKeeper's program; see `ZooKeeperProgram`."""

    def command(self, config: str) -> list[str]:
        """Return the command of a process that listens on the port in the properties."""
        lines = Path(config).read_text("utf-8").splitlines()
        port = next(line.partition("=")[2] for line in lines if line.startswith("clientPort="))
        Path(config).write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\n")
        return [*FAKE_BROKER, "--config", config]


@contextmanager
def listening_address() -> Iterator[str]:
    """Listen on a free port, and provide its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
