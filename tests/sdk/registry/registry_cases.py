"""One suite of cases for every registry: the embedded one and a real ZooKeeper.

A case takes a `RegistryBench` and begins with an empty tree. Watches are checked after another operation in the same
session, because an event comes before any outcome that shows its change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

import pytest

from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL, READ_ACL, Acl, Permission, default_acl, digest_id
from kafkawire.sdk.registry.registry import (
    REQUEST_BYTES_MAX,
    Change,
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
    GetAcl,
    GetChildren,
    GetData,
    NodeAcl,
    Operation,
    Outcome,
    Registry,
    RegistryError,
    SetAcl,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    WatchEvent,
    path_of,
    request_size_bytes,
)
from kafkawire.sdk.registry.steps import (
    BATCH_MAX,
    checked,
    create_ephemeral,
    create_with_parents,
    delete_recursively,
    read_all,
    set_or_create,
)
from tests.sdk.registry.owner import Owner, SessionNotes

__all__ = ["CASES", "RegistryBench"]

EPHEMERAL = CreateMode.EPHEMERAL
SEQUENTIAL = CreateMode.PERSISTENT_SEQUENTIAL


class RegistryBench(Protocol):
    """A registry under test.

    Attributes:
        owner: runs posted calls.
    """

    owner: Owner

    def registry(self, credentials: Sequence[tuple[str, str]] = ()) -> Registry:
        """Start another registry on the same tree, and return it."""
        ...

    def expire(self, registry: Registry) -> None:
        """End a registry's session as if the registry had been silent; it finds out by itself."""
        ...


def _stat(outcome: Outcome) -> Stat:
    assert isinstance(outcome, Stat), outcome
    return outcome


def _error(outcome: Outcome) -> RegistryError:
    assert isinstance(outcome, RegistryError), outcome
    return outcome


