"""Small files on a disk are read as they were written, and damaged files are not treated as missing.

Method: use an in-memory disk.
"""

import pytest

from kafkawire.reference_broker.storage import checkpoints
from kafkawire.reference_broker.storage.checkpoints import (
    DamagedFile,
    clean_shutdown_text,
    offsets_if_sound,
    read_epochs,
    read_offsets,
    read_properties,
    write_epochs,
    write_offsets,
)
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk


@pytest.fixture
def disk():
    return MemoryDisk()


def test_offsets(disk):
    offsets = {("b", 0): 7, ("a", 10): 3, ("a", 2): 2**40}
    write_offsets(disk, "recovery-point-offset-checkpoint", offsets)
    content = read_file(disk, "recovery-point-offset-checkpoint")
    assert content == f"0\n3\na 2 {2**40}\na 10 3\nb 0 7\n".encode()
    assert read_offsets(disk, "recovery-point-offset-checkpoint") == offsets
    assert read_offsets(disk, "none") == {}


def test_epochs(disk):
    write_epochs(disk, "leader-epoch-checkpoint", [(0, 0), (3, 120)])
    assert read_file(disk, "leader-epoch-checkpoint") == b"0\n2\n0 0\n3 120\n"
    assert read_epochs(disk, "leader-epoch-checkpoint") == [(0, 0), (3, 120)]
    assert read_epochs(disk, "none") is None


@pytest.mark.parametrize(
    ("content", "problem"), [(b"1\n0\n", "expected version 0 on the first line"), (b"0\n1\n\xff 0 5\n", "not UTF-8")]
)
def test_damaged_checkpoint(disk, content, problem):
    write_file(disk, "c", content)
    with pytest.raises(DamagedFile, match=f"memory:c is damaged: .*{problem}"):
        read_offsets(disk, "c")


def test_checkpoint_that_a_crash_has_cut_is_damaged(disk):
    whole = b"0\n2\n0 0\n3 120\n"
    for size in range(len(whole)):
        write_file(disk, "e", whole[:size])
        with pytest.raises(DamagedFile, match="memory:e is damaged: "):
            read_epochs(disk, "e")


def test_properties(disk):
    write_file(disk, "p", b"node.id=1\nversion = 1\n")
    assert read_properties(disk, "p") == {"node.id": "1", "version": "1"}
    assert read_properties(disk, "none") == {}


@pytest.mark.parametrize("content", [b"no separator\n", b"a=\xff\n"])
def test_damaged_properties(disk, content):
    write_file(disk, "p", content)
    with pytest.raises(DamagedFile, match=r"^memory:p is damaged: (no name|not UTF-8)"):
        read_properties(disk, "p")


def test_a_file_that_is_too_large_is_damaged(disk, monkeypatch):
    monkeypatch.setattr(checkpoints, "_TEXT_BYTES_MAX", 9)
    write_file(disk, "p", b"name=1234")
    assert read_properties(disk, "p") == {"name": "1234"}
    write_file(disk, "p", b"name=12345")
    with pytest.raises(DamagedFile, match="memory:p is damaged: the file is larger than 9 bytes"):
        read_properties(disk, "p")


def test_texts():
    assert clean_shutdown_text() == '{"version":0,"brokerEpoch":-1}'


def test_damaged_checkpoint_is_reported(disk, caplog):
    write_file(disk, "c", b"odd")
    assert offsets_if_sound(disk, "c", "everything is checked") is None
    assert "; everything is checked" in caplog.text
    assert offsets_if_sound(disk, "none", "everything is checked") == {}
