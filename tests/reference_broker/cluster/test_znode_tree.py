"""The tree behaves like a simple model of ZooKeeper, and another tree that applies its transactions is identical to it.

Method: let hypothesis generate sequences of operations from several sessions, and apply them to the tree and to the
model, which copies everything before each transaction. The registry suite compares the tree with a real ZooKeeper.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkawire.reference_broker.cluster.znode_tree import (
    Answer,
    ChangeKind,
    NodeChange,
    Notification,
    TreeTransaction,
    ZnodeTree,
)
from kafkawire.sdk.registry.acls import OPEN_ACL
from kafkawire.sdk.registry.registry import (
    Check,
    Children,
    Committed,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    Deleted,
    EventKind,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Outcome,
    RegistryError,
    SetAcl,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    WatchEvent,
)


class Refused(Exception):
    """The model refuses an operation; the argument is the name of the error code."""


@dataclass
class ModelNode:
    """A node, with all the numbers in its `Stat`."""

    data: bytes | None
    owner: int
    zxid: int
    time_ms: int
    mzxid: int
    mtime_ms: int
    version: int = 0
    aversion: int = 0
    creations: int = 0
    deletions: int = 0
    pzxid: int = 0


@dataclass
class Model:
    """All nodes, keyed by path, and the sessions that watch them."""

    nodes: dict[str, ModelNode] = field(default_factory=lambda: {"/": ModelNode(b"", 0, 0, 0, 0, 0)})
    data_watches: set[tuple[str, int]] = field(default_factory=set)
    child_watches: set[tuple[str, int]] = field(default_factory=set)

    def children(self, path: str) -> list[str]:
        return sorted(each.rpartition("/")[2] for each in self.nodes if each != "/" and parent(each) == path)

    def stat(self, path: str) -> Stat:
        node = self.nodes[path]
        cversion, size_bytes = node.creations + node.deletions, len(node.data or b"")
        numbers = node.version, cversion, node.aversion, node.owner, size_bytes
        times = node.zxid, node.mzxid, node.time_ms, node.mtime_ms
        return Stat(*times, *numbers, len(self.children(path)), node.pzxid)

    def change(self, operation: Any, session: int, zxid: int, now_ms: int) -> tuple[Any, tuple[str, ChangeKind] | None]:
        """Apply a part of a transaction; return its result and its changes."""
        path = operation.path
        match operation:
            case Create():
                above = self.nodes.get(parent(path))
                if above is None:
                    raise Refused("NO_NODE")
                if operation.mode.is_sequential:
                    path += str(above.creations).rjust(10, "0")
                if path in self.nodes:
                    raise Refused("NODE_EXISTS")
                if above.owner:
                    raise Refused("NO_CHILDREN_FOR_EPHEMERALS")
                owner = session if operation.mode.is_ephemeral else 0
                self.nodes[path] = ModelNode(operation.data, owner, zxid, now_ms, zxid, now_ms, pzxid=zxid)
                above.creations += 1
                above.pzxid = zxid
                return Created(path), (path, ChangeKind.CREATE)
            case Delete() if path == "/":
                raise Refused("BAD_ARGUMENTS")
        if path not in self.nodes:
            raise Refused("NO_NODE")
        node = self.nodes[path]
        expected = node.aversion if isinstance(operation, SetAcl) else node.version
        if operation.version not in (-1, expected):
            raise Refused("BAD_VERSION")
        match operation:
            case Delete():
                if self.children(path):
                    raise Refused("NOT_EMPTY")
                self.delete(path, zxid)
                return Deleted(path), (path, ChangeKind.DELETE)
            case SetData():
                node.data, node.mzxid, node.mtime_ms = operation.data, zxid, now_ms
                node.version += 1
                return self.stat(path), (path, ChangeKind.SET_DATA)
            case SetAcl():
                node.aversion += 1
                return self.stat(path), None
        return VersionChecked(path), None

    def delete(self, path: str, zxid: int) -> None:
        del self.nodes[path]
        above = self.nodes[parent(path)]
        above.deletions += 1
        above.pzxid = zxid

    def events(self, changes: list[tuple[str, ChangeKind]]) -> list[Notification]:
        """Return the notifications that changes cause, and remove the watches that fired."""
        found: list[Notification] = []
        names = {
            ChangeKind.CREATE: EventKind.CREATED,
            ChangeKind.DELETE: EventKind.DELETED,
            ChangeKind.SET_DATA: EventKind.CHANGED,
        }
        for path, kind in changes:
            watching = {session for watched, session in self.data_watches if watched == path}
            self.data_watches -= {(path, session) for session in watching}
            if kind is ChangeKind.DELETE:
                below = {session for watched, session in self.child_watches if watched == path}
                self.child_watches -= {(path, session) for session in below}
                watching |= below
            found += [Notification(session, WatchEvent(path, names[kind])) for session in watching]
            if kind is not ChangeKind.SET_DATA:
                above = parent(path)
                watching = {session for watched, session in self.child_watches if watched == above}
                self.child_watches -= {(above, session) for session in watching}
                found += [Notification(session, WatchEvent(above, EventKind.CHILDREN_CHANGED)) for session in watching]
        return found


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def ignore(event: WatchEvent) -> None:
    """Ignore an event."""


PATHS = strategies.sampled_from(["/", "/a", "/b", "/a/c", "/a/d", "/a/c/e", "/b/f"])
VERSIONS = strategies.sampled_from([-1, -1, 0, 1, 2])
CONTENT = strategies.sampled_from([None, b"", b"x", b"yz"])
OPEN = strategies.just(OPEN_ACL)
CHANGES = strategies.one_of(
    strategies.builds(Create, PATHS, CONTENT, strategies.sampled_from(CreateMode), OPEN),
    strategies.builds(Create, PATHS, CONTENT, strategies.just(CreateMode.PERSISTENT), OPEN),
    strategies.builds(SetData, PATHS, CONTENT, VERSIONS),
    strategies.builds(Delete, PATHS, VERSIONS),
)
ALONE = strategies.one_of(CHANGES, strategies.builds(SetAcl, PATHS, OPEN, VERSIONS))
PARTS = strategies.one_of(CHANGES, strategies.builds(Check, PATHS, VERSIONS))
SESSIONS = strategies.integers(0, 2)


class TreeMachine(RuleBasedStateMachine):
    """The tree, the model, and another tree that applies the first tree's transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.tree, self.follower, self.model = ZnodeTree(), ZnodeTree(), Model()
        self.sessions = [self.tree.open_session() for _ in range(3)]
        self.now_ms = 1_000

    def ask(self, session: int, operation: Operation) -> Answer:
        self.now_ms += 1
        before = self.tree.zxid
        answer = self.tree.submit(session, operation, self.now_ms)
        if answer.transaction is not None:
            assert answer.transaction.zxid == self.tree.zxid > before
            self.follower.apply(answer.transaction)
        else:
            assert self.tree.zxid == before
            assert not answer.notifications
        return answer

    def compare(self, found: Outcome, code: str | None, result: Any) -> None:
        if code is None:
            assert found == result
            assert type(found) is type(result)
        else:
            assert isinstance(found, RegistryError)
            assert found.code.name == code

    def notified(self, answer: Answer, changes: list[tuple[str, ChangeKind]]) -> None:
        expected = self.model.events(changes)
        assert sorted(answer.notifications, key=repr) == sorted(expected, key=repr)
        assert [each.event for each in answer.notifications] == [each.event for each in expected]

    @rule(which=SESSIONS, operation=ALONE)
    def change(self, which: int, operation: Any) -> None:
        answer = self.ask(self.sessions[which], operation)
        try:
            result, change = self.model.change(operation, self.sessions[which], self.tree.zxid, self.now_ms)
        except Refused as refused:
            self.compare(answer.outcome, str(refused), None)
            return
        self.compare(answer.outcome, None, result)
        self.notified(answer, [change] if change else [])

    @rule(which=SESSIONS, parts=strategies.lists(PARTS, max_size=6))
    def transact(self, which: int, parts: list[Any]) -> None:
        answer = self.ask(self.sessions[which], Transaction(tuple(parts)))
        before = deepcopy(self.model)
        results, changes, code = self.model_transaction(which, parts)
        if code is None:
            self.compare(answer.outcome, None, Committed(tuple(results)))
            self.notified(answer, changes)
            return
        self.model = before
        assert isinstance(answer.outcome, TransactionFailed)
        after = ["RUNTIME_INCONSISTENCY"] * (len(parts) - len(results) - 1)
        assert [each.name for each in answer.outcome.codes] == ["ROLLED_BACK"] * len(results) + [code] + after

    def model_transaction(
        self, which: int, parts: list[Any]
    ) -> tuple[list[Any], list[tuple[str, ChangeKind]], str | None]:
        """Apply the parts; return their results, their changes, and the code of the part that failed."""
        results, changes = [], []
        for part in parts:
            try:
                result, change = self.model.change(part, self.sessions[which], self.tree.zxid, self.now_ms)
            except Refused as refused:
                return results, changes, str(refused)
            results.append(result)
            changes += [change] if change else []
        return results, changes, None

    @rule(which=SESSIONS, path=PATHS, watches=strategies.booleans())
    def read(self, which: int, path: str, watches: bool) -> None:
        session, watcher = self.sessions[which], ignore if watches else None
        exists = path in self.model.nodes
        node = self.model.nodes.get(path)
        code = None if exists else "NO_NODE"
        stat = self.model.stat(path) if exists else None
        data = Data(node.data or b"", self.model.stat(path)) if node else None
        children = Children(tuple(self.model.children(path)), self.model.stat(path)) if exists else None
        self.compare(self.ask(session, GetData(path, watcher)).outcome, code, data)
        self.compare(self.ask(session, GetChildren(path, watcher)).outcome, code, children)
        self.compare(self.ask(session, Exists(path, watcher)).outcome, code, stat)
        if watches:
            self.model.data_watches.add((path, session))
            if exists:
                self.model.child_watches.add((path, session))

    @rule(which=SESSIONS)
    def end_session(self, which: int) -> None:
        session = self.sessions[which]
        owned = [path for path, node in self.model.nodes.items() if node.owner == session]
        owned.sort(key=lambda path: (self.model.nodes[path].zxid, path))
        self.model.data_watches = {each for each in self.model.data_watches if each[1] != session}
        self.model.child_watches = {each for each in self.model.child_watches if each[1] != session}
        transaction, notifications = self.tree.close_session(session, self.now_ms)
        assert (transaction is None) == (not owned)
        if transaction is not None:
            self.follower.apply(transaction)
            for path in owned:
                self.model.delete(path, transaction.zxid)
        self.notified(Answer(Deleted(""), notifications), [(path, ChangeKind.DELETE) for path in owned])
        assert not self.tree.has_session(session)
        late = self.tree.submit(session, Exists("/"), self.now_ms).outcome
        self.compare(late, "SESSION_EXPIRED", None)
        self.sessions[which] = self.tree.open_session()

    @invariant()
    def trees_are_equal(self) -> None:
        nodes = {node.path: node for node in self.tree.nodes()}
        assert nodes == {node.path: node for node in self.follower.nodes()}
        assert len(nodes) == self.tree.node_count
        assert set(nodes) == set(self.model.nodes)
        restored = ZnodeTree(self.tree.nodes(), self.tree.zxid)
        assert {node.path: node for node in restored.nodes()} == nodes
        assert set(restored.sessions) == {node.owner for node in self.model.nodes.values() if node.owner}
        assert set(restored.sessions) <= set(self.tree.sessions)


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_a_session_that_is_closed_twice() -> None:
    tree = ZnodeTree()
    session = tree.open_session()
    tree.submit(session, Create("/e", mode=CreateMode.EPHEMERAL), 1)
    transaction, _ = tree.close_session(session, 2)
    assert transaction == TreeTransaction(3, 2, (NodeChange(ChangeKind.CLOSE_SESSION, "", session_id=session),))
    assert tree.close_session(session, 3) == (None, ())


def test_the_end_of_a_session_changes_the_parents_of_its_nodes() -> None:
    tree = ZnodeTree()
    one, other = tree.open_session(), tree.open_session()
    tree.submit(one, Create("/p"), 1)
    tree.submit(other, Create("/p/e", mode=CreateMode.EPHEMERAL), 1)
    transaction, _ = tree.close_session(other, 99_000)
    assert transaction is not None
    stat = tree.submit(one, Exists("/p"), 1).outcome
    assert isinstance(stat, Stat)
    assert (stat.pzxid, stat.children) == (transaction.zxid, 0)


@pytest.mark.parametrize("part", [Create("/new"), SetData("/a", b"1"), Delete("/a")])
def test_a_transaction_that_fails_is_not_told_to_watchers_later(part: Any) -> None:
    tree = ZnodeTree()
    session = tree.open_session()
    for operation in (Create("/a"), Exists("/new", ignore), GetData("/a", ignore), GetChildren("/", ignore)):
        tree.submit(session, operation, 1)
    assert tree.submit(session, Transaction((part, Check("/x", 0))), 1).notifications == ()
    events = tree.submit(session, Transaction((SetData("/a", b""), Create("/new"))), 1).notifications
    assert [each.event for each in events] == [
        WatchEvent("/a", EventKind.CHANGED),
        WatchEvent("/new", EventKind.CREATED),
        WatchEvent("/", EventKind.CHILDREN_CHANGED),
    ]


