"""The share of a long file that has been read is shown only on a terminal.

Method: write to a stream that claims to be a terminal, and to one that does not.
"""

from __future__ import annotations

import io

import pytest

from kafkawire.commands.inspection.dumping.progress import Progress


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.shown = ""

    def flush(self) -> None:
        self.shown = self.getvalue()

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress(is_terminal: bool) -> None:
    stream = Stream(is_terminal)
    progress = Progress(stream)
    read = progress.of("0.log", 1 << 30)
    for position in range(0, 1 << 30, 1 << 20):
        read(position)
        assert stream.shown == stream.getvalue()
    progress.end()
    assert stream.shown == stream.getvalue()
    progress.end()
    lines = stream.getvalue().split("\r\x1b[K")
    assert len(lines) == (17 if is_terminal else 1)
    if is_terminal:
        assert lines[8] == "0.log: 50 % of 1,073,741,824 bytes"
        assert lines[-1] == ""


def test_short_files_show_nothing() -> None:
    stream = Stream(True)
    progress = Progress(stream)
    read = progress.of("0.log", 1000)
    read(999)
    progress.end()
    assert stream.getvalue() == ""


def test_a_file_that_grew_since_it_was_looked_at() -> None:
    stream = Stream(True)
    Progress(stream).of("0.log", 0)(1 << 30)
    assert stream.getvalue() == "\r\x1b[K0.log: 100 % of 0 bytes"


def test_a_closed_standard_error() -> None:
    progress = Progress(None)
    progress.of("0.log", 1 << 30)(1 << 29)
    progress.end()
