"""Files are appended to whole or not at all, and slices outlive them.

Method: real files in a temporary folder; a full disk is a file size limit of the process.
"""

import os
import resource
import signal

import pytest

from kafkawire.reference_broker.log.file import FileSlice, LogFile, replace_file


def test_append_and_read(tmp_path):
    file = LogFile(tmp_path / "f")
    file.append(b"one")
    file.append(memoryview(b"two"))
    assert file.size_bytes == 6
    assert file.read(2, 3) == b"etw"
    assert LogFile(tmp_path / "f").size_bytes == 6


def test_append_that_fails_leaves_the_file_as_it_was(tmp_path):
    file = LogFile(tmp_path / "f")
    file.append(b"x" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append(b"y" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "f").read_bytes() == b"x" * 100
    file.append(b"z")
    assert file.read(99, 10) == b"xz"


def test_slice_stays_readable_when_the_file_is_deleted(tmp_path):
    file = LogFile(tmp_path / "f")
    file.append(b"0123456789")
    piece = FileSlice(file, 3, 4)
    (tmp_path / "f").unlink()
    del file
    assert len(piece) == 4
    assert piece.read() == b"3456"


def test_descriptor_is_closed_with_the_last_holder(tmp_path):
    file = LogFile(tmp_path / "f")
    descriptor = file.fileno()
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_replace_file(tmp_path):
    path = tmp_path / "f"
    for text in ("first\n", "second\n"):
        replace_file(path, text)
        assert path.read_text() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
