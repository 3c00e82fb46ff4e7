"""The journal of an embedded registry's tree: transactions in frames, synced before the transactions are answered.

    registry.journal    a snapshot, then a frame for each write: mark, number, length, CRC, JSON

Only the last frame can be torn by a crash, since each frame is synced before the next one is written. So a damaged
frame is cut off if nothing intact follows it. If an intact frame does follow, the damaged one had been durable, and the
journal is refused.

A compaction replaces the file with one that starts with a snapshot of the tree. Each load is followed by a compaction,
since what was read may not have reached the disk. A write that fails for lack of space or file descriptors can be
retried: its remnants are cut off, or the whole file is replaced.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any, Final, NamedTuple

from kafkawire.reference_broker.cluster.znode_tree import (
    ChangeKind,
    NodeChange,
    StoredNode,
    TreeTransaction,
    ZnodeTree,
)
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.disk.disk import (
    TEMPORARY_SUFFIX,
    Disk,
    File,
    is_short_of_descriptors,
    is_short_of_room,
)
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.registry.acls import Acl, Permission

__all__ = ["COMPACTION_BYTES_MIN", "REGISTRY_JOURNAL", "RegistryJournal", "can_be_repeated"]

logger = logging.getLogger("kafkawire.broker")

#: The file name.
REGISTRY_JOURNAL: Final = "registry.journal"

#: Smaller journals are not compacted, since they can be read in milliseconds.
COMPACTION_BYTES_MIN: Final = 1024 * 1024

#: A journal is compacted once it has grown to this many times its size after the last compaction.
_GROWTH: Final = 4

#: Marks the start of a frame. In ASCII JSON, no byte has its top bit set, so the mark cannot occur in a frame's text.
_MARK: Final = b"\xf0RJ\x01"
#: The frame's number, and the length of its text.
_HEAD: Final = Struct(">QI")
_CRC: Final = Struct(">I")
_FRAME_BYTES: Final = len(_MARK) + _HEAD.size + _CRC.size

#: Maximum number of nodes per frame in a snapshot, which limits how much is encoded or decoded at a time.
_NODES_PER_FRAME: Final = 1_000


class _Frame(NamedTuple):
    """An intact frame.

    Attributes:
        number: the frame's number; each is one higher than the one before.
        text: the JSON text.
        end: the position after the frame.
    """

    number: int
    text: bytes
    end: int


class _Extent(NamedTuple):
    """The state of the file once everything that has been framed is written.

    Attributes:
        next_number: the number of the next frame.
        size_bytes: the length of the file.
        compacted_bytes: the length of the file after the last compaction.
    """

    next_number: int
    size_bytes: int
    compacted_bytes: int


def can_be_repeated(error: Exception) -> bool:
    """Return whether a failed write can be retried later, because it lacked space or a file descriptor."""
    return is_short_of_room(error) or is_short_of_descriptors(error)


class RegistryJournal:
    """The file of one registry.

    `frame_of` and `compacted_content` are called on the thread that handles requests; `append` and `replace` block, and
    run one at a time on any thread. After an error for which `can_be_repeated` is true, call `take_back` and frame the
    same content again; after any other error, nothing more may be written.

    Args:
        disk: holds the file.
        path: the path of the file.

    Attributes:
        is_durable: whether everything that was loaded is durable; if not, it will be after the next write.
    """

    def __init__(self, disk: Disk, path: str = REGISTRY_JOURNAL) -> None:
        self.is_durable = True
        self._disk = disk
        self._path = path
        self._file: File | None = None
        #: Whether the file is missing, is not known to be durable, or does not end with a complete frame.
        self._must_be_replaced = True
        self._framed = self._before = _Extent(0, 0, 0)

    # Reading.

    def load(self) -> ZnodeTree:
        """Return the tree, which is empty if there is no journal yet; a torn tail is cut off.

        Raises:
            DamagedFile: the journal is damaged elsewhere.
            OSError: the journal cannot be read, or cannot be written for a reason other than a lack of space or file
                descriptors. If opening it fails, for example for lack of descriptors, nothing has changed, and loading
                can be retried.
        """
        try:
            file = self._disk.open(self._path)
        except FileNotFoundError:
            return ZnodeTree()
        content = file.read(0, file.size_bytes)
        nodes: list[StoredNode] = []
        tree: ZnodeTree | None = None
        end = 0
        for frame in self._frames(content):
            kind, *values = json.loads(frame.text)
            if kind == "nodes":
                nodes += [_stored_node(value) for value in values]
            elif kind == "snapshot":
                tree = ZnodeTree(nodes, values[0])
            elif tree is not None:
                for value in values:
                    tree.apply(_transaction(value))
            self._framed = self._framed._replace(next_number=frame.number + 1)
            end = frame.end
        if tree is None:
            # The snapshot was synced before the file was given its name.
            raise DamagedFile(self._disk.describe(self._path), "the file does not start with a complete snapshot")
        if end < len(content):
            logger.warning(
                "%s: cutting off the last %d bytes, which belong to an unfinished write",
                self._disk.describe(self._path),
                len(content) - end,
            )
        # A killed process may have written something without syncing it, and after a failed sync, readable data may not
        # be on the disk. So write the content once more before reporting anything in it.
        try:
            self.replace(self.compacted_content(tree))
        except OSError as error:
            if not can_be_repeated(error):
                raise
            self.take_back()
            self.is_durable = False
        return tree

    def _frames(self, content: bytes) -> Iterator[_Frame]:
        """Yield the frames up to the end or a torn tail.

        Raises:
            DamagedFile: an intact frame follows a damaged one.
        """
        position, number = 0, None
        while position < len(content):
            frame = _frame_at(content, position)
            if frame is None or number not in (None, frame.number):
                self._refuse_damage(content, position, number or 0)
                return
            yield frame
            position, number = frame.end, frame.number + 1

    def _refuse_damage(self, content: bytes, damaged: int, number: int) -> None:
        """Raise an error if a later intact frame proves that the damaged one was durable."""
        position = content.find(_MARK, damaged)
        while position >= 0:
            frame = _frame_at(content, position)
            if frame is not None and frame.number >= number:
                reason = f"the frame at byte {damaged} is damaged, but a later one at byte {position} is intact"
                raise DamagedFile(self._disk.describe(self._path), reason)
            position = content.find(_MARK, position + 1)

    # Writing.

    def frame_of(self, transactions: Sequence[TreeTransaction]) -> bytes:
        """Return the frame for the next write."""
        self._before = self._framed
        frame = self._frame(["transactions", *map(_transaction_values, transactions)])
        self._framed = self._framed._replace(size_bytes=self._framed.size_bytes + len(frame))
        return frame

    def append(self, frame: bytes) -> None:
        """Write a frame and wait until it is durable.

        Raises:
            OSError: the disk has failed.
        """
        file = self._file
        if file is None:
            raise RuntimeError("a journal must be loaded before it is written")
        self._must_be_replaced = True
        size_bytes = file.size_bytes
        try:
            file.append(frame)
        except OSError as error:
            if can_be_repeated(error):
                with suppress(OSError):
                    file.truncate(size_bytes)
                    self._must_be_replaced = False
            raise
        file.sync()
        self._must_be_replaced = False

    @property
    def is_compaction_due(self) -> bool:
        """Whether the next write should be a snapshot: true for the first write, and when the file has grown a lot."""
        grown_bytes = max(COMPACTION_BYTES_MIN, _GROWTH * self._framed.compacted_bytes)
        return self._must_be_replaced or self._framed.size_bytes > grown_bytes

    def take_back(self) -> None:
        """Forget the last framed content, since it could not be written.

        If there is no space for a snapshot, frames are appended to the file as long as there is space for them.
        """
        has_grown = self._framed.compacted_bytes != self._before.compacted_bytes and not self._must_be_replaced
        self._framed = self._before
        if has_grown:
            self._framed = self._framed._replace(compacted_bytes=self._framed.size_bytes)

    def compacted_content(self, tree: ZnodeTree) -> bytes:
        """Return the content of a journal that starts with a tree."""
        self._before = self._framed
        nodes = list(tree.nodes())
        frames = [
            self._frame(["nodes", *map(_node_values, nodes[begin : begin + _NODES_PER_FRAME])])
            for begin in range(0, len(nodes), _NODES_PER_FRAME)
        ]
        content = b"".join([*frames, self._frame(["snapshot", tree.zxid])])
        self._framed = self._framed._replace(size_bytes=len(content), compacted_bytes=len(content))
        return content

    def replace(self, content: bytes) -> None:
        """Replace the journal atomically: a crash during the call leaves either the old journal or the new one.

        Raises:
            OSError: the disk has failed.
        """
        temporary = self._path + TEMPORARY_SUFFIX
        file = self._disk.open(temporary, create=True)
        try:
            # A crash may have left this file behind.
            file.truncate(0)
            file.append(content)
            file.sync()
        except OSError:
            with suppress(OSError):
                file.truncate(0)  # it may be what filled the disk
            raise
        self._must_be_replaced = True
        self._disk.rename(temporary, self._path)
        self._disk.sync_folder(self._path.rpartition("/")[0])
        self._file = file
        self._must_be_replaced = False

    def _frame(self, values: list[Any]) -> bytes:
        text = json.dumps(values, separators=(",", ":")).encode("ascii")
        number = self._framed.next_number
        head = _HEAD.pack(number, len(text))
        self._framed = self._framed._replace(next_number=number + 1)
        return b"".join([_MARK, head, _CRC.pack(crc32c(head + text)), text])


def _frame_at(content: bytes, position: int) -> _Frame | None:
    """Return the frame at a position, or None if there is no intact one."""
    begin = position + _FRAME_BYTES
    if content[position : position + len(_MARK)] != _MARK or begin > len(content):
        return None
    head = content[position + len(_MARK) : begin - _CRC.size]
    number, size_bytes = _HEAD.unpack(head)
    (crc,) = _CRC.unpack_from(content, begin - _CRC.size)
    text = content[begin : begin + size_bytes]
    if len(text) < size_bytes or crc32c(head + text) != crc:
        return None
    return _Frame(number, text, begin + size_bytes)


# JSON. Each byte is written as the character with that code point.


def _transaction_values(transaction: TreeTransaction) -> list[Any]:
    return [transaction.zxid, transaction.time_ms, *map(_change_values, transaction.changes)]


def _transaction(values: list[Any]) -> TreeTransaction:
    zxid, time_ms, *changes = values
    return TreeTransaction(zxid, time_ms, tuple(map(_change, changes)))


def _change_values(change: NodeChange) -> list[Any]:
    return [change.kind.name, change.path, _text(change.data), _acl_values(change.acl), change.session_id]


def _change(values: list[Any]) -> NodeChange:
    kind, path, data, acl, session_id = values
    return NodeChange(ChangeKind[kind], path, _bytes(data), _acl(acl), session_id)


def _node_values(node: StoredNode) -> list[Any]:
    path, data, acl, *numbers = node
    return [path, _text(data), _acl_values(acl), *numbers]


def _stored_node(values: list[Any]) -> StoredNode:
    path, data, acl, *numbers = values
    return StoredNode(path, _bytes(data), _acl(acl), *numbers)


def _acl_values(acl: tuple[Acl, ...]) -> list[Any]:
    return [[int(entry.permissions), entry.scheme, entry.id] for entry in acl]


def _acl(values: list[Any]) -> tuple[Acl, ...]:
    return tuple(Acl(Permission(permissions), scheme, identity) for permissions, scheme, identity in values)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")