@pytest.mark.parametrize("part", [Create("/new"), Create("/a/new"), SetData("/a", b"1"), Delete("/a"), Delete("/own")])
def test_a_transaction_that_fails_changes_no_number(part: Any) -> None:
    tree = ZnodeTree()
    session = tree.open_session()
    own = Create("/own", mode=CreateMode.EPHEMERAL)
    for now_ms, operation in enumerate((Create("/a"), SetData("/a", b"0"), Create("/a/e"), Delete("/a/e"), own), 1):
        tree.submit(session, operation, now_ms)
    before = {node.path: node for node in tree.nodes()}
    failed = tree.submit(session, Transaction((part, Check("/x", 0))), 9)
    assert isinstance(failed.outcome, TransactionFailed)
    assert {node.path: node for node in tree.nodes()} == before
    tree.close_session(session, 10)
    assert before.keys() - {node.path for node in tree.nodes()} == {"/own"}


@pytest.mark.parametrize(
    ("before", "read", "missed", "told"),
    [
        ([], Exists, [], None),
        ([], Exists, [Create("/a")], EventKind.CREATED),
        ([], Exists, [Create("/a"), Delete("/a")], None),
        ([Create("/a")], Exists, [SetData("/a", b"")], EventKind.CHANGED),
        ([Create("/a")], GetData, [], None),
        ([Create("/a")], GetData, [SetData("/a", b""), SetData("/a", b"")], EventKind.CHANGED),
        ([Create("/a")], GetData, [Create("/a/b"), Delete("/a/b")], None),
        ([Create("/a")], GetData, [Delete("/a")], EventKind.DELETED),
        ([Create("/a")], GetData, [Delete("/a"), Create("/a")], EventKind.CHANGED),
        ([Create("/a")], GetChildren, [SetData("/a", b"")], None),
        ([Create("/a")], GetChildren, [Create("/a/b"), Delete("/a/b")], EventKind.CHILDREN_CHANGED),
        ([Create("/a")], GetChildren, [Delete("/a")], EventKind.DELETED),
    ],
)
def test_a_session_that_was_away_learns_once_what_has_changed(
    before: list[Operation], read: Any, missed: list[Operation], told: EventKind | None
) -> None:
    tree = ZnodeTree()
    away, other = tree.open_session(), tree.open_session()
    for operation in before:
        tree.submit(other, operation, 1)
    outcome = tree.submit(away, read("/a", ignore), 1).outcome
    seen = tree.zxid
    tree.drop_watches(away)
    for operation in missed:
        assert tree.submit(other, operation, 1).notifications == ()
    existence = ["/a"] if isinstance(outcome, RegistryError) else []
    children = ["/a"] if isinstance(outcome, Children) else []
    data = [] if existence or children else ["/a"]
    expected = () if told is None else (Notification(away, WatchEvent("/a", told)),)
    assert tree.set_watches(away, seen, data, existence, children) == expected
    # A watch that was not triggered is set again.
    is_there = not isinstance(tree.submit(other, Exists("/a"), 1).outcome, RegistryError)
    change = Create("/a") if not is_there else Delete("/a")
    assert len(tree.submit(other, change, 1).notifications) == (told is None)
