"""An in-memory disk, which can lose power, fill up, and fail.

It keeps the state that the process sees separate from the durable state: content per file, names per folder. `crash`
    returns the disk after a power cut, with unsynced writes lost, kept or torn, and unsynced name changes kept in order
    up to some point. Every call has a number and a name, which lets a test make any call of a workload fail, or cut the
    power at that call.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.storage.disk.disk import Volume
from kafkawire.reference_broker.storage.disk.inodes import Folder, Inode
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["DiskCall", "MemoryDisk", "PowerCut", "cut_power_at", "fail_at", "fail_sometimes"]


#: With fewer name changes than this, searching for changes to drop is not worthwhile.
_CHANGES_MIN = 100


class DiskCall(NamedTuple):
    """A disk call, just before it takes effect.

    Attributes:
        number: the number of the call, starting at 1.
        name: the name of the method: `append`, `sync_folder`, …
        path: the path of the file or folder.
    """

    number: int
    name: str
    path: str


class PowerCut(BrokerEnd):
    """The power has been cut, so no error handler may continue."""


#: Called before each disk call; to make the call fail, it raises an OSError or `PowerCut`.
Plan = Callable[[DiskCall], None]


def fail_at(number: int, code: int = errno.EIO) -> Plan:
    """Return a plan that makes one call fail."""

    def plan(call: DiskCall) -> None:
        if call.number == number:
            raise OSError(code, f"{os.strerror(code)} (planned, {call.name})", call.path)

    return plan


def fail_sometimes(seed: int, probability: float, code: int = errno.EIO) -> Plan:
    """Return a plan that makes each call fail with a given probability."""
    chance = random.Random(seed)

    def plan(call: DiskCall) -> None:
        if chance.random() < probability:
            raise OSError(code, f"{os.strerror(code)} (seed {seed}, {call.name})", call.path)

    return plan


def cut_power_at(number: int) -> Plan:
    """Return a plan that cuts the power during one call; all later calls fail too."""

    def plan(call: DiskCall) -> None:
        if call.number >= number:
            raise PowerCut(call)

    return plan


class MemoryDisk:
    """Files in memory.

    Args:
        capacity_bytes: total size of all files; None for no limit.

    Attributes:
        plan: see `Plan`; with None, every call succeeds.
        calls: the number of calls.
        used_bytes: the size of all files.
        capacity_bytes: see above.
    """

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.plan: Plan | None = None
        self.calls = 0
        self.used_bytes = 0
        self.mutex = threading.RLock()
        self._root = Folder()
        #: Name changes that are not durable yet, in order: the folder, the name and its new entry.
        self._changes: list[list[tuple[Folder, str, Folder | Inode | None]]] = []
        self._changes_max = _CHANGES_MIN
        self._locked: set[str] = set()

    def call(self, name: str, path: str) -> None:
        """Count a call, and make it fail if the plan says so."""
        with self.mutex:
            self.calls += 1
            if self.plan is not None:
                self.plan(DiskCall(self.calls, name, path))

    def crash(self, seed: int | None = None) -> MemoryDisk:
        """Return the disk after a power cut, or after a crash of the process alone.

        Args:
            seed: determines which unsynced data survives; None keeps all of it, as after a crash of the process alone.
        """
        after = MemoryDisk(self.capacity_bytes)
        with self.mutex:
            if seed is None:
                after._root = self._root.copied(lambda inode: bytes(inode.content), durable_only=False)
            else:
                chance = random.Random(seed)
                kept = self._changes[: chance.randint(0, len(self._changes))]
                before = {folder: folder.durable for change in kept for folder, _, _ in change}
                for folder in before:
                    folder.durable = dict(folder.durable)
                for change in kept:
                    _settle(change)
                after._root = self._root.copied(lambda inode: inode.after_power_cut(chance), durable_only=True)
                for folder, durable in before.items():
                    folder.durable = durable
        after.used_bytes = after._root.size_bytes()
        return after

    # Methods of `Disk`.

    def describe(self, path: str) -> str:
        return f"memory:{path}"

    def open(self, path: str, *, create: bool = False, stays: bool = False, is_private: bool = False) -> _MemoryFile:
        with self.mutex:
            folder, name = self._parent(path)
            entry = folder.entries.get(name)
            self.call("create" if entry is None and create else "open", path)
            if entry is None and create:
                entry = Inode()
                self._change((folder, name, entry))
            if entry is None:
                raise _error(errno.ENOENT, path)
            if isinstance(entry, Folder):
                raise _error(errno.EISDIR, path)
            return _MemoryFile(self, path, entry)

    def size_of(self, path: str) -> int:
        self.call("size_of", path)
        with self.mutex:
            entry = self._find(path)
            return len(entry.content) if isinstance(entry, Inode) else 0

    def volume(self) -> Volume | None:
        self.call("volume", "")
        with self.mutex:
            if self.capacity_bytes is None:
                return None
            return Volume(self.capacity_bytes, max(self.capacity_bytes - self.used_bytes, 0))

    def names(self, path: str) -> list[str]:
        self.call("names", path)
        with self.mutex:
            return sorted(self._folder(path).entries)

    def make_folder(self, path: str) -> None:
        self.call("make_folder", path)
        with self.mutex:
            folder, name = self._parent(path)
            known = folder.entries.get(name)
            if isinstance(known, Inode):
                raise _error(errno.EEXIST, path)
            if known is None:
                self._change((folder, name, Folder()))

    def rename(self, old: str, new: str) -> None:
        self.call("rename", old)
        with self.mutex:
            entry = self._find(old)
            (old_folder, old_name), (folder, _, new_name) = self._parent(old), new.rpartition("/")
            new_folder = self._folder(folder, old)
            replaced = new_folder.entries.get(new_name)
            if replaced is entry:
                return
            if isinstance(entry, Inode) and isinstance(replaced, Folder):
                raise _error(errno.EISDIR, old)
            if isinstance(entry, Folder) and new.startswith(f"{old}/"):
                raise _error(errno.EINVAL, old)
            if isinstance(entry, Folder) and isinstance(replaced, Inode):
                raise _error(errno.ENOTDIR, old)
            if isinstance(replaced, Folder) and replaced.entries:
                raise _error(errno.ENOTEMPTY, old)
            if isinstance(replaced, Inode):
                self._forget(replaced)
            self._change((old_folder, old_name, None), (new_folder, new_name, entry))

    def remove(self, path: str) -> None:
        self.call("remove", path)
        with self.mutex:
            entry = self._find(path)
            if isinstance(entry, Folder):
                raise _error(errno.EISDIR, path)
            self._forget(entry)
            self._change((*self._parent(path), None))

    def remove_folder(self, path: str) -> None:
        self.call("remove_folder", path)
        with self.mutex:
            if self._folder(path).entries:
                raise _error(errno.ENOTEMPTY, path)
            self._change((*self._parent(path), None))

    def sync_folder(self, path: str) -> None:
        self.call("sync_folder", path)
        with self.mutex:
            folder = self._folder(path)
            left = []
            for change in self._changes:
                if any(changed is folder for changed, _, _ in change):
                    _settle(change)
                else:
                    left.append(change)
            self._changes = left
            if len(left) > self._changes_max:
                self._forget_unreachable()

    def _forget_unreachable(self) -> None:
        """Drop the changes in removed folders, which can no longer be synced."""
        known: set[Folder] = set()
        pending: dict[Folder, list[Folder | Inode | None]] = {}
        for change in self._changes:
            for folder, _, entry in change:
                pending.setdefault(folder, []).append(entry)
        todo: list[Folder | Inode | None] = [self._root]
        while todo:
            found = todo.pop()
            if isinstance(found, Folder) and found not in known:
                known.add(found)
                todo += [*found.entries.values(), *found.durable.values(), *pending.get(found, ())]
        self._changes = [change for change in self._changes if any(folder in known for folder, _, _ in change)]
        self._changes_max = max(2 * len(self._changes), _CHANGES_MIN)

    def lock(self, path: str) -> _MemoryLock:
        self.call("lock", path)
        with self.mutex:
            folder, name = self._parent(path)
            if isinstance(folder.entries.get(name), Folder):
                raise _error(errno.EISDIR, path)
            if path in self._locked:
                raise _error(errno.EAGAIN, path)
            if name not in folder.entries:
                self._change((folder, name, Inode()))
            self._locked.add(path)
        return _MemoryLock(self._locked, path)

    # The tree.

    def _change(self, *change: tuple[Folder, str, Folder | Inode | None]) -> None:
        for folder, name, entry in change:
            folder.set(name, entry)
        self._changes.append(list(change))

    def _forget(self, inode: Inode) -> None:
        self.used_bytes -= len(inode.content)
        inode.has_name = False

    def _find(self, path: str) -> Folder | Inode:
        folder, name = self._parent(path)
        entry = folder.entries.get(name)
        if entry is None:
            raise _error(errno.ENOENT, path)
        return entry

    def _folder(self, path: str, asked: str | None = None) -> Folder:
        """Return a folder; if it does not exist, the error names the path that was asked for."""
        folder = self._root
        for name in path.split("/") if path else ():
            entry = folder.entries.get(name)
            if not isinstance(entry, Folder):
                raise _error(errno.ENOENT if entry is None else errno.ENOTDIR, asked or path)
            folder = entry
        return folder

    def _parent(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder, path), name


class _MemoryFile:
    __slots__ = ("__weakref__", "_disk", "_inode", "_path", "size_bytes")

    def __init__(self, disk: MemoryDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self.size_bytes = len(inode.content)

    def fileno(self) -> None:
        return None

    def append(self, data: Buffer) -> None:
        disk = self._disk
        with disk.mutex, memoryview(data) as view:
            try:
                disk.call("append", self._path)
            except (OSError, PowerCut):
                self._append(view[: len(view) // 2])
                raise
            room = len(view) if disk.capacity_bytes is None else max(disk.capacity_bytes - disk.used_bytes, 0)
            self._append(view[:room])
            if room < len(view):
                reason = f"{os.strerror(errno.ENOSPC)}: {disk.capacity_bytes} bytes of memory are in use"
                raise OSError(errno.ENOSPC, reason, self._path)

    def _append(self, data: memoryview) -> None:
        self._inode.append(data)
        self.size_bytes += len(data)
        self._took(len(data))

    def _took(self, size_bytes: int) -> None:
        if self._inode.has_name:
            self._disk.used_bytes += size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        self._disk.call("read", self._path)
        if position < 0:
            raise _error(errno.EINVAL, self._path)
        with self._disk.mutex, memoryview(self._inode.content) as content:
            return bytes(content[position : min(position + size_bytes, self.size_bytes)])

    def truncate(self, size_bytes: int) -> None:
        self._disk.call("truncate", self._path)
        if size_bytes < 0:
            raise _error(errno.EINVAL, self._path)
        with self._disk.mutex:
            before = len(self._inode.content)
            self._inode.truncate(size_bytes)
            self.size_bytes = size_bytes
            self._took(size_bytes - before)

    def sync(self) -> None:
        with self._disk.mutex:
            try:
                self._disk.call("sync", self._path)
            except OSError:
                self._inode.sync_failed()
                raise
            self._inode.sync()


class _MemoryLock:
    __slots__ = ("_locked", "_path")

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


def _settle(change: list[tuple[Folder, str, Folder | Inode | None]]) -> None:
    for folder, name, entry in change:
        folder.settle(name, entry)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
