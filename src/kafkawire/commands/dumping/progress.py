"""How far a long file has been read, on the last line of a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TextIO

__all__ = ["Progress"]

#: So many bytes between two lines; they take a second at most.
_STEP_BYTES: Final = 64 * 1024 * 1024


class Progress:
    """Writes to a terminal how far a file has been read; nothing for short files, nor to anything else.

    Args:
        stream: standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()
        self._is_open = False

    def of(self, name: str, size: int) -> Callable[[int], None]:
        """Return what is told the position in a file.

        Args:
            name: of the file.
            size: in bytes.
        """
        next_at = _STEP_BYTES if self._is_shown else size + 1

        def read(position: int) -> None:
            nonlocal next_at
            if position >= next_at:
                next_at = position + _STEP_BYTES
                self._is_open = True
                self._stream.write(f"\r\x1b[K{name}: {position * 100 // size} % of {size:,} bytes")
                self._stream.flush()

        return read

    def end(self) -> None:
        """Remove the line."""
        if self._is_open:
            self._is_open = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()
