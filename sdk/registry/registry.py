"""The interface to the registry of a cluster: operations, outcomes, watches, sessions.

The registry is a tree of nodes with versions, as in ZooKeeper. `submit` takes operations and reports their outcomes to
a callback; `steps.py` makes sequences of operations readable. There are two implementations, `zookeeper.py` and
`reference_broker/cluster/embedded_registry.py`; both pass the suite in `tests/sdk/registry/registry_cases.py`.

Callbacks, watchers and listeners run on the owner's thread, one after another, and never inside a call to the registry.
Operations are tuples, so `Exists(p) == GetData(p)`: check the type before comparing values.

Source: `ZooKeeper`, `KeeperException` in Apache ZooKeeper; `ZooKeeperClient` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.paths import path_problem

__all__ = [
    "ANY_VERSION",
    "PENDING_BYTES_MAX",
    "PENDING_MAX",
    "REQUEST_BYTES_MAX",
    "SESSION_ENDED",
    "Change",
    "Check",
    "Children",
    "Committed",
    "Create",
    "CreateMode",
    "Created",
    "Data",
    "Delete",
    "Deleted",
    "EventKind",
    "Exists",
    "GetAcl",
    "GetChildren",
    "GetData",
    "NodeAcl",
    "Operation",
    "Outcome",
    "Post",
    "Registry",
    "RegistryCode",
    "RegistryError",
    "Result",
    "SessionListener",
    "SetAcl",
    "SetData",
    "Stat",
    "Transaction",
    "TransactionFailed",
    "VersionChecked",
    "WatchEvent",
    "Watcher",
    "path_of",
    "refusal_of",
    "request_size_bytes",
]

#: The version to pass in an operation that accepts any version of the node.
ANY_VERSION: Final = -1

#: The maximum size of a request, including data, paths and lists; with the default `jute.maxbuffer`, ZooKeeper drops
#: the connection of a client that sends a larger one.
REQUEST_BYTES_MAX: Final = 0xFFFFF

#: The maximum number of operations of one session that may wait for the registry; further operations are refused with
#: TOO_MANY_PENDING. While ZooKeeper cannot be reached, waiting operations are kept in memory.
PENDING_MAX: Final = 100_000
#: The maximum total size of the waiting operations, in bytes.
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024


class RegistryCode(Enum):
    """The reason why an operation failed."""

    #: The node, or the parent of a new node, does not exist.
    NO_NODE = auto()
    NODE_EXISTS = auto()
    #: The node does not have the expected version.
    BAD_VERSION = auto()
    #: A node with children cannot be deleted.
    NOT_EMPTY = auto()
    NO_CHILDREN_FOR_EPHEMERALS = auto()
    #: The access control list does not allow this session to perform the operation.
    NO_AUTH = auto()
    INVALID_ACL = auto()
    #: The path is invalid, or the node cannot be deleted or written.
    BAD_ARGUMENTS = auto()
    #: The request is larger than `REQUEST_BYTES_MAX`.
    REQUEST_TOO_LARGE = auto()
    #: Too many operations are already waiting; see `PENDING_MAX`.
    TOO_MANY_PENDING = auto()
    #: The session has ended; the operation may or may not have been carried out.
    SESSION_EXPIRED = auto()
    #: The registry has refused this program's credentials.
    AUTH_FAILED = auto()
    #: This program has closed the registry.
    CLOSED = auto()
    #: The registry's disk has failed.
    STORAGE_FAILED = auto()
    #: A later operation of the same transaction failed, so this one was undone.
    ROLLED_BACK = auto()
    #: An earlier operation of the same transaction failed, so this one was not tried.
    RUNTIME_INCONSISTENCY = auto()
    #: Any other error; the text says which.
    UNEXPECTED = auto()


#: The codes of operations that failed because their session is gone or never existed.
SESSION_ENDED: Final = frozenset({RegistryCode.SESSION_EXPIRED, RegistryCode.AUTH_FAILED, RegistryCode.CLOSED})


class RegistryError(KafkaWireError):
    """The registry has not carried out an operation.

    Base decisions on `code`. After SESSION_EXPIRED, the operation may be submitted again in the new session; whether it
    was carried out in the old session is unknown.

    Args:
        code: the reason.
        path: the node; empty if the error does not concern a single node.
        detail: details of the error, for example the address of the registry, or the value and the limit.
    """

    def __init__(self, code: RegistryCode, path: str, detail: str = "") -> None:
        super().__init__(": ".join(f"{part}" for part in (code.name, path, detail) if part))
        self.code = code
        self.path = path
        self.detail = detail
        self.retriable = code in (RegistryCode.SESSION_EXPIRED, RegistryCode.TOO_MANY_PENDING)


class TransactionFailed(RegistryError):
    """No operation in a transaction has been carried out, because one of them failed.

    `code` and `path` belong to the operation that failed.

    Args:
        operations: the operations of the transaction.
        codes: the code of each operation: ROLLED_BACK before the failed one, RUNTIME_INCONSISTENCY after it.

    Attributes:
        index: the position of the failed operation.
        codes: see above.
    """

    def __init__(self, operations: Sequence[Change | Check], codes: Sequence[RegistryCode]) -> None:
        index = next((at for at, code in enumerate(codes) if code is not RegistryCode.ROLLED_BACK), 0)
        failed = operations[index]
        place = f"operation {index + 1} of {len(operations)} in a transaction, {type(failed).__name__}"
        super().__init__(codes[index], failed.path, place)
        self.index = index
        self.codes = tuple(codes)


class EventKind(Enum):
    """What happened to a watched node."""

    CREATED = auto()
    DELETED = auto()
    #: Its data was set.
    CHANGED = auto()
    #: A child was created or deleted.
    CHILDREN_CHANGED = auto()


class WatchEvent(NamedTuple):
    """A watch has fired. It fires once: later changes are reported only after another read with a watcher.

    Attributes:
        path: the node.
        kind: what happened. After a lost connection, this is the difference from the state that the session last saw,
            however many changes there were: a node that was deleted and recreated is CHANGED. Changes that the reader
            has already seen may be reported again.
    """

    path: str
    kind: EventKind


#: Called with the event; a watcher set twice on the same path is called once.
Watcher = Callable[[WatchEvent], None]


class CreateMode(Enum):
    """The kind of a new node."""

    PERSISTENT = auto()
    #: Deleted at the end of the session; has no children.
    EPHEMERAL = auto()
    #: Ten digits are appended to the path: the number of nodes ever created under the parent.
    PERSISTENT_SEQUENTIAL = auto()
    EPHEMERAL_SEQUENTIAL = auto()

    @property
    def is_ephemeral(self) -> bool:
        """Whether the node is deleted when the session ends."""
        return self in (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL)

    @property
    def is_sequential(self) -> bool:
        """Whether a number is appended to the path."""
        return self in (CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL)


# Operations.


class Create(NamedTuple):
    """Create a node; its parent must exist. Outcome: `Created`.

    Attributes:
        path: the node.
        data: its content; None for no data, which Kafka uses for folders and which is read as empty bytes.
        mode: its kind.
        acl: its access control list.
    """

    path: str
    data: bytes | None = None
    mode: CreateMode = CreateMode.PERSISTENT
    acl: tuple[Acl, ...] = OPEN_ACL


class SetData(NamedTuple):
    """Replace the data of a node. Outcome: its new `Stat`.

    Attributes:
        path: the node.
        data: the new content.
        version: the expected version of the data.
    """

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node without children. Outcome: `Deleted`.

    Attributes:
        path: the node.
        version: the expected version of the data.
    """

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Check the version of a node, as part of a transaction. Outcome: `VersionChecked`.

    Attributes:
        path: the node.
        version: the expected version of the data.
    """

    path: str
    version: int


class GetData(NamedTuple):
    """Read a node. Outcome: `Data`.

    Attributes:
        path: the node.
        watcher: called once when the data is set or the node deleted; never called if the outcome is an error.
    """

    path: str
    watcher: Watcher | None = None


class Exists(NamedTuple):
    """Look for a node. Outcome: its `Stat`, or NO_NODE.

    Attributes:
        path: the node.
        watcher: called once when the node is created, written or deleted, even if the outcome is NO_NODE.
    """

    path: str
    watcher: Watcher | None = None


class GetChildren(NamedTuple):
    """List the children of a node. Outcome: `Children`.

    Attributes:
        path: the node.
        watcher: called once when a child is created or deleted, or the node itself is deleted; never called if the
            outcome is an error.
    """

    path: str
    watcher: Watcher | None = None


class GetAcl(NamedTuple):
    """Read the access control list of a node. Outcome: `NodeAcl`.

    Attributes:
        path: the node.
    """

    path: str


class SetAcl(NamedTuple):
    """Replace the access control list of a node. Outcome: its new `Stat`.

    Attributes:
        path: the node.
        acl: the new list.
        version: the expected version of the list (`Stat.aversion`).
    """

    path: str
    acl: tuple[Acl, ...]
    version: int = ANY_VERSION


#: The operations that change the tree; they may be part of a transaction.
Change = Create | SetData | Delete


class Transaction(NamedTuple):
    """Carry out all operations or none. Outcome: `Committed`, or `TransactionFailed`.

    Attributes:
        operations: the operations; each sees the effects of the previous ones.
    """

    operations: tuple[Change | Check, ...]


Operation = Create | SetData | Delete | GetData | Exists | GetChildren | GetAcl | SetAcl | Transaction


# Outcomes.


class Stat(NamedTuple):
    """The state of a node, apart from its data. The fields have ZooKeeper's names.

    Attributes:
        czxid: the transaction that created the node.
        mzxid: the transaction that last set its data.
        ctime_ms: the time at which the node was created.
        mtime_ms: the time at which its data was last set.
        version: how many times its data has been set.
        cversion: how many times a child has been created or deleted.
        aversion: how many times its access control list has been set.
        ephemeral_owner: the session that the node ends with; 0 for a persistent node.
        size_bytes: the length of its data.
        children: the number of its children.
        pzxid: the transaction that last created or deleted a child.
    """

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    size_bytes: int
    children: int
    pzxid: int


class Created(NamedTuple):
    """A node has been created.

    Attributes:
        path: the node, including its number if it is sequential.
    """

    path: str


class Deleted(NamedTuple):
    """A node has been deleted.

    Attributes:
        path: the node.
    """

    path: str


class VersionChecked(NamedTuple):
    """A node has the expected version.

    Attributes:
        path: the node.
    """

    path: str


class Data(NamedTuple):
    """The content of a node.

    Attributes:
        data: the data; empty if the node has none.
        stat: the rest of the node's state.
    """

    data: bytes
    stat: Stat


class Children(NamedTuple):
    """The children of a node.

    Attributes:
        names: their names, sorted.
        stat: the state of the node itself.
    """

    names: tuple[str, ...]
    stat: Stat


class NodeAcl(NamedTuple):
    """The access control list of a node.

    Attributes:
        acl: the list.
        stat: the rest of the node's state.
    """

    acl: tuple[Acl, ...]
    stat: Stat


class Committed(NamedTuple):
    """A transaction has been carried out.

    Attributes:
        results: the results of its operations, in order.
    """

    results: tuple[Created | Stat | Deleted | VersionChecked, ...]


Result = Created | Stat | Deleted | VersionChecked | Data | Children | NodeAcl | Committed
Outcome = Result | RegistryError


# The registry.

#: Has the owner's thread call a function soon, in the order of the calls to `Post` and never before that call returns.
#: May be called on any thread.
Post = Callable[[Callable[[], None]], None]


class SessionListener:
    """Is told about the session. A subclass overrides only the methods that it needs.

    A session begins with `opened`. After that, `suspended` and `connected` alternate. When the session ends, `expired`
    is called, followed by `opened` once the registry has opened the next session.
    """

    def opened(self) -> None:
        """Handle a new session, which is connected: create ephemeral nodes and set watches again."""

    def suspended(self) -> None:
        """Handle a lost connection. The session, with its nodes and watches, may live on or may end."""

    def connected(self) -> None:
        """Handle a restored connection; the session's ephemeral nodes and watches still exist."""

    def expired(self) -> None:
        """Handle the end of the session.

        All operations of the session have failed with SESSION_EXPIRED, or with AUTH_FAILED after `refused`; its
        watchers will not be called. Operations submitted from now on wait for the next session.
        """

    def refused(self, error: RegistryError) -> None:
        """Handle refused credentials; the login will be tried again.

        Args:
            error: AUTH_FAILED, with the address. All waiting operations have failed with this error.
        """


