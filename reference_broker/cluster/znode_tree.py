"""ZooKeeper's tree of nodes as a data structure: what each operation does, what it returns, and whom it notifies.

It does no I/O and has no clock: the caller supplies the time, stores the transactions, and delivers outcomes and
notifications. A transaction can be applied to another tree, which then equals this one.

It omits quotas, containers, TTLs, `/zookeeper`, and the transaction ids that ZooKeeper assigns to failed requests.

Source: `PrepRequestProcessor`, `FinalRequestProcessor`, `DataTree`, `DataNode` in Apache ZooKeeper 3.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from kafkawire.sdk.registry.acls import Acl, Permission, digest_id
from kafkawire.sdk.registry.paths import child_path, parent_of
from kafkawire.sdk.registry.registry import (
    ANY_VERSION,
    Change,
    Check,
    Children,
    Committed,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    EventKind,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    NodeAcl,
    Operation,
    Outcome,
    RegistryCode,
    RegistryError,
    Result,
    SetAcl,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    WatchEvent,
    path_of,
    refusal_of,
)

__all__ = [
    "Answer",
    "ChangeKind",
    "NodeChange",
    "Notification",
    "StoredNode",
    "TreeTransaction",
    "ZnodeTree",
]

#: The access control schemes that need nothing but a session's credentials.
_SCHEMES: Final = ("digest", "sasl")


class ChangeKind(Enum):
    """What a transaction does to one node or to a session."""

    CREATE = auto()
    DELETE = auto()
    SET_DATA = auto()
    SET_ACL = auto()
    #: The session ends: its ephemeral nodes are deleted.
    CLOSE_SESSION = auto()


class NodeChange(NamedTuple):
    """Part of a transaction.

    Attributes:
        kind: the kind of change.
        path: the node's path; empty for CLOSE_SESSION.
        data: the data for CREATE and SET_DATA.
        acl: the list for CREATE and SET_ACL, without `auth`.
        session_id: for CREATE, the owner of an ephemeral node or 0; for CLOSE_SESSION, the session.
    """

    kind: ChangeKind
    path: str
    data: bytes | None = None
    acl: tuple[Acl, ...] = ()
    session_id: int = 0


class TreeTransaction(NamedTuple):
    """Changes made to the tree together.

    Attributes:
        zxid: the transaction's number.
        time_ms: when the changes were made.
        changes: the changes, in order.
    """

    zxid: int
    time_ms: int
    changes: tuple[NodeChange, ...]


class Notification(NamedTuple):
    """A session's watch that has fired.

    Attributes:
        session_id: the session that set the watch.
        event: the event to deliver.
    """

    session_id: int
    event: WatchEvent


class _Watched(NamedTuple):
    """A change to a node, with access rights: as in ZooKeeper 3.8.4, sessions without read access are not told.

    Attributes:
        path: the node's path.
        kind: the kind of change.
        acl: the node's access control list.
        parent_acl: the parent's access control list.
    """

    path: str
    kind: ChangeKind
    acl: tuple[Acl, ...]
    parent_acl: tuple[Acl, ...]


class Answer(NamedTuple):
    """The result of an operation.

    Attributes:
        outcome: the outcome for the session.
        notifications: notifications to deliver before the outcome.
        transaction: the changes to the tree; None if there were none.
    """

    outcome: Outcome
    notifications: tuple[Notification, ...] = ()
    transaction: TreeTransaction | None = None


class StoredNode(NamedTuple):
    """A node in a snapshot. `creations` counts all children ever created; for the other fields, see `Stat`."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    creations: int
    aversion: int
    ephemeral_owner: int
    pzxid: int


@dataclass(slots=True)
class _Node:
    data: bytes | None
    acl: tuple[Acl, ...]
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int = 0
    creations: int = 0
    aversion: int = 0
    ephemeral_owner: int = 0
    pzxid: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> Stat:
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            # ZooKeeper counts creations and deletions here; we count only creations.
            2 * self.creations - len(self.children),
            self.aversion,
            self.ephemeral_owner,
            len(self.data or b""),
            len(self.children),
            self.pzxid,
        )


class _Refused(Exception):
    """The operation failed."""

    def __init__(self, code: RegistryCode) -> None:
        super().__init__(code)
        self.code = code


