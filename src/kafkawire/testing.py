"""A reference broker inside the test process, and clusters of brokers in separate processes.

    with Broker(num_partitions=2) as broker:
        host, port = broker.bootstrap.split(":")

The broker's files are in Kafka's own formats, on disk or, with `ephemeral=True`, in memory. `kill` and `start` show how
a client copes with a crash. docs/guide/testing.md shows a broker with TLS and logins. `Cluster` starts several brokers
and a ZooKeeper server; import `kafka_cluster` in conftest.py to use a cluster as a fixture.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack
from uuid import uuid4

from kafkawire.reference_broker.config.keywords import BrokerKeywords
from kafkawire.reference_broker.requests.api_handlers import ApiHandler
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.client.method_hints import BROKER, Hinting
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import Closed, ConfigurationError, LocalProtocolError
from kafkawire.sdk.transport import fork

if TYPE_CHECKING:
    from kafkawire.local_cluster.cluster import Cluster
    from kafkawire.local_cluster.cluster_folder import ClusterError
    from kafkawire.local_cluster.pytest_fixture import kafka_cluster

__all__ = ["ApiHandler", "Broker", "BrokerKeywords", "Call", "Cluster", "ClusterError", "kafka_cluster"]

#: Names that are loaded on first use, since few tests need a cluster, and the fixture needs pytest.
_LAZY = {
    "Cluster": "kafkawire.local_cluster.cluster",
    "ClusterError": "kafkawire.local_cluster.cluster_folder",
    "kafka_cluster": "kafkawire.local_cluster.pytest_fixture",
}


def __getattr__(name: str) -> object:
    """Load a name on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


class Broker(Hinting, hints=BROKER):
    """Run a broker in a background thread of this process.

    Args:
        data_dir: the folder for the broker's files, created if it does not exist; None for a temporary folder, which
            `start` creates, and which is removed by `close` or at the end of the program.
        ephemeral: whether to keep everything in memory instead, with at most `memory_disk_bytes`; the data survives
            `stop` and `kill` as files would.
        host: the address to listen on.
        port: the port to listen on; 0 for a free one.
        handlers: handlers of your own APIs, called in the broker's thread, which they must not block.
        wall_ms: returns the broker's time, in ms since the epoch, for timestamps, retention and commits. It may jump,
            so a day can pass in a second; timeouts and sessions are not affected.
        options: see `BrokerKeywords` and docs/options.md; the dotted names from Kafka's documentation also work.

    Raises:
        ConfigurationError: an argument is invalid, an option is unknown or out of range, or an ephemeral broker has a
            folder.
        TypeError: `handlers` contains other objects.
        LocalProtocolError: handlers conflict with each other, or with those of the broker.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        ephemeral: bool = False,
        handlers: Iterable[ApiHandler] = (),
        wall_ms: Callable[[], int] = now_ms,
        **options: Unpack[BrokerKeywords],
    ) -> None:
        if ephemeral and data_dir is not None:
            raise ConfigurationError("data_dir", str(data_dir), "an ephemeral broker has no files")
        if data_dir is not None and (not isinstance(data_dir, str | os.PathLike) or data_dir == ""):
            raise ConfigurationError("data_dir", data_dir, "expected a folder path")
        is_temporary = data_dir is None and not ephemeral
        self._temporary = Path(tempfile.gettempdir(), f"kafkawire-{uuid4().hex}") if is_temporary else None
        self._data_dir = self._temporary if data_dir is None else Path(data_dir)
        self._broker = BackgroundBroker(self._data_dir, host, port, handlers=handlers, wall_ms=wall_ms, **options)
        self._process = fork.generation()

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__} at {self.bootstrap}>"
        except Closed:
            return f"<{type(self).__name__}, not running>"

    @property
    def data_dir(self) -> Path:
        """The folder of the broker's files.

        Raises:
            LocalProtocolError: the broker is ephemeral and has no folder.
        """
        if self._data_dir is None:
            raise LocalProtocolError("an ephemeral broker has no files")
        return self._data_dir

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect, as `host:port`.

        Raises:
            Closed: the broker is not running.
        """
        return self._broker.bootstrap

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses to which clients connect, as `host:port`, keyed by listener name (option `listeners`).

        Raises:
            Closed: the broker is not running.
        """
        return {name: str(address) for name, address in self._broker.addresses.items()}

    def start(self) -> None:
        """Start, and wait until clients can connect; a restarted broker listens on the same port.

        Raises:
            ConfigurationError: the data directory belongs to another broker.
            LocalProtocolError: the broker is already running.
            OSError: the directory cannot be written, or the port is in use.
        """
        if self._temporary is not None and not self._temporary.exists():
            self._temporary.mkdir(mode=0o700, exist_ok=True)  # another thread may also start it
            atexit.register(self._end)
        self._broker.start()

    def stop(self) -> None:
        """Shut down cleanly; the data is kept until `close` or the end of the `with` block."""
        self._broker.stop()

    def kill(self) -> None:
        """Stop as in a crash; a later `start` recovers the logs."""
        self._broker.kill()

    def close(self) -> None:
        """Stop, and remove the data directory if it is temporary; in a forked child, leave both to the parent."""
        self._broker.stop()
        self._remove_temporary()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self) -> None:
        """Clean up at the end of the program."""
        self._broker.kill()
        self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            atexit.unregister(self._end)
            if self._process == fork.generation():
                shutil.rmtree(self._temporary, ignore_errors=True)
