"""Clusters of stand-ins: brokers that only listen, and a socket where their ZooKeeper would be."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["FAKE_BROKER", "listening_address"]

#: What runs a stand-in, before `--config FILE`.
FAKE_BROKER: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_broker.py")))


@contextmanager
def listening_address() -> Iterator[str]:
    """Listen on a free port, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
