"""Standard output and standard error of every command: a failed write ends every command the same way, and error lines
are safe for a terminal.

This module needs only the standard library, as `main.py` requires.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["PIPE_CLOSED", "OutputError", "announce", "printable", "say", "with_checked_output"]

#: The exit status of a program ended by SIGPIPE, as in shells; this happens when a reader such as `head` is gone.
PIPE_CLOSED: Final = 141

#: Maximum number of characters of a line on standard error; a path alone can have 4,096.
_LINE_CHARACTERS_MAX: Final = 5_000


class OutputError(Exception):
    """Standard output cannot be written.

    This is not an OSError, because an OSError means an unreadable file, and Typer and rich handle it in their own ways.

    Attributes:
        is_pipe_closed: whether the reader is gone.
    """

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason))
        self.is_pipe_closed = isinstance(reason, BrokenPipeError)


class _Output(io.RawIOBase):
    """Standard output; `raw` is None if it is closed, or after the last write."""

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
    """Run a command, and return its exit status: 1 or `PIPE_CLOSED` if its output cannot be written.

    Args:
        program: the prefix of lines on standard error.
        run: the command.
        is_service: whether the command keeps running if standard output is closed.
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
            output.is_dropped = True  # a discarded buffer would try to write the rest of its data again
            sys.stdout = before
        _drop_unwritten_errors()


def _drop_unwritten_errors() -> None:
    """Give up lines on standard error that nobody reads; otherwise, Python would end with its own status, 120."""
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):  # its reader is gone, or it is closed
            sys.stderr = None


def _checked(stdout: Any, is_service: bool) -> _Output | None:
    """Replace standard output with an `_Output`; return None if it is not a stream of the process, as in a test."""
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
        "replace",  # a terminal without UTF-8 gets a replacement character
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )
    return output


def announce(line: str, log: Logger) -> None:
    """Write a service's line to standard output; log a warning if that is full or has no reader.

    The line is written immediately and not with `print`; otherwise, the interpreter would try again at exit, and fail.

    Args:
        line: the line, without its end.
        log: receives the warning.
    """
    if sys.stdout is not None:
        try:
            os.write(sys.stdout.fileno(), f"{line}\n".encode(sys.stdout.encoding, "replace"))
        except OSError as error:
            log.warning("cannot write to standard output: %s", error)


def say(program: str, text: object) -> None:
    """Write an error line without control codes to standard error, if it is open.

    Args:
        program: the program's name in the user's command line.
        text: the text of the line, which is shortened if it is very long.
    """
    if sys.stderr is None:
        return
    line = printable(f"{program}: {text}".replace("\n", " "))
    print(line if len(line) <= _LINE_CHARACTERS_MAX else f"{line[:_LINE_CHARACTERS_MAX]}…", file=sys.stderr)


def printable(text: str) -> str:
    """Return text on one line, without characters that can move a terminal's cursor."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )
