"""A tree of nodes with sessions; a test drives the tree operation by operation, and breaks the connections.

Nothing happens on its own: `MemoryRegistry.step` carries out a session's next operation, or delivers its next outcome
or event. A test therefore decides the order of everything; it can also hide an outcome, in which case the operation is
repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.sdk.registry.paths import parent_of
from kafkawire.sdk.registry.registry import (
    ANY_VERSION,
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
    Operation,
    Outcome,
    RegistryCode,
    RegistryError,
    SessionListener,
    SetAcl,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    Watcher,
    WatchEvent,
)

__all__ = ["MemoryRegistry", "Tree"]

Change = Create | SetData | Delete | Check


class Node:
    """One node."""

    def __init__(self, data: bytes, owner: int) -> None:
        self.data = data
        self.owner = owner
        self.version = 0


class Tree:
    """The nodes, which all sessions share.

    Attributes:
        nodes: the nodes, keyed by path.
        sessions: the sessions that the tree knows.
    """

    def __init__(self, *paths: str) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", 0)}
        self.sessions: dict[int, MemoryRegistry] = {}
        self._ids = 0
        self._watches: dict[tuple[str, str], dict[tuple[int, Watcher], None]] = {}
        for path in paths:
            self.put(path)

    def put(self, path: str, data: bytes = b"") -> None:
        """Create or write a node, with its parents."""
        if path not in self.nodes:
            if parent_of(path) not in self.nodes:
                self.put(parent_of(path))
            self.change(Create(path, data), 0)
        else:
            self.change(SetData(path, data), 0)

    def remove(self, path: str) -> None:
        """Delete a node and everything below it."""
        for each in sorted(self.nodes, reverse=True):
            if each == path or each.startswith(f"{path}/"):
                self.change(Delete(each), 0)

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names of a node's children."""
        parents = [each for each in self.nodes if each != "/" and parent_of(each) == path]
        return tuple(sorted(each.rpartition("/")[2] for each in parents))

    def new_session(self, registry: MemoryRegistry) -> int:
        """Return the id of a new session."""
        self._ids += 1
        self.sessions[self._ids] = registry
        return self._ids

    def end_session(self, session: int) -> None:
        """Delete a session's ephemeral nodes."""
        self.sessions.pop(session, None)
        for watchers in self._watches.values():
            for each in [each for each in watchers if each[0] == session]:
                del watchers[each]
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.change(Delete(path), 0)

    def carry_out(self, operation: Operation, session: int) -> Outcome:
        """Carry out a session's operation."""
        match operation:
            case Transaction(operations):
                return self._transaction(operations, session)
            case Create() | SetData() | Delete():
                code = self.refusal(operation)
                return self.change(operation, session) if code is None else RegistryError(code, operation.path)
            case GetData(path, watcher) | Exists(path, watcher) | GetChildren(path, watcher):
                node = self.nodes.get(path)
                if watcher is not None and (node is not None or isinstance(operation, Exists)):
                    kind = "children" if isinstance(operation, GetChildren) else "data"
                    self._watches.setdefault((kind, path), {})[session, watcher] = None
                if node is None:
                    return RegistryError(RegistryCode.NO_NODE, path)
                if isinstance(operation, GetData):
                    return Data(node.data, self.stat(path))
                if isinstance(operation, Exists):
                    return self.stat(path)
                return Children(self.children(path), self.stat(path))
            case GetAcl() | SetAcl():
                raise NotImplementedError

    def _transaction(self, operations: Sequence[Change], session: int) -> Outcome:
        before = {path: (node.data, node.owner, node.version) for path, node in self.nodes.items()}
        results: list[Any] = []
        events: list[tuple[str, EventKind]] = []
        for index, operation in enumerate(operations):
            code = self.refusal(operation)
            if code is not None:
                self.nodes = {path: Node(data, owner) for path, (data, owner, _) in before.items()}
                for path, (_, _, version) in before.items():
                    self.nodes[path].version = version
                after = len(operations) - index - 1
                codes = [RegistryCode.ROLLED_BACK] * index + [code] + [RegistryCode.RUNTIME_INCONSISTENCY] * after
                return TransactionFailed(operations, codes)
            results.append(self.change(operation, session, events))
        for path, kind in events:
            self._fire(path, kind)
        return Committed(tuple(results))

    def refusal(self, operation: Change) -> RegistryCode | None:
        """Return the reason why a change cannot be made, or None if it can."""
        path, node = operation.path, self.nodes.get(operation.path)
        if isinstance(operation, Create):
            if node is not None:
                return RegistryCode.NODE_EXISTS
            return None if parent_of(path) in self.nodes else RegistryCode.NO_NODE
        if node is None:
            return RegistryCode.NO_NODE
        if operation.version not in (ANY_VERSION, node.version):
            return RegistryCode.BAD_VERSION
        return RegistryCode.NOT_EMPTY if isinstance(operation, Delete) and self.children(path) else None

    def change(self, operation: Change, session: int, events: list[tuple[str, EventKind]] | None = None) -> Any:
        """Make a change that is not refused, and fire its events or append them to a list."""
        path = operation.path
        fired: list[tuple[str, EventKind]] = []
        result: Any
        match operation:
            case Create():
                self.nodes[path] = Node(operation.data or b"", session if operation.mode.is_ephemeral else 0)
                fired = [(path, EventKind.CREATED), (parent_of(path), EventKind.CHILDREN_CHANGED)]
                result = Created(path)
            case SetData():
                self.nodes[path].data = operation.data or b""
                self.nodes[path].version += 1
                fired = [(path, EventKind.CHANGED)]
                result = self.stat(path)
            case Delete():
                del self.nodes[path]
                fired = [(path, EventKind.DELETED), (parent_of(path), EventKind.CHILDREN_CHANGED)]
                result = Deleted(path)
            case Check():
                result = VersionChecked(path)
        if events is None:
            for each in fired:
                self._fire(*each)
        else:
            events += fired
        return result

    def _fire(self, path: str, kind: EventKind) -> None:
        kinds = ["children"] if kind is EventKind.CHILDREN_CHANGED else ["data"]
        if kind is EventKind.DELETED:
            kinds.append("children")
        fired: dict[tuple[int, Watcher], None] = {}
        for each in kinds:
            fired |= self._watches.pop((each, path), {})
        for session, watcher in fired:
            self.sessions[session].deliver(lambda watcher=watcher: watcher(WatchEvent(path, kind)))

    def stat(self, path: str) -> Stat:
        """Return a node's state, except for transactions and times, which are not kept."""
        node = self.nodes[path]
        return Stat(0, 0, 0, 0, node.version, 0, 0, node.owner, len(node.data), len(self.children(path)), 0)

    def owners(self, group_id: str) -> dict[str, str]:
        """Return the owner of each partition, keyed by topic and number as in `t/0`."""
        prefix = f"/consumers/{group_id}/owners/"
        paths = [path for path in self.nodes if path.startswith(prefix) and path.count("/") == prefix.count("/") + 1]
        return {path.removeprefix(prefix): self.nodes[path].data.decode() for path in paths}


