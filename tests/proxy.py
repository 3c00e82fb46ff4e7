"""The decoding proxy of examples/ in a separate process, for tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["DecodingProxy"]

_PROGRAM = Path(__file__).parents[1] / "examples" / "decoding_proxy.py"

#: An expected line arrives immediately or never.
_WAIT_SECONDS = 30


class DecodingProxy:
    """A proxy that runs inside a `with` block; the block's end stops it, and checks that it printed no errors.

    Args:
        broker: the address that it connects to, as `host:port`; nothing needs to listen there yet.

    Attributes:
        lines: its output so far.
        errors: its standard error, once it is stopped.
    """

    def __init__(self, broker: str) -> None:
        self.lines: list[str] = []
        self.errors = ""
        self._more = threading.Condition()
        command = [sys.executable, "-W", "error", str(_PROGRAM), "127.0.0.1:0", broker]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.wait_for(lambda line: line.startswith("listening")).split()[-1])

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"127.0.0.1:{self.port}"

    def wait_for(self, is_wanted: Callable[[str], bool]) -> str:
        """Return the first matching line as soon as it appears."""

        def found() -> str | None:
            return next(filter(is_wanted, self.lines), None)

        with self._more:
            line = self._more.wait_for(found, _WAIT_SECONDS)
            assert line, self.lines
            return line

    def about(self, words: str) -> list[str]:
        """Return the lines that contain these words."""
        with self._more:
            return [line for line in self.lines if words in line]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the proxy and return its exit status."""
        self.process.send_signal(number)
        try:
            status = self.process.wait(_WAIT_SECONDS)
        finally:
            self.process.kill()
            self._reader.join()
            assert self.process.stderr is not None
            self.errors = self.process.stderr.read()
            self.process.stderr.close()
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = self.stop() if self.process.returncode is None else self.process.returncode
        assert error is not None or (status, self.errors) == (0, "")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                with self._more:
                    self.lines.append(line.rstrip("\n"))
                    self._more.notify_all()
