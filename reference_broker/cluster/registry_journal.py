"""The journal that keeps the tree of an embedded registry: transactions, in frames that are synced before an answer.

    registry.journal    a snapshot, then a frame for each write: mark, number, length, CRC, JSON

A frame that is torn by a crash can only be the last one, since the next is written after its sync. So a damaged frame
is cut off if nothing but damage follows, and refused otherwise: a later frame proves that it was durable.

A compaction replaces the file by one that begins with a snapshot of the tree. The first one follows each loading: what
was read may be only in the memory of the operating system. A write that fails for want of room or of descriptors can be
repeated: what it has left is cut off, or the whole file is replaced.
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

#: The name of the file.
REGISTRY_JOURNAL: Final = "registry.journal"

#: A smaller journal is not compacted: it is read in milliseconds.
COMPACTION_BYTES_MIN: Final = 1024 * 1024

#: A journal is compacted when it is so many times as long as after its last compaction.
_GROWTH: Final = 4

#: Begins a frame. JSON in ASCII has no byte with the top bit set, so that the mark is not in the text of a frame.
_MARK: Final = b"\xf0RJ\x01"
#: Number of the frame, length of its text.
_HEAD: Final = Struct(">QI")
_CRC: Final = Struct(">I")
_FRAME_BYTES: Final = len(_MARK) + _HEAD.size + _CRC.size

#: The number of nodes in a frame of a snapshot, which bounds what is encoded and decoded at once.
_NODES_PER_FRAME: Final = 1_000


class _Frame(NamedTuple):
    """A sound frame.

    Attributes:
        number: its number; each is one above the number before it.
        text: the JSON.
        end: the position after it.
    """

    number: int
    text: bytes
    end: int


class _Extent(NamedTuple):
    """The state of the file once everything is written that was framed.

    Attributes:
        next_number: of the next frame.
        size_bytes: its length.
        compacted_bytes: its length after the last compaction.
    """

    next_number: int
    size_bytes: int
    compacted_bytes: int


def can_be_repeated(error: Exception) -> bool:
    """Return whether a failed write can be repeated later: there was no room for it, or no descriptor."""
    return is_short_of_room(error) or is_short_of_descriptors(error)


class RegistryJournal:
    """The file of one registry.

    `frame_of` and `compacted_content` are called where requests are handled; `append` and `replace` block, and run one
    after the other on any thread. After an error that `can_be_repeated`, `take_back` is called, and the same is framed
    again; after any other error, nothing may be written.

    Args:
        disk: holds the file.
        path: of the file.

    Attributes:
        is_durable: whether everything that was loaded is durable; if not, it is after the next write.
    """

    def __init__(self, disk: Disk, path: str = REGISTRY_JOURNAL) -> None:
        self.is_durable = True
        self._disk = disk
        self._path = path
        self._file: File | None = None
        #: Whether the file is missing, not known to be durable, or does not end with a whole frame.
        self._must_be_replaced = True
        self._framed = self._before = _Extent(0, 0, 0)

    # Reading.

    def load(self) -> ZnodeTree:
        """Return the tree, empty if there is no journal yet; a torn tail is cut off.

        Raises:
            DamagedFile: the journal is damaged elsewhere.
            OSError: it cannot be read, or not be written for another reason than want of room or of descriptors. If it
                cannot be opened, as for want of descriptors, nothing has happened, and it can be loaded again.
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
            # It was synced before the file got its name.
            raise DamagedFile(self._disk.describe(self._path), "it does not begin with a whole snapshot")
        if end < len(content):
            logger.warning(
                "%s: the last %d bytes are of a write that was not finished; they are cut off",
                self._disk.describe(self._path),
                len(content) - end,
            )
        # A process that was killed may have written what it did not sync, and a failed sync may have lost what is still
        # read: so it is written once more, before anything in it is reported.
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
            DamagedFile: a sound frame follows a damaged one.
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
        """Raise an error if a later frame shows that the damaged one was durable."""
        position = content.find(_MARK, damaged)
        while position >= 0:
            frame = _frame_at(content, position)
            if frame is not None and frame.number >= number:
                reason = f"the frame at byte {damaged} is not sound, but a later one at byte {position} is"
                raise DamagedFile(self._disk.describe(self._path), reason)
            position = content.find(_MARK, position + 1)

    # Writing.

    def frame_of(self, transactions: Sequence[TreeTransaction]) -> bytes:
        """Return the frame of the next write."""
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
            raise RuntimeError("a journal is loaded before it is written")
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
        """Whether the next write is to be a snapshot: the first one, and each after which the file has grown much."""
        grown_bytes = max(COMPACTION_BYTES_MIN, _GROWTH * self._framed.compacted_bytes)
        return self._must_be_replaced or self._framed.size_bytes > grown_bytes

    def take_back(self) -> None:
        """Forget what was framed last, since it could not be written.

        Without room for a snapshot, the file goes on to grow if it can.
        """
        has_grown = self._framed.compacted_bytes != self._before.compacted_bytes and not self._must_be_replaced
        self._framed = self._before
        if has_grown:
            self._framed = self._framed._replace(compacted_bytes=self._framed.size_bytes)

    def compacted_content(self, tree: ZnodeTree) -> bytes:
        """Return the content of a journal that begins with a tree."""
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
        """Replace the journal: a crash leaves the old or the new one, and after this call the new one.

        Raises:
            OSError: the disk has failed.
        """
        temporary = self._path + TEMPORARY_SUFFIX
        file = self._disk.open(temporary, create=True)
        try:
            # A crash may have left one.
            file.truncate(0)
            file.append(content)
            file.sync()
        except OSError:
            with suppress(OSError):
                file.truncate(0)  # it may be what has filled the disk
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
    """Return the frame at a position, or None if there is no sound one."""
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


# JSON. Bytes are written as the characters of the same numbers.


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