class Registry(Protocol):
    """A session with the registry of a cluster; when it expires, another one follows.

    All methods are called on the owner's thread. Only `close` blocks, so do not call it in an event loop.
    """

    @property
    def session_id(self) -> int:
        """The id of the current session; 0 between two sessions. Restoring a lost connection does not change it."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """The time without a connection after which the session may end; the servers may reduce it."""
        ...

    def describe(self) -> str:
        """Return the kind and the address of this registry, for log lines and errors."""
        ...

    def start(self) -> None:
        """Begin to connect; `opened` is called later. Operations may be submitted before that."""
        ...

    def add_listener(self, listener: SessionListener) -> None:
        """Tell a listener about session changes from now on; listeners added earlier are told first."""
        ...

    def remove_listener(self, listener: SessionListener) -> None:
        """Stop telling a listener about changes."""
        ...

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        """Carry out operations.

        Operations are sent one after another without waiting for outcomes, and are carried out in the order of
        submission, across all calls. Each one succeeds or fails independently. Submit an operation that depends on
        another's outcome only once that outcome is known.

        A watcher receives the event of a change before any outcome that shows the change. While the registry cannot be
        reached, operations wait. An operation whose outcome was lost with a connection is sent again, so it may be
        carried out twice: if a node "already exists", this very operation may have created it.

        Args:
            operations: the operations; may be empty.
            done: called once with an outcome for each operation: its result or an error. Errors are never raised.
        """
        ...

    def close(self, timeout_ms: int) -> None:
        """End the session, with its ephemeral nodes, and fail waiting operations with CLOSED.

        Outcomes are reported after this call, as always. Repeated calls are allowed.

        Args:
            timeout_ms: how long the call may take. If the registry has not answered by then, the session ends when it
                times out.
        """
        ...

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        """Do the same as `close`, but without blocking.

        Args:
            timeout_ms: how long to wait for the registry.
            closed: called on any thread once the session has ended or the time has run out.
        """
        ...

    def abandon(self) -> None:
        """Drop the connection immediately and fail waiting operations with CLOSED, as if the process had been killed.

        The session, with its ephemeral nodes, lives on in the registry until its timeout. Operations that were already
        sent may still be carried out. Outcomes are reported after this call, as always; `close` then does nothing.
        """
        ...


def path_of(operation: Operation | Check) -> str:
    """Return the path of an operation; for a transaction, the path of its first operation."""
    if isinstance(operation, Transaction):
        return operation.operations[0].path if operation.operations else ""
    return operation.path


def refusal_of(operation: Operation, prefix_bytes: int = 0) -> RegistryError | None:
    """Return the error for an operation that must not be sent; None if it may be sent.

    Args:
        operation: the operation to send.
        prefix_bytes: the length of the prefix of each path.
    """
    parts = operation.operations if isinstance(operation, Transaction) else (operation,)
    for part in parts:
        is_sequential = isinstance(part, Create) and part.mode.is_sequential
        problem = path_problem(part.path, is_sequential=is_sequential)
        if problem is not None:
            return RegistryError(RegistryCode.BAD_ARGUMENTS, part.path, problem)
        problem = _value_problem(part)
        if problem is not None:
            return RegistryError(RegistryCode.BAD_ARGUMENTS, part.path, problem)
    size_bytes = request_size_bytes(operation, prefix_bytes)
    if size_bytes > REQUEST_BYTES_MAX:
        detail = f"the request takes {size_bytes} bytes, but at most {REQUEST_BYTES_MAX} are allowed"
        return RegistryError(RegistryCode.REQUEST_TOO_LARGE, path_of(operation), detail)
    return None


def _value_problem(operation: Operation | Check) -> str | None:
    """Return which part of an operation, apart from its path, ZooKeeper's protocol cannot express; None if none."""
    data: object = operation.data if isinstance(operation, Create | SetData) else None
    if not isinstance(data, bytes | None):
        return f"the data is of type {type(data).__name__}; it must be bytes"
    if isinstance(operation, SetData | Delete | Check | SetAcl) and not _is_int32(operation.version):
        return f"the version {operation.version!r} is not a 32-bit number"
    if isinstance(operation, Create | SetAcl):
        for entry in operation.acl:
            if not _is_int32(entry.permissions):
                return f"the permissions {entry.permissions!r} are not a 32-bit number"
            if any("\ud800" <= character <= "\udfff" for character in entry.scheme + entry.id):
                return f"the identity {entry.scheme}:{entry.id!r} has characters that cannot be encoded"
    return None