class ZnodeTree:
    """The nodes, the sessions and the watches.

    Args:
        nodes: the nodes in a snapshot, parents before their children.
        zxid: the number of the snapshot's last transaction.

    Attributes:
        zxid: the number of the last transaction.
    """

    def __init__(self, nodes: Iterable[StoredNode] = (), zxid: int = 0) -> None:
        self.zxid = zxid
        root = _Node(b"", (Acl(Permission.ALL, "world", "anyone"),), 0, 0, 0, 0)
        self._nodes: dict[str, _Node] = {"/": root}
        #: The ephemeral nodes of each session, including sessions that come from a snapshot.
        self._ephemerals: dict[int, dict[str, None]] = {}
        #: The identities of each session, as pairs of scheme and id.
        self._identities: dict[int, frozenset[tuple[str, str]]] = {}
        #: The watching sessions, keyed by path.
        self._data_watches: dict[str, dict[int, None]] = {}
        self._child_watches: dict[str, dict[int, None]] = {}
        for node in nodes:
            self._restore(node)

    def _restore(self, stored: StoredNode) -> None:
        path = stored.path
        self._nodes[path] = _Node(*stored[1:])
        if path != "/":
            self._nodes[parent_of(path)].children[path.rpartition("/")[2]] = None
        if stored.ephemeral_owner:
            self._ephemerals.setdefault(stored.ephemeral_owner, {})[path] = None

    # The tree as a whole.

    @property
    def node_count(self) -> int:
        """The number of nodes, including the root."""
        return len(self._nodes)

    @property
    def sessions(self) -> list[int]:
        """The sessions that are open or own nodes."""
        owners = {session: None for session, paths in self._ephemerals.items() if paths}
        return list({**dict.fromkeys(self._identities), **owners})

    def nodes(self) -> Iterator[StoredNode]:
        """Yield every node, parents before their children."""
        paths = ["/"]
        while paths:
            path = paths.pop()
            node = self._nodes[path]
            paths += [child_path(path, name) for name in node.children]
            yield StoredNode(
                path,
                node.data,
                node.acl,
                node.czxid,
                node.mzxid,
                node.ctime_ms,
                node.mtime_ms,
                node.version,
                node.creations,
                node.aversion,
                node.ephemeral_owner,
                node.pzxid,
            )

    # Sessions.

    def open_session(self, credentials: Sequence[tuple[str, str]] = ()) -> int:
        """Start a session and return its id.

        Args:
            credentials: pairs of a scheme and the proof of an identity: for `digest`, `user:password`.
        """
        self.zxid += 1
        identities = ((scheme, digest_id(proof) if scheme == "digest" else proof) for scheme, proof in credentials)
        self._identities[self.zxid] = frozenset(identities)
        return self.zxid

    def has_session(self, session_id: int) -> bool:
        """Return whether a session is open."""
        return session_id in self._identities

    def close_session(self, session_id: int, now_ms: int) -> tuple[TreeTransaction | None, tuple[Notification, ...]]:
        """End a session, and remove its nodes and watches; a session that has already ended is ignored.

        Returns:
            The changes to the tree, or None if the session had no nodes; and the notifications to deliver.
        """
        self._identities.pop(session_id, None)
        self.drop_watches(session_id)
        if not self._ephemerals.get(session_id):
            self._ephemerals.pop(session_id, None)
            return None, ()
        self.zxid += 1
        change = NodeChange(ChangeKind.CLOSE_SESSION, "", session_id=session_id)
        transaction = TreeTransaction(self.zxid, now_ms, (change,))
        deleted = [self._watched(NodeChange(ChangeKind.DELETE, path)) for path in self._owned(session_id)]
        self.apply(transaction)
        return transaction, self._fired(deleted)

    def drop_watches(self, session_id: int) -> None:
        """Forget the watches of a session that has lost its connection; if it reconnects, `set_watches` is called."""
        for watches in (self._data_watches, self._child_watches):
            for path in [path for path, sessions in watches.items() if sessions.pop(session_id, 0) is None]:
                if not watches[path]:
                    del watches[path]

    def set_watches(
        self, session_id: int, zxid: int, data: Iterable[str], existence: Iterable[str], children: Iterable[str]
    ) -> tuple[Notification, ...]:
        """Set watches again, except those whose nodes have changed in the meantime.

        Args:
            session_id: the session.
            zxid: the last transaction that the session has seen.
            data: paths watched by GetData, or by Exists while the node existed.
            existence: paths watched by Exists while the node did not exist.
            children: paths watched by GetChildren.

        Returns:
            One notification for each watch that was not set because its node had changed in any way.
        """
        changed: list[WatchEvent] = []
        for path in data:
            node = self._nodes.get(path)
            if node is None:
                changed.append(WatchEvent(path, EventKind.DELETED))
            elif node.mzxid > zxid:
                changed.append(WatchEvent(path, EventKind.CHANGED))
            else:
                self._data_watches.setdefault(path, {})[session_id] = None
        for path in existence:
            if path in self._nodes:
                changed.append(WatchEvent(path, EventKind.CREATED))
            else:
                self._data_watches.setdefault(path, {})[session_id] = None
        for path in children:
            node = self._nodes.get(path)
            if node is None:
                changed.append(WatchEvent(path, EventKind.DELETED))
            elif node.pzxid > zxid:
                changed.append(WatchEvent(path, EventKind.CHILDREN_CHANGED))
            else:
                self._child_watches.setdefault(path, {})[session_id] = None
        return tuple(Notification(session_id, event) for event in changed)

    # Operations.

    def submit(self, session_id: int, operation: Operation, now_ms: int) -> Answer:
        """Carry out an operation.

        Args:
            session_id: the session that submits the operation.
            operation: the operation; its watcher, if any, is not called, but means that a watch is to be set.
            now_ms: the time, in ms since the epoch.
        """
        if session_id not in self._identities:
            return Answer(RegistryError(RegistryCode.SESSION_EXPIRED, ""))
        refusal = refusal_of(operation)
        if refusal is not None:
            return Answer(refusal)
        try:
            match operation:
                case Transaction():
                    return self._transact(session_id, operation.operations, now_ms)
                case Create() | SetData() | Delete() | SetAcl():
                    changes = self._prepared(session_id, operation)
                    return self._carry_out(session_id, operation, changes, now_ms)
                case _:
                    return Answer(self._read(session_id, operation))
        except _Refused as refused:
            return Answer(RegistryError(refused.code, path_of(operation)))

    def _carry_out(self, session_id: int, operation: Change | SetAcl, change: NodeChange, now_ms: int) -> Answer:
        self.zxid += 1
        transaction = TreeTransaction(self.zxid, now_ms, (change,))
        watched = self._watched(change)
        self.apply(transaction)
        result = self._result(operation, change)
        return Answer(result, self._fired([watched]), transaction)

    def _transact(self, session_id: int, operations: Sequence[Change | Check], now_ms: int) -> Answer:
        """Carry out operations one after another; if one fails, undo those before it."""
        changes: list[NodeChange] = []
        results: list[Created | Stat | Deleted | VersionChecked] = []
        inverses: list[Callable[[], None]] = []
        watched: list[_Watched] = []
        zxid = self.zxid + 1
        for index, operation in enumerate(operations):
            try:
                if isinstance(operation, Check):
                    node = self._node(operation.path)
                    self._permit(session_id, node, Permission.READ)
                    _expect(operation.version, node.version)
                    results.append(VersionChecked(operation.path))
                    continue
                change = self._prepared(session_id, operation)
            except _Refused as refused:
                for undo in reversed(inverses):
                    undo()
                before, after = [RegistryCode.ROLLED_BACK] * index, len(operations) - index - 1
                codes = [*before, refused.code, *[RegistryCode.RUNTIME_INCONSISTENCY] * after]
                return Answer(TransactionFailed(operations, codes))
            inverses.append(self._inverse(change))
            watched.append(self._watched(change))
            self._change(change, zxid, now_ms)
            changes.append(change)
            results.append(self._result(operation, change))
        self.zxid = zxid
        events = self._fired(watched)
        return Answer(Committed(tuple(results)), events, TreeTransaction(zxid, now_ms, tuple(changes)))

    def _inverse(self, change: NodeChange) -> Callable[[], None]:
        """Return a function that undoes a change; call this method before the change is made."""
        path, parent = change.path, self._nodes[parent_of(change.path)]
        pzxid = parent.pzxid
        if change.kind is ChangeKind.CREATE:

            def undo() -> None:
                self._remove(path, pzxid)
                parent.creations -= 1

            return undo
        # Put back the original objects, since the inverses of earlier changes refer to them.
        node = self._nodes[path]
        if change.kind is ChangeKind.SET_DATA:
            before = node.data, node.mzxid, node.mtime_ms, node.version

            def write_back() -> None:
                node.data, node.mzxid, node.mtime_ms, node.version = before

            return write_back

        def put_back() -> None:
            self._nodes[path] = node
            parent.children[path.rpartition("/")[2]] = None
            parent.pzxid = pzxid
            if node.ephemeral_owner:
                self._ephemerals[node.ephemeral_owner][path] = None

        return put_back

    def _result(self, operation: Change | SetAcl, change: NodeChange) -> Created | Stat | Deleted:
        match operation:
            case Create():
                return Created(change.path)
            case Delete():
                return Deleted(change.path)
            case _:
                return self._nodes[change.path].stat()

    # Checks for operations that change the tree.

    def _prepared(self, session_id: int, operation: Change | SetAcl) -> NodeChange:
        match operation:
            case Create():
                return self._creation(session_id, operation)
            case Delete():
                return self._deletion(session_id, operation)
            case SetData():
                node = self._node(operation.path)
                self._permit(session_id, node, Permission.WRITE)
                _expect(operation.version, node.version)
                return NodeChange(ChangeKind.SET_DATA, operation.path, operation.data)
            case SetAcl():
                acl = self._resolved(session_id, operation.acl)
                node = self._node(operation.path)
                self._permit(session_id, node, Permission.ADMIN)
                _expect(operation.version, node.aversion)
                return NodeChange(ChangeKind.SET_ACL, operation.path, acl=acl)

    def _creation(self, session_id: int, operation: Create) -> NodeChange:
        path = operation.path
        acl = self._resolved(session_id, operation.acl)
        parent = self._node(parent_of(path))
        self._permit(session_id, parent, Permission.CREATE)
        if operation.mode.is_sequential:
            path += f"{parent.creations:010d}"
        if path in self._nodes:
            raise _Refused(RegistryCode.NODE_EXISTS)
        if parent.ephemeral_owner:
            raise _Refused(RegistryCode.NO_CHILDREN_FOR_EPHEMERALS)
        owner = session_id if operation.mode.is_ephemeral else 0
        return NodeChange(ChangeKind.CREATE, path, operation.data, acl, owner)

    def _deletion(self, session_id: int, operation: Delete) -> NodeChange:
        path = operation.path
        if path == "/":
            raise _Refused(RegistryCode.BAD_ARGUMENTS)
        parent = self._node(parent_of(path))
        self._permit(session_id, parent, Permission.DELETE)
        node = self._node(path)
        _expect(operation.version, node.version)
        if node.children:
            raise _Refused(RegistryCode.NOT_EMPTY)
        return NodeChange(ChangeKind.DELETE, path)

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise _Refused(RegistryCode.NO_NODE)
        return node

    def _permit(self, session_id: int, node: _Node, wanted: Permission) -> None:
        if not self._permits(session_id, node, wanted):
            raise _Refused(RegistryCode.NO_AUTH)

    def _permits(self, session_id: int, node: _Node, wanted: Permission) -> bool:
        """Return whether a session has one of the permissions."""
        return self._allows(session_id, node.acl, wanted)

    def _allows(self, session_id: int, acl: Iterable[Acl], wanted: Permission) -> bool:
        identities = self._identities[session_id]
        return any(
            entry.permissions & wanted
            and ((entry.scheme, entry.id) == ("world", "anyone") or (entry.scheme, entry.id) in identities)
            for entry in acl
        )

    def _resolved(self, session_id: int, acl: Sequence[Acl]) -> tuple[Acl, ...]:
        """Return an access control list with the session's identities in place of `auth`."""
        resolved: dict[Acl, None] = {}
        for entry in acl:
            if entry.scheme == "auth":
                own = sorted(self._identities[session_id])
                if not own:
                    raise _Refused(RegistryCode.INVALID_ACL)
                resolved |= {Acl(entry.permissions, scheme, identity): None for scheme, identity in own}
            elif (entry.scheme, entry.id) == ("world", "anyone") or _is_valid(entry):
                resolved[entry] = None
            else:
                raise _Refused(RegistryCode.INVALID_ACL)
        if not resolved:
            raise _Refused(RegistryCode.INVALID_ACL)
        return tuple(resolved)

    # Transactions.

    def apply(self, transaction: TreeTransaction) -> None:
        """Apply a transaction that another tree, equal to this one, has carried out. Watches do not fire."""
        for change in transaction.changes:
            self._change(change, transaction.zxid, transaction.time_ms)
        self.zxid = transaction.zxid

    def _change(self, change: NodeChange, zxid: int, time_ms: int) -> None:
        match change.kind:
            case ChangeKind.CREATE:
                owner = change.session_id
                node = _Node(change.data, change.acl, zxid, zxid, time_ms, time_ms, ephemeral_owner=owner, pzxid=zxid)
                self._nodes[change.path] = node
                parent = self._nodes[parent_of(change.path)]
                parent.children[change.path.rpartition("/")[2]] = None
                parent.creations += 1
                parent.pzxid = zxid
                if owner:
                    self._ephemerals.setdefault(owner, {})[change.path] = None
            case ChangeKind.DELETE:
                self._remove(change.path, zxid)
            case ChangeKind.SET_DATA:
                node = self._nodes[change.path]
                node.data, node.mzxid, node.mtime_ms = change.data, zxid, time_ms
                node.version += 1
            case ChangeKind.SET_ACL:
                node = self._nodes[change.path]
                node.acl = change.acl
                node.aversion += 1
            case ChangeKind.CLOSE_SESSION:
                for path in self._owned(change.session_id):
                    self._remove(path, zxid)
                self._ephemerals.pop(change.session_id, None)

    def _owned(self, session_id: int) -> list[str]:
        """Return a session's ephemeral nodes in the order of their creation."""
        return sorted(self._ephemerals.get(session_id, ()), key=lambda path: (self._nodes[path].czxid, path))

    def _remove(self, path: str, zxid: int) -> None:
        node = self._nodes.pop(path)
        parent = self._nodes[parent_of(path)]
        del parent.children[path.rpartition("/")[2]]
        parent.pzxid = zxid
        if node.ephemeral_owner:
            self._ephemerals.get(node.ephemeral_owner, {}).pop(path, None)

    # Reading, and watches.

    def _read(self, session_id: int, operation: GetData | Exists | GetChildren | GetAcl) -> Result:
        path = operation.path
        node = self._nodes.get(path)
        is_watched = not isinstance(operation, GetAcl) and operation.watcher is not None
        if isinstance(operation, Exists) and node is None and is_watched:
            self._data_watches.setdefault(path, {})[session_id] = None
        if node is None:
            raise _Refused(RegistryCode.NO_NODE)
        if isinstance(operation, GetAcl):
            return self._acl(session_id, node)
        self._permit(session_id, node, Permission.READ)
        if is_watched:
            watches = self._child_watches if isinstance(operation, GetChildren) else self._data_watches
            watches.setdefault(path, {})[session_id] = None
        match operation:
            case Exists():
                return node.stat()
            case GetData():
                return Data(node.data or b"", node.stat())
            case GetChildren():
                return Children(tuple(sorted(node.children)), node.stat())

    def _acl(self, session_id: int, node: _Node) -> NodeAcl:
        """Return a node's access control list; digests are hidden from sessions that may not change it."""
        self._permit(session_id, node, Permission.READ | Permission.ADMIN)
        acl = node.acl
        if not self._permits(session_id, node, Permission.ADMIN):
            acl = tuple(
                entry._replace(id=entry.id.partition(":")[0] + ":x") if entry.scheme == "digest" else entry
                for entry in acl
            )
        return NodeAcl(acl, node.stat())

    def _watched(self, change: NodeChange) -> _Watched:
        """Return what watches need to know about a change that has not been made yet."""
        path = change.path
        acl = change.acl if change.kind is ChangeKind.CREATE else self._nodes[path].acl
        return _Watched(path, change.kind, acl, self._nodes[parent_of(path)].acl)

    def _fired(self, changes: Iterable[_Watched]) -> tuple[Notification, ...]:
        """Return the notifications for changes, in order; each affected watch is removed, even if none is sent."""
        notifications: list[Notification] = []

        def fire(sessions: Iterable[int], path: str, kind: EventKind, acl: tuple[Acl, ...]) -> None:
            readers = [session for session in sessions if self._allows(session, acl, Permission.READ)]
            notifications.extend(Notification(session, WatchEvent(path, kind)) for session in readers)

        for path, kind, acl, parent_acl in changes:
            if kind is ChangeKind.SET_DATA:
                fire(self._data_watches.pop(path, {}), path, EventKind.CHANGED, acl)
            elif kind is ChangeKind.CREATE:
                fire(self._data_watches.pop(path, {}), path, EventKind.CREATED, acl)
            elif kind is ChangeKind.DELETE:
                # One notification for a session that has both kinds of watches.
                sessions = {**self._data_watches.pop(path, {}), **self._child_watches.pop(path, {})}
                fire(sessions, path, EventKind.DELETED, acl)
            if kind in (ChangeKind.CREATE, ChangeKind.DELETE):
                parent = parent_of(path)
                fire(self._child_watches.pop(parent, {}), parent, EventKind.CHILDREN_CHANGED, parent_acl)
        return tuple(notifications)


def _expect(expected: int, version: int) -> None:
    if expected not in (ANY_VERSION, version):
        raise _Refused(RegistryCode.BAD_VERSION)


def _is_valid(entry: Acl) -> bool:
    if entry.scheme == "digest":
        return len(entry.id.split(":")) == 2
    return entry.scheme in _SCHEMES and bool(entry.id)
