"""The registry works on a real ZooKeeper that is paused, killed and restarted, and shared with Apache Kafka.

Method: run the common registry suite, each case below its own chroot; then run scenarios on ZooKeeper servers of their
own, each ending with an outcome or event that the test waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pytest

from kafkawire.sdk.registry import kazoo_client
from kafkawire.sdk.registry.acls import CREATOR_ACL, OPEN_ACL, READ_ACL, Acl, Permission, default_acl
from kafkawire.sdk.registry.login import SaslDigest
from kafkawire.sdk.registry.registry import (
    Create,
    Created,
    CreateMode,
    EventKind,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    NodeAcl,
    Registry,
    SetData,
    Stat,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import read, set_or_create
from kafkawire.sdk.registry.zookeeper import SessionState, ZooKeeperRegistry
from kafkawire.sdk.registry.zookeeper_security import OPEN_CONNECTION, ZooKeeperSecurity
from kafkawire.sdk.secret import Secret
from tests.kafka.zookeeper import ZooKeeper, ZooKeeperKafka
from tests.sdk.registry.owner import Owner, SessionNotes
from tests.sdk.registry.registry_cases import CASES, RegistryBench

_numbers = count()

#: A thread that is still running after this time is stuck.
END_SECONDS = 60

#: Longer than a ZooKeeper server takes to restart.
LONG_MS = 60_000


class ZooKeeperBench:
    """A separate tree below a chroot."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self.owner = Owner()
        self.address = zookeeper.address
        self.connect = f"{zookeeper.address}/test{next(_numbers)}/tree"
        self.registries: list[ZooKeeperRegistry] = []

    def registry(
        self,
        credentials: Sequence[tuple[str, str]] = (),
        session_timeout_ms: int = 10_000,
        security: ZooKeeperSecurity = OPEN_CONNECTION,
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> ZooKeeperRegistry:
        registry = ZooKeeperRegistry(
            self.connect,
            self.owner.post,
            digests=[Secret(proof) for _, proof in credentials],
            session_timeout_ms=session_timeout_ms,
            security=security,
            chroot_acl=acl,
        )
        registry.start()
        self.registries.append(registry)
        return registry

    def expire(self, registry: Registry) -> None:
        from kazoo.client import KazooClient

        assert isinstance(registry, ZooKeeperRegistry)
        self.owner.until(lambda: bool(registry.session_id))
        # Opening another connection with the same session ends this one.
        other = KazooClient(self.address, client_id=registry.credentials)
        other.start()
        other.stop()
        other.close()

    def close(self) -> None:
        for registry in self.registries:
            registry.close(10_000)


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def bench(zookeeper: ZooKeeper) -> Iterator[ZooKeeperBench]:
    bench = ZooKeeperBench(zookeeper)
    yield bench
    bench.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(case: Callable[[RegistryBench], None], bench: ZooKeeperBench) -> None:
    case(bench)


@pytest.mark.smoke
def test_a_killed_zookeeper_comes_back(bench: ZooKeeperBench, zookeeper: ZooKeeper) -> None:
    one, two = bench.registry(session_timeout_ms=LONG_MS), bench.registry(session_timeout_ms=LONG_MS)
    owner, notes = bench.owner, SessionNotes(one)
    owner.ask_all(one, Create("/a"), Create("/e", mode=CreateMode.EPHEMERAL), GetData("/a", owner.note))
    session = one.session_id
    zookeeper.kill()
    owner.until(lambda: "suspended" in notes.told)
    assert one.state is SessionState.SUSPENDED
    ended = [owner.submit(one, Create(f"/later{number}")) for number in range(300)]
    owner.turn()
    assert not any(ended)
    zookeeper.start()
    owner.until(lambda: all(ended))
    assert {type(outcome) for (outcomes,) in ended for outcome in outcomes} == {Created}
    assert notes.told == ["opened", "suspended", "connected"]
    assert one.session_id == session
    stat = owner.ask(two, Exists("/e"))
    assert isinstance(stat, Stat)
    assert stat.ephemeral_owner == session
    # The watch is set again, although kazoo has lost it.
    assert owner.events == []
    owner.ask(two, SetData("/a", b"x"))
    owner.until(lambda: bool(owner.events))
    assert owner.events == [WatchEvent("/a", EventKind.CHANGED)]


def test_a_change_that_a_connection_has_missed(bench: ZooKeeperBench, monkeypatch: pytest.MonkeyPatch) -> None:
    # The change should be made before the next connection; the event arrives in either case.
    monkeypatch.setattr(kazoo_client, "_PAUSE_MIN_SECONDS", 1.0)
    one, two, owner = bench.registry(), bench.registry(), bench.owner
    notes = SessionNotes(one)
    owner.ask_all(one, Create("/a"), Create("/b"))
    order: list[object] = []
    owner.ask_all(one, GetData("/a", order.append), GetChildren("/b", order.append), Exists("/c", order.append))
    connection = one._connection
    assert connection is not None
    connection._handler._sockets[0].shutdown(2)
    owner.until(lambda: "suspended" in notes.told)
    owner.ask_all(two, SetData("/a", b"x"), Create("/b/child"), Create("/c"))
    one.submit([GetData("/a")], lambda outcomes: order.append("outcome"))
    owner.until(lambda: "outcome" in order)
    assert order[-1] == "outcome"
    assert set(order[:-1]) == {
        WatchEvent("/a", EventKind.CHANGED),
        WatchEvent("/b", EventKind.CHILDREN_CHANGED),
        WatchEvent("/c", EventKind.CREATED),
    }


def test_a_paused_zookeeper_blocks_nobody() -> None:
    with ZooKeeper() as zookeeper:
        bench = ZooKeeperBench(zookeeper)
        one, owner = bench.registry(session_timeout_ms=LONG_MS), bench.owner
        owner.ask(one, Create("/a"))
        zookeeper.pause()
        ended = [owner.submit(one, SetData("/a", str(number).encode())) for number in range(5_000)]
        owner.turn()
        assert not any(ended)
        zookeeper.resume()
        owner.until(lambda: all(ended))
        assert {type(outcome) for (outcomes,) in ended for outcome in outcomes} == {Stat}
        data = owner.run(one, read("/a"))
        assert data is not None
        assert (data.data, data.stat.version) == (b"4999", 5_000)
        bench.close()


def test_a_zookeeper_that_is_away_for_longer_than_a_session() -> None:
    with ZooKeeper() as zookeeper:
        bench = ZooKeeperBench(zookeeper)
        one, owner = bench.registry(session_timeout_ms=1_000), bench.owner
        notes = SessionNotes(one)
        owner.ask_all(one, Create("/a"), Create("/e", mode=CreateMode.EPHEMERAL))
        session = one.session_id
        zookeeper.kill()
        owner.until(lambda: "suspended" in notes.told)
        zookeeper.start()
        # The session may have survived a quick restart; if so, end it as if it had gone silent.
        owner.until(lambda: notes.told[-1] in ("connected", "opened"))
        if one.session_id == session:
            bench.expire(one)
            owner.until(lambda: notes.told[-2:] == ["expired", "opened"])
        assert "expired" in notes.told
        assert one.session_id not in (0, session)
        owner.run(one, set_or_create("/a", b"again"))
        bench.close()


@pytest.mark.parametrize("is_paused", [True, False])
def test_closing_is_bounded_without_a_zookeeper(is_paused: bool) -> None:
    before = set(threading.enumerate())
    with ZooKeeper() as zookeeper:
        bench = ZooKeeperBench(zookeeper)
        one, owner = bench.registry(session_timeout_ms=4_000), bench.owner
        owner.ask(one, Create("/a"))
        if is_paused:
            zookeeper.pause()
        else:
            zookeeper.kill()
        ended = owner.submit(one, Exists("/a"))
        one.close(100)
        owner.until(lambda: bool(ended))
        assert [str(outcome).partition(":")[0] for outcome in ended[0]] == ["CLOSED"]
        left = set(threading.enumerate()) - before
        assert all(thread.daemon for thread in left)
        for thread in left:
            thread.join(END_SECONDS)
            assert not thread.is_alive(), f"{thread.name} is still running after its registry was closed"


def test_several_hosts(bench: ZooKeeperBench) -> None:
    # Nothing listens on port 1.
    bench.connect = f"127.0.0.1:1,{bench.connect}"
    one = bench.registry()
    assert bench.owner.ask(one, Create("/a")) == Created("/a")


def test_sasl() -> None:
    with ZooKeeper({"broker": "secret"}) as zookeeper:
        bench = ZooKeeperBench(zookeeper)
        acl = default_acl(is_secure=True)
        broker = bench.registry(security=ZooKeeperSecurity(sasl=SaslDigest("broker", Secret("secret"))), acl=acl)
        owner = bench.owner
        owner.ask_all(broker, Create("/shown", acl=acl), Create("/users", acl=CREATOR_ACL))
        found = owner.ask(broker, GetAcl("/shown"))
        assert isinstance(found, NodeAcl)
        assert set(found.acl) == {Acl(Permission.ALL, "sasl", "broker"), *READ_ACL}
        other = bench.registry()
        assert isinstance(owner.ask(other, Exists("/shown")), Stat)
        assert owner.code(other, GetData("/users")) == "NO_AUTH"
        assert owner.code(other, SetData("/shown", b"")) == "NO_AUTH"
        wrong = bench.registry(security=ZooKeeperSecurity(sasl=SaslDigest("broker", Secret("wrong"))))
        notes = SessionNotes(wrong)
        assert owner.code(wrong, Exists("/")) == "AUTH_FAILED"
        owner.until(lambda: bool(notes.told))
        assert notes.told[0] == "refused"
        assert zookeeper.address in str(notes.errors[0])
        bench.close()


def test_a_broker_of_apache_kafka_is_seen() -> None:
    with ZooKeeper() as zookeeper:
        bench = ZooKeeperBench(zookeeper)
        one, owner = bench.registry(), bench.owner
        with ZooKeeperKafka(7, bench.connect) as kafka:
            found = owner.ask(one, Exists("/brokers/ids/7", owner.note))
            if not isinstance(found, Stat):  # the broker accepts connections before it registers
                owner.until(lambda: bool(owner.events))
                owner.events.clear()
            data = owner.run(one, read("/brokers/ids/7", owner.note))
            assert data is not None
            assert str(kafka.port) in data.data.decode()
            assert data.stat.ephemeral_owner
            kafka.kill()
            owner.until(lambda: bool(owner.events))
            assert owner.events == [WatchEvent("/brokers/ids/7", EventKind.DELETED)]
        bench.close()
