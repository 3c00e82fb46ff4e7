"""Show how much of a long file has been read, on the last line of a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TextIO

__all__ = ["Progress"]

#: Bytes between two updates; reading them takes at most a second.
_STEP_BYTES: Final = 64 * 1024 * 1024


class Progress:
    """Shows how much of a file has been read, unless the file is short or the stream is not a terminal.

    Args:
        stream: standard error; None if it is closed.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._is_open = False

    def of(self, name: str, size: int) -> Callable[[int], None]:
        """Return the function to call with the position in a file.

        Args:
            name: the name of the file.
            size: its size in bytes.
        """
        stream, next_at = self._stream, _STEP_BYTES

        def read(position: int) -> None:
            nonlocal next_at
            if position >= next_at and stream is not None:
                next_at = position + _STEP_BYTES
                self._is_open = True
                stream.write(f"\r\x1b[K{name}: {position * 100 // max(size, position)} % of {size:,} bytes")
                stream.flush()

        return read

    def end(self) -> None:
        """Clear the line."""
        if self._is_open and self._stream is not None:
            self._is_open = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()