def create_and_read(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    assert owner.ask(one, Create("/a", b"x")) == Created("/a")
    data = owner.ask(one, GetData("/a"))
    assert isinstance(data, Data)
    stat = data.stat
    assert data.data == b"x"
    assert (stat.version, stat.cversion, stat.aversion, stat.ephemeral_owner) == (0, 0, 0, 0)
    assert (stat.size_bytes, stat.children, stat.czxid, stat.pzxid) == (1, 0, stat.mzxid, stat.czxid)
    assert stat.ctime_ms == stat.mtime_ms > 0
    assert owner.ask(one, Exists("/a")) == stat
    assert owner.ask(one, GetChildren("/a")) == Children((), stat)


def no_data_reads_as_empty(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, Create("/none", None), Create("/empty", b""), Create("/set", b"x"), SetData("/set", None))
    for path in ("/none", "/empty", "/set"):
        data = owner.ask(one, GetData(path))
        assert isinstance(data, Data)
        assert (data.data, data.stat.size_bytes) == (b"", 0)


def errors_have_codes(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, Create("/a"), Create("/a/b"), Create("/e", mode=EPHEMERAL))
    for operation, code in (
        (Create("/a"), "NODE_EXISTS"),
        (Create("/"), "NODE_EXISTS"),
        (Create("/x/y"), "NO_NODE"),
        (Create("/e/y"), "NO_CHILDREN_FOR_EPHEMERALS"),
        (Create("/e/y", mode=SEQUENTIAL), "NO_CHILDREN_FOR_EPHEMERALS"),
        (SetData("/x", b""), "NO_NODE"),
        (SetData("/a", b"", 1), "BAD_VERSION"),
        (Delete("/x"), "NO_NODE"),
        (Delete("/x/y"), "NO_NODE"),
        (Delete("/a", 1), "BAD_VERSION"),
        (Delete("/a"), "NOT_EMPTY"),
        (GetData("/x"), "NO_NODE"),
        (Exists("/x"), "NO_NODE"),
        (GetChildren("/x"), "NO_NODE"),
        (GetAcl("/x"), "NO_NODE"),
        (SetAcl("/x", OPEN_ACL), "NO_NODE"),
        (SetAcl("/a", OPEN_ACL, 1), "BAD_VERSION"),
        (SetAcl("/a", ()), "INVALID_ACL"),
        (Create("/y", acl=()), "INVALID_ACL"),
        (Create("/y", acl=CREATOR_ACL), "INVALID_ACL"),
        (Create("/y", acl=(Acl(Permission.ALL, "digest", "no digest"),)), "INVALID_ACL"),
        (Create("/y", acl=(Acl(Permission.ALL, "nothing", "x"),)), "INVALID_ACL"),
        (Create("no slash"), "BAD_ARGUMENTS"),
        (Delete("/a/"), "BAD_ARGUMENTS"),
        (Transaction((Check("//", 0),)), "BAD_ARGUMENTS"),
        (Create("/\U0001f600"), "BAD_ARGUMENTS"),
        (SetData("/a", b"", 2**31), "BAD_ARGUMENTS"),
        (Delete("/a", -(2**31) - 1), "BAD_ARGUMENTS"),
        (SetAcl("/a", OPEN_ACL, 2**31), "BAD_ARGUMENTS"),
        (Transaction((Check("/a", 2**31),)), "BAD_ARGUMENTS"),
        (Create("/y", acl=(Acl(Permission.ALL, "digest", "a:\ud800"),)), "BAD_ARGUMENTS"),
        (Create("/y", cast(bytes, "text")), "BAD_ARGUMENTS"),
        (SetData("/a", cast(bytes, 1)), "BAD_ARGUMENTS"),
    ):
        error = _error(owner.ask(one, operation))
        assert (error.code.name, type(operation)) == (code, type(operation)), operation
        assert error.path == path_of(operation), operation


def versions_and_transaction_ids(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/a"))
    first = _stat(owner.ask(one, Exists("/a")))
    written = _stat(owner.ask(one, SetData("/a", b"xy", 0)))
    assert written == first._replace(version=1, size_bytes=2, mzxid=written.mzxid, mtime_ms=written.mtime_ms)
    assert written.mzxid > first.mzxid
    assert owner.code(one, SetData("/a", b"", 0)) == "BAD_VERSION"
    owner.ask_all(one, Create("/a/b"), Create("/a/c"), Delete("/a/b"))
    changed = _stat(owner.ask(one, Exists("/a")))
    assert changed == written._replace(cversion=3, children=1, pzxid=changed.pzxid)
    assert changed.pzxid > written.mzxid
    secured = _stat(owner.ask(one, SetAcl("/a", OPEN_ACL, 0)))
    assert secured == changed._replace(aversion=1)
    assert owner.ask(one, Delete("/a/c", 0)) == Deleted("/a/c")
    assert owner.ask(one, Delete("/a", 1)) == Deleted("/a")


def children_are_sorted(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, *[Create(f"/{name}") for name in ("c", "a", "b\u00e9", "b")])
    children = owner.ask(one, GetChildren("/"))
    assert isinstance(children, Children)
    assert children.names == ("a", "b", "b\u00e9", "c")


def sequential_names_count_creations(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/s"))
    created = owner.ask_all(
        one,
        Create("/s/n-", mode=SEQUENTIAL),
        Create("/s/other"),
        Delete("/s/other"),
        Create("/s/", mode=SEQUENTIAL),
        Create("/s/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL),
    )
    assert created == (
        Created("/s/n-0000000000"),
        Created("/s/other"),
        Deleted("/s/other"),
        Created("/s/0000000002"),
        Created("/s/n-0000000003"),
    )
    assert _stat(owner.ask(one, Exists("/s/n-0000000003"))).ephemeral_owner == one.session_id
    assert owner.code(one, Create("/s/n-0000000004/x", mode=SEQUENTIAL)) == "NO_NODE"


def ephemeral_nodes_end_with_their_session(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask_all(one, Create("/e1", mode=EPHEMERAL), Create("/p"), Create("/p/e2", mode=EPHEMERAL))
    assert _stat(owner.ask(two, Exists("/e1"))).ephemeral_owner == one.session_id
    owner.ask(two, GetChildren("/p", owner.note))
    one.close(10_000)
    owner.until(lambda: bool(owner.events))
    assert owner.events == [WatchEvent("/p", EventKind.CHILDREN_CHANGED)]
    assert owner.code(two, Exists("/e1")) == "NO_NODE"
    changed = _stat(owner.ask(two, Exists("/p")))
    assert (changed.cversion, changed.children) == (2, 0)


def another_session_deletes_an_ephemeral_node(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask(one, Create("/e", mode=EPHEMERAL))
    assert owner.ask(two, Delete("/e")) == Deleted("/e")
    assert owner.ask(two, Create("/e")) == Created("/e")
    one.close(10_000)
    assert _stat(owner.ask(two, Exists("/e"))).ephemeral_owner == 0


# Transactions.

EPOCH = Check("/epoch", 0)


def a_transaction_is_done_at_once(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, Create("/epoch"), Create("/old"))
    registration = Create("/b", None, EPHEMERAL), SetData("/b", b"x", 0)
    operations = EPOCH, *registration, Create("/n-", mode=SEQUENTIAL), Delete("/old")
    committed = owner.ask(one, Transaction(operations))
    assert isinstance(committed, Committed)
    stat = _stat(owner.ask(one, Exists("/b")))
    number = "0000000003"
    assert committed.results == (
        VersionChecked("/epoch"),
        Created("/b"),
        stat,
        Created(f"/n-{number}"),
        Deleted("/old"),
    )
    assert (stat.version, stat.czxid, stat.ephemeral_owner) == (1, stat.mzxid, one.session_id)
    assert _stat(owner.ask(one, Exists(f"/n-{number}"))).czxid == stat.czxid


def a_failed_transaction_changes_nothing(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, Create("/epoch"), Create("/a"), Create("/a/b"), Create("/e", b"x", EPHEMERAL))
    before = owner.ask_all(one, GetChildren("/"), GetChildren("/a"), GetData("/e"), Exists("/a/b"))
    changes: tuple[Change | Check, ...] = (
        EPOCH,
        Create("/new"),
        Create("/new/child", mode=EPHEMERAL),
        SetData("/e", b"y"),
        Delete("/e"),
        Create("/e", b"again"),
        Delete("/a/b"),
        Create("/n-", mode=SEQUENTIAL),
    )
    failing: tuple[tuple[Change | Check, str], ...] = (
        (Check("/epoch", 1), "BAD_VERSION"),
        (Check("/x", 0), "NO_NODE"),
        (Create("/a"), "NODE_EXISTS"),
        (Create("/x/y"), "NO_NODE"),
        (SetData("/a", b"", 9), "BAD_VERSION"),
        (Delete("/epoch", 9), "BAD_VERSION"),
        (Delete("/new"), "NOT_EMPTY"),
    )
    for operation, code in failing:
        error = owner.ask(one, Transaction((*changes, operation, EPOCH)))
        assert isinstance(error, TransactionFailed), operation
        codes = ["ROLLED_BACK"] * len(changes) + [code, "RUNTIME_INCONSISTENCY"]
        assert [each.name for each in error.codes] == codes
        assert (error.index, error.code.name, error.path) == (len(changes), code, operation.path)
        after = owner.ask_all(one, GetChildren("/"), GetChildren("/a"), GetData("/e"), Exists("/a/b"))
        assert after == before
    # The numbers of sequential nodes were given back too.
    assert owner.ask(one, Create("/n-", mode=SEQUENTIAL)) == Created("/n-0000000003")
    one.close(10_000)
    two = bench.registry()
    assert owner.code(two, Exists("/e")) == "NO_NODE"


def a_transaction_without_changes(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/epoch"))
    assert owner.ask(one, Transaction((EPOCH,))) == Committed((VersionChecked("/epoch"),))
    assert owner.ask(one, Transaction(())) == Committed(())


# Order, many operations.


def operations_are_carried_out_in_order(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    order: list[str] = []
    one.submit([Create("/a"), Create("/a/b"), GetChildren("/a")], lambda outcomes: order.append("first"))
    one.submit([], lambda outcomes: order.append(f"nothing {outcomes}"))
    one.submit([Delete("/a/b"), Delete("/a")], lambda outcomes: order.append("second"))
    assert order == []
    assert owner.code(one, Exists("/a")) == "NO_NODE"
    assert sorted(order) == ["first", "nothing ()", "second"]
    assert order.index("first") < order.index("second")


def thousands_of_operations(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    paths = [f"/n{number:04}" for number in range(2 * BATCH_MAX + 500)]
    created = owner.ask_all(one, *[Create(path, path.encode()) for path in paths])
    assert created == tuple(map(Created, paths))
    found = owner.run(one, read_all(paths))
    assert [data.data.decode() for data in found if data] == paths


def the_largest_request(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    room = REQUEST_BYTES_MAX - request_size_bytes(Create("/large", b"")) - bench_prefix_bytes(one)
    assert owner.ask(one, Create("/large", bytes(room))) == Created("/large")
    data = owner.ask(one, GetData("/large"))
    assert isinstance(data, Data)
    assert data.data == bytes(room)
    error = _error(owner.ask(one, Create("/other", bytes(room + 1))))
    assert error.code.name == "REQUEST_TOO_LARGE"
    assert str(REQUEST_BYTES_MAX) in error.detail
    operations = tuple(SetData("/large", bytes(room // 2)) for _ in range(3))
    assert owner.code(one, Transaction(operations)) == "REQUEST_TOO_LARGE"
    assert owner.ask(one, Delete("/large")) == Deleted("/large")


def bench_prefix_bytes(registry: Registry) -> int:
    """Return the length of the chroot, which is included in the size of requests."""
    prefix: int = getattr(registry, "prefix_bytes", 0)
    return prefix


# Watches.


def a_watch_fires_once(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask_all(two, Create("/a"), Create("/b"))
    for operation, event in (
        (SetData("/a", b"1"), WatchEvent("/a", EventKind.CHANGED)),
        (Delete("/a"), WatchEvent("/a", EventKind.DELETED)),
    ):
        owner.events.clear()
        owner.ask(one, GetData("/a", owner.note))
        owner.ask(two, operation)
        owner.ask(two, SetData("/b", b""))
        owner.until(lambda: bool(owner.events))
        owner.ask(one, Exists("/b"))
        assert owner.events == [event]


def watches_of_each_operation(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    note = owner.note
    rows: Sequence[tuple[bool, Callable[[str], Operation], Callable[[str], Operation], EventKind | None]] = (
        (False, lambda path: Exists(path, note), Create, EventKind.CREATED),
        (True, lambda path: Exists(path, note), lambda path: SetData(path, b""), EventKind.CHANGED),
        (True, lambda path: Exists(path, note), Delete, EventKind.DELETED),
        (True, lambda path: Exists(path, note), lambda path: Create(f"{path}/c"), None),
        (True, lambda path: GetData(path, note), lambda path: SetData(path, b""), EventKind.CHANGED),
        (True, lambda path: GetData(path, note), Delete, EventKind.DELETED),
        (True, lambda path: GetData(path, note), lambda path: Create(f"{path}/c"), None),
        (True, lambda path: GetData(path, note), lambda path: SetAcl(path, OPEN_ACL), None),
        (True, lambda path: GetChildren(path, note), lambda path: Create(f"{path}/c"), EventKind.CHILDREN_CHANGED),
        (True, lambda path: GetChildren(path, note), Delete, EventKind.DELETED),
        (True, lambda path: GetChildren(path, note), lambda path: SetData(path, b""), None),
        (False, lambda path: GetData(path, note), Create, None),
        (False, lambda path: GetChildren(path, note), Create, None),
    )
    for number, (exists, read, change, kind) in enumerate(rows):
        path = f"/n{number}"
        if exists:
            owner.ask(two, Create(path))
        owner.events.clear()
        owner.ask(one, read(path))
        owner.ask(two, change(path))
        # Events on their way to the first session arrive before the outcome of a write in that session.
        owner.ask(one, Create("/order-", mode=SEQUENTIAL))
        assert owner.events == ([] if kind is None else [WatchEvent(path, kind)]), number


def deleted_and_created_children_are_noticed(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask_all(two, Create("/p"), Create("/p/a"), Create("/p/a/b"))
    for change in (Create("/p/c"), Delete("/p/c"), Delete("/p/a/b"), Delete("/p/a")):
        owner.events.clear()
        owner.ask(one, GetChildren("/p", owner.note))
        owner.ask(two, change)
        owner.ask(one, Create("/order-", mode=SEQUENTIAL))
        # A grandchild is not a child of the node.
        expected = [] if change.path == "/p/a/b" else [WatchEvent("/p", EventKind.CHILDREN_CHANGED)]
        assert owner.events == expected, change


def a_watcher_that_is_set_twice_is_called_once(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/a"))
    reads = GetData("/a", owner.note), Exists("/a", owner.note), GetChildren("/a", owner.note)
    owner.ask_all(one, *reads)
    owner.ask(one, Delete("/a"))
    assert owner.events == [WatchEvent("/a", EventKind.DELETED)]


def an_event_comes_before_the_outcome_that_shows_it(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    order: list[object] = []
    owner.ask_all(one, Create("/a"), GetData("/a", order.append), Exists("/b", order.append))
    owner.ask(one, GetChildren("/", order.append))
    one.submit([SetData("/a", b"1")], lambda outcomes: order.append("set"))
    one.submit([Transaction((Create("/b"), Delete("/a")))], lambda outcomes: order.append("transaction"))
    owner.until(lambda: "transaction" in order)
    assert order == [
        WatchEvent("/a", EventKind.CHANGED),
        "set",
        WatchEvent("/b", EventKind.CREATED),
        WatchEvent("/", EventKind.CHILDREN_CHANGED),
        "transaction",
    ]


def a_failed_read_sets_no_watch(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, GetData("/a", owner.note), GetChildren("/a", owner.note))
    owner.ask_all(one, Create("/a"), Create("/a/b"), Delete("/a/b"), Delete("/a"))
    assert owner.events == []


def a_failed_transaction_fires_no_watch(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, Create("/a"), GetData("/a", owner.note), GetChildren("/", owner.note))
    failed = owner.ask(one, Transaction((SetData("/a", b""), Create("/b"), Delete("/x"))))
    assert isinstance(failed, TransactionFailed)
    assert owner.events == []


# Sessions.


def a_session_opens(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.until(lambda: bool(notes.told))
    assert notes.told == ["opened"]
    assert notes.ids == [one.session_id] != [0]
    assert one.describe()
    one.start()  # starting twice has no effect
    owner.ask(one, Exists("/"))
    assert notes.told == ["opened"]


def an_expired_session_is_followed_by_another(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.ask_all(one, Create("/e", b"", EPHEMERAL), Create("/p"), GetData("/p", owner.note))
    former = one.session_id
    owner.ask(two, Exists("/e", owner.note))
    bench.expire(one)
    owner.until(lambda: notes.told.count("opened") == 2)
    assert [name for name in notes.told if name not in ("suspended", "connected")] == ["opened", "expired", "opened"]
    assert notes.ids[notes.told.index("expired")] == 0
    assert one.session_id not in (0, former)
    owner.until(lambda: bool(owner.events))
    # The watches of the expired session are gone, but those of the other session are not.
    owner.ask(two, SetData("/p", b"1"))
    assert owner.code(one, GetData("/e")) == "NO_NODE"
    assert owner.events == [WatchEvent("/e", EventKind.DELETED)]


def the_end_of_a_session_fails_what_waits(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.ask(one, Create("/p"))
    again: list[object] = []
    ended: list[str] = []

    def done(outcomes: tuple[Outcome, ...]) -> None:
        (outcome,) = outcomes
        if isinstance(outcome, RegistryError):
            ended.append(outcome.code.name)
            one.submit([GetData("/p")], again.append)

    bench.expire(one)
    for _ in range(20):
        one.submit([SetData("/p", b"")], done)
    owner.until(lambda: notes.told[-1:] == ["opened"] and len(notes.told) > 1)
    assert set(ended) <= {"SESSION_EXPIRED"}
    owner.until(lambda: len(again) == len(ended))
    assert isinstance(owner.ask(one, GetData("/p")), Data)


def closing(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask(one, Create("/e", mode=EPHEMERAL))
    one.close(10_000)
    one.close(10_000)
    error = _error(owner.ask(one, Exists("/e")))
    assert (error.code.name, error.detail) == ("CLOSED", one.describe())
    assert owner.code(two, Exists("/e")) == "NO_NODE"
    assert one.session_id == 0


def abandoning(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.ask_all(one, Create("/a"), Create("/e", mode=EPHEMERAL), GetData("/a", owner.note))
    session = one.session_id
    one.abandon()
    one.abandon()
    one.close(10_000)
    assert (owner.code(one, Exists("/e")), one.session_id) == ("CLOSED", 0)
    # The session lives on, and its owner is not told anything.
    assert _stat(owner.ask(two, Exists("/e"))).ephemeral_owner == session
    owner.ask_all(two, SetData("/a", b"x"), Exists("/"))
    assert (owner.events, notes.told) == ([], ["opened"])


def a_listener_that_was_removed(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Exists("/"))
    notes, left = SessionNotes(one), SessionNotes(one)
    one.remove_listener(left)
    one.remove_listener(left)
    bench.expire(one)
    owner.until(lambda: "opened" in notes.told)
    assert left.told == []


# Access control.

ALICE, BOB = ("digest", "alice:secret"), ("digest", "bob:other")


def lists_permit(bench: RegistryBench) -> None:
    alice, bob, owner = bench.registry([ALICE]), bench.registry([BOB]), bench.owner
    shown = Create("/shown", b"x", acl=default_acl(is_secure=True))
    owner.ask_all(alice, Create("/own", b"x", acl=CREATOR_ACL), shown)
    for path, refused in (
        ("/own", (GetData, Exists, GetChildren, GetAcl, SetData, Create)),
        ("/shown", (SetData, SetAcl, Create)),
    ):
        for operation in (
            GetData(path),
            Exists(path),
            GetChildren(path),
            GetAcl(path),
            SetData(path, b"y"),
            SetAcl(path, OPEN_ACL),
            Create(f"{path}/b"),
        ):
            if isinstance(operation, refused):
                assert owner.code(bob, operation) == "NO_AUTH", operation
            elif not isinstance(operation, SetAcl):
                assert not isinstance(owner.ask(bob, operation), RegistryError), operation
        assert isinstance(owner.ask(alice, SetData(path, b"z")), Stat)
    # Deleting requires a permission on the parent.
    assert owner.ask(alice, Create("/own/c", acl=OPEN_ACL)) == Created("/own/c")
    assert owner.code(bob, Delete("/own/c")) == "NO_AUTH"
    assert owner.ask(bob, Delete("/shown")) == Deleted("/shown")
    failed = owner.ask(bob, Transaction((Check("/own", 1), Create("/x"))))
    assert isinstance(failed, TransactionFailed)
    assert [code.name for code in failed.codes] == ["NO_AUTH", "RUNTIME_INCONSISTENCY"]
    owner.ask(alice, SetAcl("/own", OPEN_ACL))
    assert isinstance(owner.ask(bob, GetData("/own")), Data)


def lists_are_read(bench: RegistryBench) -> None:
    alice, bob, owner = bench.registry([ALICE]), bench.registry([BOB]), bench.owner
    owner.ask(alice, Create("/a", acl=CREATOR_ACL + READ_ACL + READ_ACL))
    found = owner.ask(alice, GetAcl("/a"))
    assert isinstance(found, NodeAcl)
    assert set(found.acl) == {Acl(Permission.ALL, "digest", digest_id("alice:secret")), *READ_ACL}
    # Others cannot see the digest.
    shown = owner.ask(bob, GetAcl("/a"))
    assert isinstance(shown, NodeAcl)
    assert set(shown.acl) == {Acl(Permission.ALL, "digest", "alice:x"), *READ_ACL}
    assert shown.stat == owner.ask(bob, Exists("/a"))


def watches_tell_only_what_may_be_read(bench: RegistryBench) -> None:
    """A watch on a node that the watch's session may not read is silently used up."""
    alice, bob, owner = bench.registry([ALICE]), bench.registry([BOB]), bench.owner
    owner.ask_all(alice, Create("/data", b"x"), Create("/folder"), Create("/gone"), Create("/shown"))
    told: list[WatchEvent] = []
    owner.ask_all(
        bob,
        Exists("/new", told.append),
        GetData("/data", told.append),
        GetChildren("/folder", told.append),
        GetData("/gone", told.append),
        GetData("/shown", told.append),
    )
    owner.ask_all(alice, *(SetAcl(path, CREATOR_ACL) for path in ("/data", "/folder", "/gone")))
    changes = (Create("/new", acl=CREATOR_ACL), SetData("/data", b"y"), Create("/folder/child"), Delete("/gone"))
    owner.ask_all(alice, *changes)
    owner.ask_all(alice, *(SetAcl(path, OPEN_ACL) for path in ("/new", "/data", "/folder")))
    owner.ask_all(alice, SetData("/new", b"z"), SetData("/data", b"z"), Create("/folder/other"), SetData("/shown", b""))
    owner.until(lambda: bool(told))
    assert told == [WatchEvent("/shown", EventKind.CHANGED)]


def checks_alone_are_a_transaction(bench: RegistryBench) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Create("/a"))
    before = owner.ask(one, Exists("/a"))
    assert isinstance(before, Stat)
    assert owner.ask(one, Transaction((Check("/a", 0),))) == Committed((VersionChecked("/a"),))
    owner.ask(one, Create("/b"))
    after = owner.ask(one, Exists("/b"))
    assert isinstance(after, Stat)
    assert after.czxid == before.czxid + 2


# Steps.


def steps_of_a_broker(bench: RegistryBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    assert owner.run(one, create_with_parents("/brokers/ids/x")) is True
    assert owner.run(one, create_with_parents("/brokers/ids/x")) is False
    assert owner.run(one, create_with_parents("/brokers/topics", b"x")) is True
    stat = owner.run(one, create_ephemeral("/brokers/ids/1", b"one", lambda: one.session_id))
    assert (stat.czxid, stat.version, stat.ephemeral_owner) == (stat.mzxid, 1, one.session_id)
    assert owner.run(one, create_ephemeral("/brokers/ids/1", b"one", lambda: one.session_id)) == stat
    with pytest.raises(RegistryError, match=f"NODE_EXISTS: /brokers/ids/1: .* session {one.session_id:#x}"):
        owner.run(two, create_ephemeral("/brokers/ids/1", b"two", lambda: two.session_id))
    owner.run(one, set_or_create("/a/b/c", b"1"))
    owner.run(one, set_or_create("/a/b/c", b"2"))
    data = owner.ask(one, GetData("/a/b/c"))
    assert isinstance(data, Data)
    assert (data.data, data.stat.version) == (b"2", 1)
    owner.ask(one, Create("/epoch"))
    results = owner.run(one, checked(EPOCH, [Create("/t"), Create("/t"), SetData("/t", b"x")]))
    assert [type(result) for result in results] == [Created, TransactionFailed, Stat]
    assert owner.run(one, delete_recursively("/a")) is True
    assert owner.run(one, delete_recursively("/a")) is False


CASES: Final[Sequence[Callable[[RegistryBench], None]]] = (
    create_and_read,
    no_data_reads_as_empty,
    errors_have_codes,
    versions_and_transaction_ids,
    children_are_sorted,
    sequential_names_count_creations,
    ephemeral_nodes_end_with_their_session,
    another_session_deletes_an_ephemeral_node,
    a_transaction_is_done_at_once,
    a_failed_transaction_changes_nothing,
    a_transaction_without_changes,
    operations_are_carried_out_in_order,
    thousands_of_operations,
    the_largest_request,
    a_watch_fires_once,
    watches_of_each_operation,
    deleted_and_created_children_are_noticed,
    a_watcher_that_is_set_twice_is_called_once,
    an_event_comes_before_the_outcome_that_shows_it,
    a_failed_read_sets_no_watch,
    a_failed_transaction_fires_no_watch,
    a_session_opens,
    an_expired_session_is_followed_by_another,
    the_end_of_a_session_fails_what_waits,
    closing,
    abandoning,
    a_listener_that_was_removed,
    lists_permit,
    lists_are_read,
    watches_tell_only_what_may_be_read,
    checks_alone_are_a_transaction,
    steps_of_a_broker,
)
