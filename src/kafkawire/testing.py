"""A reference broker inside the test process:

    with Broker(num_partitions=2) as broker:
        host, port = broker.bootstrap.split(":")

Its files are in Kafka's own formats, on disk; `kill` and `start` show how a client copes with a crash. It has no
idempotent producers, transactions, KIP-848 groups, TLS, SASL or retention yet; docs/roadmap.md lists what is missing.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from kafkawire.reference_broker.keywords import BrokerKeywords
from kafkawire.reference_broker.server import BackgroundBroker

__all__ = ["Broker", "BrokerKeywords"]


class Broker:
    """Run a broker in a background thread of this process.

    Args:
        data_dir: the folder of its files, created if it does not exist; None for a temporary one, removed by `close`.
        host: the address to listen on.
        port: the port to listen on; 0 for a free one.
        options: see `BrokerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        **options: Unpack[BrokerKeywords],
    ) -> None:
        self._temporary = Path(tempfile.mkdtemp(prefix="kafkawire-")) if data_dir is None else None
        self.data_dir = Path(data_dir) if data_dir is not None else self._temporary or Path()
        try:
            self._broker = BackgroundBroker(self.data_dir, host, port, **options)
        except BaseException:
            self._remove_temporary()
            raise

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to, as `host:port`.

        Raises:
            Closed: the broker is not running.
        """
        return self._broker.bootstrap

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses that clients connect to, as `host:port`, by the name of the listener (option `listeners`).

        Raises:
            Closed: the broker is not running.
        """
        return {name: str(address) for name, address in self._broker.addresses.items()}

    def start(self) -> None:
        """Start, and wait until clients can connect; a restarted broker listens on the same port.

        Raises:
            ConfigurationError: the data directory belongs to another broker.
            OSError: the directory cannot be written, or the port is in use.
        """
        self._broker.start()

    def stop(self) -> None:
        """Shut down cleanly; the data stays until `close`, or the end of the `with` block."""
        self._broker.stop()

    def kill(self) -> None:
        """Stop as in a crash; a later `start` recovers the logs."""
        self._broker.kill()

    def close(self) -> None:
        """Stop, and remove the data directory if it is temporary."""
        self._broker.stop()
        self._remove_temporary()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
