"""Files and folders of an in-memory disk; `test_memory.py` tests their guarantees as part of the disk."""

import random

from kafkawire.reference_broker.storage.disk.inodes import Folder, Inode


def test_cut_twice_comes_back_as_it_was_synced():
    inode = Inode(b"0123456789")
    inode.truncate(6)
    inode.append(b"x")
    inode.truncate(3)
    left = {inode.after_power_cut(random.Random(seed)) for seed in range(20)}
    assert left == {b"0123456789", b"012"}


def test_cut_removes_what_was_lost_there():
    inode = Inode()
    inode.append(b"abc")
    inode.sync_failed()
    inode.truncate(1)
    inode.append(b"de")
    inode.sync()
    assert inode.after_power_cut(random.Random(1)) == b"\0de"


def test_what_a_power_cut_leaves_is_where_it_was_written():
    content = bytes(range(1, 256)) * 20
    inode = Inode()
    for start in range(0, len(content), 1_700):
        inode.append(content[start : start + 1_700])
    left = {inode.after_power_cut(random.Random(seed)) for seed in range(20)}
    assert any(0 in each for each in left), "a sector was lost before one that was kept"
    for each in left:
        assert len(each) <= len(content)
        assert all(found in (0, written) for found, written in zip(each, content, strict=False))


def test_copy_of_a_folder_shares_nothing():
    folder = Folder()
    inside = Folder()
    folder.set("f", inside)
    inside.set("a", Inode(b"abc"))
    copy = folder.copied(lambda inode: bytes(inode.content), durable_only=False)
    inside.set("b", Inode(b"x"))
    assert (copy.size_bytes(), folder.size_bytes()) == (3, 4)
    assert not folder.copied(lambda inode: bytes(inode.content), durable_only=True).entries
