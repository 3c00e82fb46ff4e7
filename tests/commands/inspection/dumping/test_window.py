"""A window shows any part of a file, whatever was read before, and never more than the file contains.

Method: read random parts of a file that takes several windows, read a file that is truncated meanwhile, and open paths
that are not regular files.
"""

from __future__ import annotations

import errno
import os
import random
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from kafkawire.commands.inspection.dumping.limits import WINDOW_BYTES
from kafkawire.commands.inspection.dumping.window import Window, open_file

CONTENT = random.Random(1).randbytes(3 * WINDOW_BYTES + 12345)


def test_any_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    chance = random.Random(2)
    with open_file(path) as file:
        window = Window(file)
        assert (window.end, window.is_limited) == (len(CONTENT), False)
        for _ in range(200):
            at, size = chance.randrange(len(CONTENT) + 10), chance.choice([1, 61, 5000, WINDOW_BYTES, 2 * WINDOW_BYTES])
            assert window.at(at, size) == CONTENT[at : at + size]


def test_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with open_file(path) as file:
        window = Window(file, 100)
        assert (window.end, window.is_limited) == (100, True)
        assert window.at(90, 61) == CONTENT[90:100]
        assert window.at(0, 2**60) == CONTENT[:100], "must take no more memory than the file needs"
        assert Window(file, 2**40).is_limited is False


def test_a_file_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with open_file(path) as file:
        window = Window(file)
        with path.open("r+b") as other:
            other.truncate(2 * WINDOW_BYTES)
        assert window.at(2 * WINDOW_BYTES - 10, 61) == CONTENT[2 * WINDOW_BYTES - 10 : 2 * WINDOW_BYTES]
        assert (window.end, window.is_cut) == (2 * WINDOW_BYTES, True)
        assert window.at(2 * WINDOW_BYTES + 10, 61) == b""


@pytest.mark.parametrize("place", [0, 100, WINDOW_BYTES, 2 * WINDOW_BYTES + 99])
def test_zeros_up_to_the_end(tmp_path: Path, place: int) -> None:
    content = bytearray(2 * WINDOW_BYTES + 100)
    content[place] = 1
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb", buffering=0) as file:
        window = Window(file)
        assert window.is_zero_from(place) is False
        assert window.is_zero_from(place + 1) is True
        assert window.is_zero_from(0) is False


def test_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT[:100])
    with open_file(path) as file:
        window, limited = Window(file), Window(file, 90)
        assert window.at(90, 61) == CONTENT[90:100]
        assert not window.has_grown()
        path.write_bytes(CONTENT)
        assert window.at(90, 61) == CONTENT[90:100]
        assert window.has_grown()
        assert window.at(90, 61) == CONTENT[90:151]
        assert window.end == len(CONTENT)
        assert not window.has_grown()
        assert not limited.has_grown()


class Failing(FileIO):
    """A file on a disk that fails from a given call onwards."""

    calls = 0

    def _fail(self) -> None:
        if self.calls <= 0:
            raise OSError(errno.EIO, "Input/output error")
        self.calls -= 1

    def seek(self, position: int, whence: int = 0, /) -> int:
        self._fail()
        return super().seek(position, whence)

    def readinto(self, memory: Any, /) -> int:
        self._fail()
        return super().readinto(memory) or 0


def use(file: FileIO) -> None:
    """Read a file's end, then another part of the file, then its end again."""
    window = Window(file)
    window.at(0, 61)
    window.has_grown()


@pytest.mark.parametrize("calls", range(4))
def test_a_read_error_names_the_file(tmp_path: Path, calls: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT[:100])
    with Failing(path) as file:
        file.calls = calls
        with pytest.raises(OSError, match="Input/output error: ") as raised:
            use(file)
    assert raised.value.filename == str(path)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """Opening a pipe would wait, and reading a device would never end."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(os.devnull)
    for path in (pipe, link, tmp_path):
        with pytest.raises(OSError, match="Not a regular file: ") as raised:
            open_file(path)
        assert raised.value.filename == str(path)