class MemoryRegistry:
    """A session with a tree; see `Registry`.

    Args:
        tree: the nodes.
        session_timeout_ms: the timeout that the servers grant.

    Attributes:
        is_connected: whether the session is connected, so that operations are carried out.
        carried_out: the operations carried out so far, in order.
        refuse: returns the error for an operation, or None to carry it out.
    """

    def __init__(self, tree: Tree, session_timeout_ms: int = 6_000) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._tree = tree
        self.session_id = tree.new_session(self)
        self.is_connected = True
        self.carried_out: list[Operation] = []
        self.refuse: Callable[[Operation], RegistryError | None] = lambda operation: None
        self._listeners: list[SessionListener] = []
        self._deliveries: deque[Callable[[], None]] = deque()
        self._queue: deque[tuple[Sequence[Operation], list[Outcome], Callable[[tuple[Outcome, ...]], None]]] = deque()

    # Registry.

    def describe(self) -> str:
        return "memory"

    def start(self) -> None:
        """Do nothing, because the session already exists."""

    def add_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: SessionListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        self._queue.append((operations, [], done))

    def close(self, timeout_ms: int) -> None:
        self._fail_all(RegistryCode.CLOSED)
        self._tree.end_session(self.session_id)
        self.session_id = 0

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        self.close(timeout_ms)
        self.deliver(closed)

    def abandon(self) -> None:
        self._fail_all(RegistryCode.CLOSED)
        self.session_id = 0

    # The test's side.

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.is_connected or not (self._deliveries or self._queue)

    def deliver(self, call: Callable[[], None]) -> None:
        """Queue an event for delivery."""
        self._deliveries.append(call)

    def step(self, *, is_seen: bool = True) -> None:
        """Deliver an outcome or event, or carry out an operation, which is repeated if its outcome is hidden."""
        if self._deliveries and self.is_connected:
            self._deliveries.popleft()()
            return
        if not self._queue or not self.is_connected:
            return
        operations, outcomes, done = self._queue[0]
        if len(outcomes) < len(operations):
            operation = operations[len(outcomes)]
            refusal = self.refuse(operation)
            outcome = self._tree.carry_out(operation, self.session_id) if refusal is None else refusal
            self.carried_out.append(operation)
            if is_seen:
                outcomes.append(outcome)
        if len(outcomes) == len(operations):
            self._queue.popleft()
            self.deliver(lambda: done(tuple(outcomes)))

    def run(self) -> None:
        """Do everything that is due now, but nothing that results from it."""
        while not self.is_quiet:
            self.step()

    def disconnect(self) -> None:
        """Lose the connection, but keep the session."""
        if self.is_connected:
            self.is_connected = False
            for listener in list(self._listeners):
                listener.suspended()

    def reconnect(self) -> None:
        """Connect again; if the tree has ended the former session, begin a new one."""
        if self.is_connected:
            return
        self.is_connected = True
        if self.session_id in self._tree.sessions:
            for listener in list(self._listeners):
                listener.connected()
        else:
            self._begin_session()

    def expire(self) -> None:
        """End the session, and begin another one."""
        self._tree.end_session(self.session_id)
        self.is_connected = True
        self._begin_session()

    def _begin_session(self) -> None:
        self._deliveries.clear()
        self._fail_all(RegistryCode.SESSION_EXPIRED)
        self.session_id = 0
        for listener in list(self._listeners):
            listener.expired()
        self.session_id = self._tree.new_session(self)
        for listener in list(self._listeners):
            listener.opened()

    def _fail_all(self, code: RegistryCode) -> None:
        failed = list(self._queue)
        self._queue.clear()
        for operations, outcomes, done in failed:
            left = [RegistryError(code, "") for _ in operations[len(outcomes) :]]
            done((*outcomes, *left))
