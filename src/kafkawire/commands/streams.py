"""Standard output and standard error of every command: output that cannot be written ends all of them alike, and errors
are lines that a terminal can show.

Nothing here needs more than the standard library, as `main.py` asks.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = ["PIPE_CLOSED", "OutputError", "printable", "say", "with_checked_output"]

#: The exit status of a program that SIGPIPE ended, as shells count: nobody reads on, as behind `head`.
PIPE_CLOSED: Final = 141

#: Characters of one line on standard error: a path has up to 4,096.
_LINE_CHARACTERS_MAX: Final = 5_000


class OutputError(Exception):
    """Standard output cannot be written.

    It is no OSError: that would be said of a file that is read, and Typer and rich end a program in their own ways.

    Attributes:
        is_pipe_closed: whether nobody reads on.
    """

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason))
        self.is_pipe_closed = isinstance(reason, BrokenPipeError)


class _Output(io.RawIOBase):
    """Standard output; `raw` is None if it is closed, and once nothing more is to be written."""

    def __init__(self, raw: io.RawIOBase | None) -> None:
        self._raw = raw
        self.is_dropped = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw is not None and self._raw.isatty()

    def fileno(self) -> int:
        return super().fileno() if self._raw is None else self._raw.fileno()

    def write(self, data: Any) -> int | None:
        if self.is_dropped:
            return len(data)
        if self._raw is None:
            raise OutputError("standard output is closed")
        try:
            return self._raw.write(data)
        except OSError as error:
            raise OutputError(error) from None


def with_checked_output(program: str, run: Callable[[], int], *, is_service: bool = False) -> int:
    """Run a command, and return its exit status: 1 or `PIPE_CLOSED` if what it prints cannot be written.

    Args:
        program: in front of what is told on standard error.
        run: the command.
        is_service: whether it works on if standard output is closed.
    """
    before = sys.stdout
    output = _checked(before, is_service)
    try:
        try:
            return run()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OutputError as error:
        if error.is_pipe_closed:
            return PIPE_CLOSED
        say(program, f"cannot write: {error}")
        return 1
    finally:
        if output is not None:
            output.is_dropped = True  # what is left in a buffer is written once more when that is given up
            sys.stdout = before


def _checked(stdout: Any, is_service: bool) -> _Output | None:
    """Put an `_Output` in the place of standard output; None for what is no stream of the process, as in a test."""
    if stdout is None:
        if is_service:
            return None
        output = _Output(None)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(output), "utf-8", "replace")
        return output
    buffer = getattr(stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(stdout, io.TextIOWrapper) or not isinstance(raw, io.FileIO):
        return None
    output = _Output(raw)
    binary: Any = output if raw is buffer else io.BufferedWriter(output)  # `python -u` has no buffer
    sys.stdout = io.TextIOWrapper(
        binary,
        stdout.encoding,
        "replace",  # a terminal without UTF-8 gets a mark in the place of a character
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )
    return output


def say(program: str, text: object) -> None:
    """Write a line about what went wrong to standard error, if that is open; it shows no control codes.

    Args:
        program: what the user called.
        text: of the line; of a very long one, the beginning is written.
    """
    if sys.stderr is None:
        return
    line = printable(f"{program}: {text}".replace("\n", " "))
    print(line if len(line) <= _LINE_CHARACTERS_MAX else f"{line[:_LINE_CHARACTERS_MAX]}…", file=sys.stderr)


def printable(text: str) -> str:
    """Return text in one line, without what could move a terminal's cursor."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )
