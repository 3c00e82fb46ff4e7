"""Whatever its connections do, a ZooKeeper client is a registry like any other, and reports to its owner in order.

Method: run the registry suite and hand-built stories with a ZooKeeper server on the test's thread (`fake_kazoo.py`).
tests/kafka/test_zookeeper_registry.py uses a real one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry import kazoo_requests, zookeeper
from kafkawire.sdk.registry.acls import CREATOR_ACL, Acl, Permission
from kafkawire.sdk.registry.kazoo_requests import SetWatches
from kafkawire.sdk.registry.login import SaslDigest
from kafkawire.sdk.registry.registry import (
    Create,
    Created,
    CreateMode,
    EventKind,
    Exists,
    GetChildren,
    GetData,
    RegistryError,
    SessionListener,
    SetData,
    Stat,
    Transaction,
    WatchEvent,
)
from kafkawire.sdk.registry.zookeeper import (
    IN_FLIGHT_MAX,
    SESSION_EDGES,
    SessionState,
    ZooKeeperRegistry,
)
from kafkawire.sdk.registry.zookeeper_security import ZooKeeperSecurity
from kafkawire.sdk.secret import Secret
from tests.edges import taken
from tests.sdk.registry.fake_kazoo import FakeBench
from tests.sdk.registry.owner import Owner, SessionNotes
from tests.sdk.registry.registry_cases import CASES, RegistryBench

pytest.importorskip("kazoo")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    return FakeBench(monkeypatch)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(case: Callable[[RegistryBench], None], bench: FakeBench) -> None:
    case(bench)


# Lost connections.


def test_what_was_not_answered_is_sent_again_in_order(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    connection = bench.connection_of(one)
    bench.servers.answers = False
    created = owner.submit(one, *[Create(f"/{number}") for number in range(3)])
    later = owner.submit(one, Create("/0/later"))
    connection.answer(1)
    connection.lose()
    owner.run_all()
    assert notes.told == ["opened", "suspended"]
    assert one.state is SessionState.SUSPENDED
    last = owner.submit(one, Exists("/0/later"))
    connection.link()
    connection.answer()
    owner.run_all()
    assert notes.told == ["opened", "suspended"]  # the watches are being set
    connection.answer()
    owner.run_all()
    assert notes.told == ["opened", "suspended", "connected"]
    connection.answer()
    owner.run_all()
    assert created == [tuple(Created(f"/{number}") for number in range(3))]
    assert later == [(Created("/0/later"),)]
    assert isinstance(last[0][0], Stat)


def test_an_operation_may_be_done_twice(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    bench.servers.answers = False
    ended = owner.submit(one, Create("/a"))
    # The server carries out the operation, but the response is lost with the connection.
    bench.servers.tree.submit(connection.session_id, Create("/chroot/tree/a"), 1)
    connection.lose()
    connection.link()
    bench.servers.answers = True
    connection.answer()
    owner.until(lambda: bool(ended))
    (outcome,) = ended[0]
    assert isinstance(outcome, RegistryError)
    assert outcome.code.name == "NODE_EXISTS"


@pytest.mark.parametrize(
    ("prepare", "read", "change", "kind"),
    [
        ([Create("/a")], GetData, SetData("/a", b"x"), EventKind.CHANGED),
        ([Create("/a")], GetChildren, Create("/a/b"), EventKind.CHILDREN_CHANGED),
        ([], Exists, Create("/a"), EventKind.CREATED),
        ([Create("/a")], Exists, SetData("/a", b"x"), EventKind.CHANGED),
    ],
)
def test_a_change_that_a_connection_has_missed(
    prepare: list[Any], read: Any, change: Any, kind: EventKind, bench: FakeBench
) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask_all(two, *prepare)
    order: list[object] = []
    owner.ask(one, read("/a", order.append))
    connection = bench.connection_of(one)
    connection.lose()
    owner.ask(two, change)
    one.submit([Exists("/a")], lambda outcomes: order.append("outcome"))
    connection.link()
    owner.until(lambda: "outcome" in order)
    assert order == [WatchEvent("/a", kind), "outcome"]


def test_watches_that_have_missed_nothing_stay(bench: FakeBench) -> None:
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    owner.ask(two, Create("/a"))
    owner.ask_all(one, GetData("/a", owner.note), GetChildren("/a", owner.note), Exists("/b", owner.note))
    connection = bench.connection_of(one)
    for _ in range(3):
        connection.lose()
        connection.link()
    owner.ask(one, Exists("/a"))
    assert owner.events == []
    owner.ask_all(two, SetData("/a", b"x"), Create("/b"), Create("/a/c"))
    owner.ask(one, Exists("/a"))
    assert owner.events == [
        WatchEvent("/a", EventKind.CHANGED),
        WatchEvent("/b", EventKind.CREATED),
        WatchEvent("/a", EventKind.CHILDREN_CHANGED),
    ]


def test_watches_are_set_again_in_several_requests(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "SET_WATCHES_BYTES_MAX", 100)
    one, owner = bench.registry(), bench.owner
    paths = [f"/node{number}" for number in range(20)]
    owner.ask_all(one, *[Create(path) for path in paths], *[GetData(path, owner.note) for path in paths])
    zxid = bench.servers.tree.zxid
    connection = bench.connection_of(one)
    connection.lose()
    connection.link()
    owner.ask(one, Exists("/"))
    sent = [request for request in bench.servers.requests if isinstance(request, SetWatches)]
    assert [path for request in sent for path in request.paths[0]] == [f"/chroot/tree{path}" for path in paths]
    assert len(sent) > 1
    assert {request.zxid for request in sent} == {zxid}
    assert all(len(request.serialize()) < 100 + 8 * len(paths) for request in sent)
    assert kazoo_requests.SET_WATCHES_BYTES_MAX < 0xFFFFF


def test_servers_that_do_not_set_watches_again(bench: FakeBench, caplog: pytest.LogCaptureFixture) -> None:
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, Create("/a"), GetData("/a", owner.note), GetChildren("/a", owner.note), Exists("/b", owner.note))
    bench.servers.refuses_watches = True
    connection = bench.connection_of(one)
    connection.lose()
    connection.link()
    owner.ask(one, Exists("/"))
    assert owner.events == [
        WatchEvent("/a", EventKind.CHANGED),
        WatchEvent("/b", EventKind.CHANGED),
        WatchEvent("/a", EventKind.CHILDREN_CHANGED),
    ]
    assert "all are reported as changes" in caplog.text


def test_an_owner_that_lags_behind_its_connections(bench: FakeBench) -> None:
    """Nothing is sent through a connection that the owner does not know yet; it would overtake lost requests."""
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    bench.servers.answers = False
    first = owner.submit(one, Create("/a"))
    connection.lose()
    connection.link()
    second = owner.submit(one, Create("/a/b"))
    assert not connection.queue
    bench.servers.answers = True
    owner.until(lambda: bool(first and second))
    assert (first, second) == ([(Created("/a"),)], [(Created("/a/b"),)])


def test_a_connection_that_is_lost_while_it_is_prepared(bench: FakeBench) -> None:
    bench.servers.answers = False
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    connection = bench.servers.connections[0]
    ended = owner.submit(one, Create("/a"))
    owner.run_all()
    for _ in range(3):
        connection.answer(1)
        owner.run_all()
        connection.lose()
        owner.run_all()
        connection.link()
        owner.run_all()
    assert (notes.told, one.session_id) == ([], 0)
    bench.servers.answers = True
    connection.answer()
    owner.until(lambda: bool(ended))
    assert notes.told == ["opened"]
    connection.lose()
    bench.servers.answers = False
    connection.link()
    owner.run_all()
    connection.lose()
    owner.run_all()
    connection.link()
    bench.servers.answers = True
    connection.answer()
    owner.run_all()
    assert notes.told == ["opened", "suspended", "connected"]


# The end of a session.


def test_everything_fails_with_the_session(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    connection = bench.connection_of(one)
    owner.ask(one, GetData("/", owner.note))
    bench.servers.answers = False
    ended = owner.submit(one, *[Exists("/") for _ in range(IN_FLIGHT_MAX + 5)])
    bench.servers.end_session(connection.session_id)
    connection.lose()
    connection.link()
    bench.servers.answers = True
    connection.answer()
    owner.run_all()
    assert {str(outcome) for outcome in ended[0]} == {
        "SESSION_EXPIRED: /: the ZooKeeper at a:1,b:2/chroot/tree",
    }
    assert notes.told == ["opened", "suspended", "expired", "opened"]
    owner.ask(one, SetData("/", b""))
    assert owner.events == []


def test_a_session_that_ends_before_it_is_told(bench: FakeBench) -> None:
    bench.servers.answers = False
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    (connection,) = bench.servers.connections
    ended = owner.submit(one, Exists("/"))
    bench.servers.end_session(connection.session_id)
    connection.lose()
    bench.servers.answers = True
    connection.link()
    owner.until(lambda: bool(ended))
    assert (notes.told, type(ended[0][0])) == (["opened"], Stat)


def test_refused_credentials(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "_REFUSED_PAUSE_SECONDS", 0)
    bench.servers.accepts = False
    owner = bench.owner
    one = ZooKeeperRegistry("a:1", owner.post, security=ZooKeeperSecurity(sasl=SaslDigest("alice", Secret("wrong"))))
    one.start()
    notes = SessionNotes(one)
    (connection,) = bench.servers.connections
    assert connection.sasl == {"mechanism": "DIGEST-MD5", "username": "alice", "password": "wrong"}
    connection.log.last = "Connection dropped: in SASL"
    ended = owner.submit(one, Exists("/"))
    # The next attempt follows without a pause.
    bench.servers.accepts = True
    connection.refuse()
    owner.until(lambda: bool(one.session_id))
    place = "the ZooKeeper at a:1 (Connection dropped: in SASL)"
    assert (notes.told, notes.errors) == (["refused", "opened"], [("AUTH_FAILED", place)])
    assert [str(outcome) for outcome in ended[0]] == [f"AUTH_FAILED: /: {place}"]
    bench.servers.connections[-1].refuse()
    owner.until(lambda: notes.told[2:] == ["refused", "expired", "opened"])
    # The pause has ended, so each connection is released without ending a session that it does not have.
    assert [each.is_abandoned for each in bench.servers.connections] == [True, True, False]
    assert not any(each.is_closed for each in bench.servers.connections)


def test_a_connection_that_has_ended_by_itself(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session lives on, with its nodes, its watches and its unanswered operations."""
    monkeypatch.setattr(zookeeper, "_REFUSED_PAUSE_SECONDS", 0)
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    notes = SessionNotes(one)
    connection = bench.connection_of(one)
    session = one.session_id
    owner.ask_all(one, Create("/e", mode=CreateMode.EPHEMERAL), GetData("/e", owner.note))
    bench.servers.answers = False
    ended = owner.submit(one, Exists("/e"))
    connection.end()
    bench.servers.answers = True
    owner.until(lambda: bool(ended))
    assert isinstance(ended[0][0], Stat)
    assert (notes.told, one.session_id) == (["opened", "suspended", "connected"], session)
    assert (connection.is_abandoned, connection.is_closed) == (True, False)
    owner.ask(two, SetData("/e", b"x"))
    owner.ask(one, Exists("/"))
    assert owner.events == [WatchEvent("/e", EventKind.CHANGED)]
    # Later reports of the former connection are ignored.
    connection.lose()
    owner.run_all()
    assert one.state is SessionState.CONNECTED


def test_a_connection_that_has_ended_although_it_was_lost_before(
    bench: FakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "_REFUSED_PAUSE_SECONDS", 0)
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    connection = bench.connection_of(one)
    connection.lose()
    bench.servers.end_session(connection.session_id)
    connection.end()
    owner.until(lambda: notes.told == ["opened", "suspended", "expired", "opened"])


@pytest.mark.parametrize("error", ["NoAuthError", "ThrottledOpError", "MarshallingError"])
def test_any_answer_opens_a_session(error: str, bench: FakeBench, caplog: pytest.LogCaptureFixture) -> None:
    bench.servers.refusals = [error]
    one, owner = bench.registry(), bench.owner
    owner.ask(one, Exists("/"))
    assert one.state is SessionState.CONNECTED
    assert "does not permit reading the root of its paths" in caplog.text


@pytest.mark.parametrize("count", [0, 1])
def test_servers_that_demand_a_login(count: int, bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """This counts as refused credentials, both at the first request and later."""
    monkeypatch.setattr(zookeeper, "_REFUSED_PAUSE_SECONDS", 0)
    bench.servers.accepts = not count
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    if count:
        bench.servers.accepts = True
        bench.servers.refusals = ["SessionClosedRequireSaslError"]
        bench.servers.connections[0].link()
        expected = ["refused", "opened"]
    else:
        owner.until(lambda: notes.told == ["opened"])
        bench.servers.refusals = ["SessionClosedRequireSaslError"]
        assert owner.code(one, Exists("/")) == "AUTH_FAILED"
        expected = ["opened", "refused", "expired", "opened"]
    owner.until(lambda: notes.told == expected)
    assert [name for name, _ in notes.errors] == ["AUTH_FAILED"]


def test_a_connection_that_cannot_be_begun(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "_REFUSED_PAUSE_SECONDS", 0)
    bench.servers.start_errors = [OSError("Too many open files"), RuntimeError("can't start new thread")]
    one, owner = bench.registry(), bench.owner
    owner.until(lambda: bool(one.session_id))
    assert [each.is_abandoned for each in bench.servers.connections] == [True, True, False]


def test_a_pause_for_which_there_is_no_thread(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        bench.servers.start_errors = [OSError("Too many open files")]
        one = bench.registry()
    # The next operation connects.
    assert isinstance(bench.owner.ask(one, Exists("/")), Stat)


def test_what_kazoo_has_lost_is_sent_again(bench: FakeBench) -> None:
    """kazoo's own queues may lose a request when a connection ends, in which case the request never fails."""
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    bench.servers.answers = False
    ended = owner.submit(one, Create("/a"), Create("/b"))
    connection.queue.popleft()
    connection.lose()
    bench.servers.answers = True
    connection.link()
    owner.until(lambda: bool(ended))
    assert ended == [(Created("/a"), Created("/b"))]


def test_a_session_that_ends_inside_a_transaction(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    notes = SessionNotes(one)
    connection = bench.connection_of(one)
    bench.servers.answers = False
    ended = owner.submit(one, Transaction((Create("/a"), Create("/b"))))
    _, answered = connection.queue.popleft()
    exceptions = pytest.importorskip("kazoo.exceptions")
    answered.set([exceptions.RolledBackError(), exceptions.SessionExpiredError()])
    owner.run_all()
    assert ended == []
    bench.servers.end_session(connection.session_id)
    connection.lose()
    bench.servers.answers = True
    connection.link()
    owner.until(lambda: bool(ended))
    assert str(ended[0][0]).startswith("SESSION_EXPIRED: /a")
    owner.until(lambda: notes.told[-1] == "opened")


# Limits.


def test_a_number_of_operations_is_in_flight(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    bench.servers.answers = False
    ended = owner.submit(one, *[Exists("/") for _ in range(3 * IN_FLIGHT_MAX)])
    assert len(connection.queue) == IN_FLIGHT_MAX
    connection.answer(10)
    assert len(connection.queue) == IN_FLIGHT_MAX - 10
    owner.run_all()
    assert len(connection.queue) == IN_FLIGHT_MAX
    bench.servers.answers = True
    connection.answer()
    owner.until(lambda: bool(ended))


def test_too_many_operations(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "PENDING_MAX", 3)
    monkeypatch.setattr(zookeeper, "PENDING_BYTES_MAX", 300)
    bench.servers.accepts = False
    one, owner = bench.registry(), bench.owner
    kept = owner.submit(one, Exists("/a"), Exists("/b"), Exists("/c"))
    error = owner.ask(one, Exists("/d"))
    place = "the ZooKeeper at a:1,b:2/chroot/tree"
    assert str(error) == f"TOO_MANY_PENDING: /d: at most 3 operations may wait for {place}"
    bench.servers.connections[0].link()
    owner.until(lambda: bool(kept))
    error = owner.ask(one, Create("/a", bytes(300)))
    assert str(error) == f"TOO_MANY_PENDING: /a: operations waiting for {place} may take at most 300 bytes"
    assert owner.ask(one, Create("/a", bytes(150))) == Created("/a")
    assert owner.ask(one, Create("/b", bytes(150))) == Created("/b")


def test_a_refusal_comes_in_its_turn(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    bench.servers.answers = False
    ended = owner.submit(one, Create("/a"), Create("no slash"), Create("/b"), Create("/b/"))
    connection.answer()
    owner.run_all()
    connection.answer()
    owner.run_all()
    (outcomes,) = ended
    assert outcomes[0] == Created("/a")
    assert outcomes[2] == Created("/b")
    assert [str(outcome).partition(":")[0] for outcome in outcomes[1::2]] == ["BAD_ARGUMENTS"] * 2


def test_a_refusal_while_the_connection_is_lost(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    ended = owner.submit(one, Create("no slash"), Create("/b"))
    connection.lose()
    connection.link()
    owner.until(lambda: bool(ended))
    assert ended[0][1] == Created("/b")


# Addresses and identities.


def test_it_says_where_it_is() -> None:
    assert ZooKeeperRegistry("a:1, b:2/c/d", Owner().post).describe() == "the ZooKeeper at a:1,b:2/c/d"
    with pytest.raises(ConfigurationError, match="zookeeper_connect='a': expected host:port, got 'a'"):
        ZooKeeperRegistry("a", Owner().post)


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31])
def test_a_timeout_that_cannot_be_sent(timeout_ms: int) -> None:
    with pytest.raises(ConfigurationError, match="session_timeout_ms"):
        ZooKeeperRegistry("a:1", Owner().post, session_timeout_ms=timeout_ms)


def test_a_missing_chroot_is_created(bench: FakeBench) -> None:
    owner = bench.owner
    acl = (Acl(Permission.READ | Permission.CREATE, "world", "anyone"),)
    one = ZooKeeperRegistry("a:1/c/d", owner.post, chroot_acl=acl)
    one.start()
    assert isinstance(owner.ask(one, Exists("/")), Stat)
    lists = {node.path: node.acl for node in bench.servers.tree.nodes()}
    assert lists["/c"] == lists["/c/d"] == acl
    count = bench.servers.tree.zxid
    two = ZooKeeperRegistry("a:1/c/d", owner.post)
    two.start()
    owner.ask(two, Exists("/"))
    assert bench.servers.tree.zxid == count + 1  # one for the session


def test_a_chroot_that_cannot_be_created(bench: FakeBench, caplog: pytest.LogCaptureFixture) -> None:
    owner = bench.owner
    one = ZooKeeperRegistry("a:1/c", owner.post, chroot_acl=CREATOR_ACL)
    one.start()
    assert owner.code(one, Exists("/a")) == "NO_NODE"
    assert "the chroot of the ZooKeeper at a:1/c cannot be created: INVALID_ACL: /c" in caplog.text


def test_the_cause_of_a_missing_connection_is_told(bench: FakeBench) -> None:
    bench.servers.accepts = False
    one = bench.registry(connect="a:1")
    bench.servers.connections[0].log.last = "Connection dropped: refused"
    assert one.describe() == "the ZooKeeper at a:1 (Connection dropped: refused)"
    bench.servers.connections[0].link()
    bench.owner.ask(one, Exists("/"))
    assert one.describe() == "the ZooKeeper at a:1"


def test_the_servers_may_shorten_the_timeout(bench: FakeBench) -> None:
    one = ZooKeeperRegistry("a:1", bench.owner.post, session_timeout_ms=9_000)
    assert one.session_timeout_ms == 9_000
    one.start()
    for agreed_ms, timeout_ms in ((None, 9_000), (8_000, 8_000), (10_000, 9_000)):
        bench.connection_of(one).agreed_timeout_ms = agreed_ms
        assert one.session_timeout_ms == timeout_ms


# Defects.


@pytest.mark.defect
def test_a_callback_that_fails_does_not_stop_others(bench: FakeBench, caplog: pytest.LogCaptureFixture) -> None:
    one, owner = bench.registry(), bench.owner

    def fails(*arguments: object) -> None:
        raise ValueError("a defect of the owner")

    class Listener(SessionListener):
        def opened(self) -> None:
            fails()

        def expired(self) -> None:
            fails()

    one.add_listener(Listener())
    notes = SessionNotes(one)
    one.submit([Exists("/")], fails)
    owner.ask(one, Exists("/"))
    bench.expire(one)
    owner.until(lambda: notes.told[-2:] == ["expired", "opened"])
    one.submit([Exists("/")], fails)
    one.close(1_000)
    owner.run_all()
    assert caplog.text.count("a defect of the owner") >= 4


@pytest.mark.defect
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("place", ["done", "watcher", "listener"])
def test_a_callback_that_fails_stops_nothing_else(place: str, error: type[BaseException], bench: FakeBench) -> None:
    """Later callbacks run and operations continue, even if the error ends an iteration of the owner's loop."""
    one, owner = bench.registry(), bench.owner
    bench.connection_of(one)
    raised = []

    def fails(*_: object) -> None:
        raised.append(place)
        raise error

    class Listener(SessionListener):
        def connected(self) -> None:
            fails()

    def turn() -> None:
        with suppress(KeyboardInterrupt, asyncio.CancelledError):
            owner.run_all()

    failing, noting = fails, owner.note
    if place == "listener":
        one.add_listener(Listener())
    notes = SessionNotes(one)
    owner.ask(one, Create("/a"))
    if place == "watcher":
        owner.ask(one, GetData("/a", failing))
    owner.ask(one, GetData("/a", noting))
    connection = bench.connection_of(one)
    connection.lose()
    connection.link()
    if place == "done":
        one.submit([Exists("/a")], fails)
    ended = owner.submit(one, *[SetData("/a", b"x")] * (2 * IN_FLIGHT_MAX))
    turn()
    turn()
    assert raised == [place]
    assert notes.told == ["suspended", "connected"]
    assert owner.events == [WatchEvent("/a", EventKind.CHANGED)]
    assert len(ended) == 1


@pytest.mark.defect
def test_watches_that_cannot_be_set_again_and_a_watcher_that_fails(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner

    def fails(event: WatchEvent) -> None:
        raise ValueError("a defect of the owner")

    owner.ask_all(one, Create("/a"), GetData("/a", fails), GetData("/a", owner.note))
    bench.servers.refuses_watches = True
    connection = bench.connection_of(one)
    connection.lose()
    connection.link()
    owner.run_all()
    assert one.state is SessionState.CONNECTED
    assert owner.events == [WatchEvent("/a", EventKind.CHANGED)]


def test_the_loop_of_the_owner_does_other_things_meanwhile(bench: FakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "_TURN_MAX", 10)
    one, owner = bench.registry(), bench.owner
    bench.connection_of(one)
    ended: list[int] = []

    def note(number: int, outcomes: object) -> None:
        ended.append(number)

    for number in range(100):
        one.submit([Exists("/")], partial(note, number))
    seen = []
    while len(ended) < 100:
        seen.append(len(ended))
        owner.turn()
    assert max(after - before for before, after in pairwise(seen)) <= 10
    assert ended == list(range(100))


def test_a_child_process(bench: FakeBench) -> None:
    one, owner = bench.registry(), bench.owner
    connection = bench.connection_of(one)
    owner.ask(one, Create("/a"))
    bench.servers.answers = False
    ended = owner.submit(one, Exists("/a"))
    one._lock.acquire()  # as if a thread of the parent held it
    one.forked()
    assert (connection.is_forked, connection.is_closed, one.session_id) == (True, False, 0)
    sent = len(connection.queue)
    assert owner.code(one, Exists("/a")) == "CLOSED"
    one.close(1_000)
    assert (len(connection.queue), connection.is_closed, ended) == (sent, False, [])


def test_an_owner_whose_loop_has_ended(bench: FakeBench, caplog: pytest.LogCaptureFixture) -> None:
    def closed(function: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    one = ZooKeeperRegistry("a:1", closed)
    one.start()
    one.submit([Exists("/")], lambda outcomes: None)
    one.close(1_000)
    assert "the owner's event loop has ended: Event loop is closed" in caplog.text


def test_the_session_of_an_owner_whose_loop_has_ended_is_closed(bench: FakeBench) -> None:
    has_ended: list[bool] = []
    owner = bench.owner

    def post(function: Callable[[], None]) -> None:
        if has_ended:
            raise RuntimeError("Event loop is closed")
        owner.post(function)

    before = set(threading.enumerate())
    one = ZooKeeperRegistry("a:1", post)
    one.start()
    connection = bench.connection_of(one)
    owner.run_all()
    has_ended.append(True)
    connection.lose()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert connection.is_closed
    assert not bench.servers.tree.has_session(connection.session_id)
    connection._on_state("CONNECTED")
    assert one._inbox == []


def test_edges(bench: FakeBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(zookeeper, "_REFUSED_PAUSE_SECONDS", 0)
    with taken(SESSION_EDGES) as steps:
        test_an_operation_may_be_done_twice(bench)
        test_everything_fails_with_the_session(FakeBench(monkeypatch))
        test_refused_credentials(FakeBench(monkeypatch), monkeypatch)
        for story in ("", "s", "sl", "slo"):
            again = FakeBench(monkeypatch)
            again.servers.accepts = False
            one = ZooKeeperRegistry("a:1", again.owner.post)
            if "s" in story:
                one.start()
            if "l" in story:
                again.servers.connections[0].link()
                again.owner.run_all()
            if "o" in story:
                again.servers.connections[0].lose()
                again.owner.run_all()
            one.close(1)
            one.close(1)
    missing = set(SESSION_EDGES) - steps - {(SessionState.CLOSED, SessionState.CLOSED)}
    assert not missing
