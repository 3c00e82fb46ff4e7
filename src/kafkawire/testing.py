"""A real broker inside the test process.

with Broker() as broker:
    client = connect(broker.bootstrap)
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkawire.reference_broker.server import BackgroundBroker

__all__ = ["Broker"]


class Broker:
    """A broker on a free port of this machine, on a thread of its own.

    Args:
        data_dir: where topics are kept; None for a temporary directory, which goes with the broker.
        host: where to listen.
        port: 0 for a free one.
        options: of the broker, in snake_case or with Kafka's dotted names.

    Raises:
        ConfigurationError: an option is unknown or out of its range.
    """

    def __init__(
        self, data_dir: str | Path | None = None, host: str = "127.0.0.1", port: int = 0, **options: object
    ) -> None:
        self._temporary = Path(tempfile.mkdtemp(prefix="kafkawire-")) if data_dir is None else None
        self.data_dir = Path(data_dir) if data_dir is not None else self._temporary or Path()
        self._broker = BackgroundBroker(self.data_dir, host, port, **options)

    @property
    def bootstrap(self) -> str:
        """What clients connect to, as `host:port`."""
        return self._broker.bootstrap

    def start(self) -> None:
        """Start, and wait until clients can connect; on the port it had before, if it ran before.

        Raises:
            OSError: the directory cannot be written, or the port was taken meanwhile.
        """
        self._broker.start()

    def stop(self) -> None:
        """Stop in order; the data stays until the end of the `with` block, or until `close`."""
        self._broker.stop()

    def kill(self) -> None:
        """Stop as a crash would; `start` then recovers what was acknowledged."""
        self._broker.kill()

    def close(self) -> None:
        """Stop, and remove the directory if it is a temporary one."""
        self._broker.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
