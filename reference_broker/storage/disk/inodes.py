"""Files and folders of an in-memory disk: the state that the process sees, and the state after a power cut."""

from __future__ import annotations

import random
from collections.abc import Callable

from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["Folder", "Inode"]

#: A disk writes this many bytes completely or not at all.
_SECTOR_BYTES = 512

#: Beyond this number, a file's unsynced writes are treated as one; otherwise, a broker that never syncs would exhaust
#: the memory.
_UNSYNCED_MAX = 1_000


class Inode:
    """The content of a file.

    Attributes:
        content: the content that the process sees.
        has_name: whether the file is in a folder; if not, it takes up no room and disappears when it is last closed.
    """

    __slots__ = ("_cut_from", "_lost", "_synced_bytes", "_unsynced", "content", "has_name")

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.has_name = True
        # Files are only ever appended to, so the durable part is a prefix of the content, unless the file has since
        # been truncated.
        self._synced_bytes = len(content)
        self._cut_from: bytes | None = None
        #: Regions written since the last sync, and regions whose sync failed, which no later sync makes durable.
        self._unsynced: list[tuple[int, int]] = []
        self._lost: list[tuple[int, int]] = []

    def append(self, data: Buffer) -> None:
        start = len(self.content)
        self.content += data
        if len(self.content) > start:
            if len(self._unsynced) == _UNSYNCED_MAX:
                self._unsynced = [(self._unsynced[0][0], start)]
            self._unsynced.append((start, len(self.content)))

    def truncate(self, size_bytes: int) -> None:
        if size_bytes < self._synced_bytes:
            self._cut_from = self._durable()
            self._synced_bytes = size_bytes
        del self.content[size_bytes:]
        if len(self.content) < size_bytes:
            self.append(bytes(size_bytes - len(self.content)))
        self._unsynced = _clipped(self._unsynced, size_bytes)
        self._lost = _clipped(self._lost, size_bytes)

    def sync(self) -> None:
        self._synced_bytes = len(self.content)
        self._cut_from = None
        self._unsynced.clear()

    def sync_failed(self) -> None:
        """Lose the writes since the last sync: the system considers them written, but they are not on disk."""
        self._lost += self._unsynced
        self._unsynced.clear()

    def _durable(self) -> bytes:
        if self._cut_from is not None:
            return self._cut_from
        durable = bytearray(self.content[: self._synced_bytes])
        for start, end in _clipped(self._lost, len(durable)):
            durable[start:end] = bytes(end - start)
        return bytes(durable)

    def after_power_cut(self, chance: random.Random) -> bytes:
        """Return the content after a power cut: synced writes, and any number of sectors of each later write."""
        left = bytearray(self._durable())
        if self._cut_from is not None and chance.random() < 0.5:
            del left[self._synced_bytes :]
        for start, end in self._unsynced:
            fate = chance.choice(("lost", "kept", "torn"))
            for sector in range(start, end, _SECTOR_BYTES):
                if fate == "kept" or (fate == "torn" and chance.random() < 0.5):
                    stop = min(sector + _SECTOR_BYTES, end)
                    left.extend(bytes(max(stop - len(left), 0)))
                    left[sector:stop] = self.content[sector:stop]
        return bytes(left)


class Folder:
    """The names in a folder.

    Attributes:
        entries: names that the process sees.
        durable: names that survive a power cut.
    """

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Folder | Inode] = {}
        self.durable: dict[str, Folder | Inode] = {}

    def set(self, name: str, entry: Folder | Inode | None) -> None:
        """Set or remove a name."""
        _set(self.entries, name, entry)

    def settle(self, name: str, entry: Folder | Inode | None) -> None:
        """Make a name change durable."""
        _set(self.durable, name, entry)

    def copied(self, content: Callable[[Inode], bytes], *, durable_only: bool) -> Folder:
        """Return a copy of the folder and everything in it, as durable entries of another disk.

        Args:
            content: returns the content of a file.
            durable_only: whether to copy only durable names.
        """
        copy = Folder()
        for name, entry in (self.durable if durable_only else self.entries).items():
            if isinstance(entry, Folder):
                copy.entries[name] = entry.copied(content, durable_only=durable_only)
            else:
                copy.entries[name] = Inode(content(entry))
        copy.durable = dict(copy.entries)
        return copy

    def size_bytes(self) -> int:
        """Return the total size of all files in the folder."""
        return sum(
            entry.size_bytes() if isinstance(entry, Folder) else len(entry.content) for entry in self.entries.values()
        )


def _set(entries: dict[str, Folder | Inode], name: str, entry: Folder | Inode | None) -> None:
    if entry is None:
        entries.pop(name, None)
    else:
        entries[name] = entry


def _clipped(regions: list[tuple[int, int]], size_bytes: int) -> list[tuple[int, int]]:
    return [(start, min(end, size_bytes)) for start, end in regions if start < size_bytes]