def _is_int32(value: object) -> bool:
    return isinstance(value, int) and -(2**31) <= value < 2**31


def request_size_bytes(operation: Operation, prefix_bytes: int = 0) -> int:
    """Return the length of a request in ZooKeeper's protocol.

    Args:
        operation: the operation that the request carries out.
        prefix_bytes: the length of the prefix of each path.
    """
    if isinstance(operation, Transaction):
        parts = sum(_MULTI_HEADER_BYTES + _size_bytes(part, prefix_bytes) for part in operation.operations)
        return _HEADER_BYTES + parts + _MULTI_HEADER_BYTES
    return _HEADER_BYTES + _size_bytes(operation, prefix_bytes)


#: The transaction id and the type of a request.
_HEADER_BYTES: Final = 8
#: Type, end mark, error.
_MULTI_HEADER_BYTES: Final = 9
#: Lengths, versions and flags.
_INT_BYTES: Final = 4


def _size_bytes(operation: Operation | Check, prefix_bytes: int) -> int:
    size = _INT_BYTES + prefix_bytes + len(path_of(operation).encode("utf-8", "surrogatepass"))
    match operation:
        case Create():
            size += _INT_BYTES + _data_bytes(operation.data) + _acl_bytes(operation.acl) + _INT_BYTES
        case SetData():
            size += _INT_BYTES + _data_bytes(operation.data) + _INT_BYTES
        case SetAcl():
            size += _acl_bytes(operation.acl) + _INT_BYTES
        case Delete() | Check():
            size += _INT_BYTES
        case GetAcl():
            pass
        case _:
            size += 1  # the watch flag
    return size


def _data_bytes(data: object) -> int:
    # Data of any other type is refused only when its turn comes, not on submission.
    return len(data) if isinstance(data, bytes) else 0


def _acl_bytes(acl: tuple[Acl, ...]) -> int:
    texts = (text for entry in acl for text in (entry.scheme, entry.id))
    return _INT_BYTES + 3 * _INT_BYTES * len(acl) + sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
