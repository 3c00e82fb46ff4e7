"""A consumer in a ZooKeeper group opens a session, reads what it owns, commits where it should, and leaves no trace.

Method: run the whole consumer against a scripted broker and an in-process registry, in which a second session prepares
and inspects the nodes. `tests/sdk/groups` tests the state machines, and `tests/kafka` uses a real ZooKeeper server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkawire.sdk.consumer import zookeeper
from kafkawire.sdk.consumer.consumer import Consumer
from kafkawire.sdk.consumer.health import WaitsFor
from kafkawire.sdk.errors import Closed, ConfigurationError, ConnectionLost, KafkaWireError, RequestTimedOut
from kafkawire.sdk.groups.protocol import Step
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    Post,
    RegistryCode,
    RegistryError,
)
from kafkawire.sdk.registry.zookeeper_security import ZooKeeperSecurity
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.consumer.grouped import QUICK
from tests.sdk.consumer.zookeeper_server import Session, ZooKeeper
from tests.sdk.scripted_broker import BROKER as ADDRESS
from tests.sdk.scripted_broker import StoringBroker

T0 = TopicPartition("t", 0)
OWNER = "/consumers/g/owners/t/0"
OFFSET = "/consumers/g/offsets/t/0"
GROUP: dict[str, Any] = {"group_protocol": "zookeeper", "zookeeper_connect": "z:2181/kafka"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ZooKeeper:
    found = ZooKeeper()

    def session(connect: str, post: Post, *, session_timeout_ms: int, security: ZooKeeperSecurity) -> Session:
        assert connect == "z:2181/kafka"
        found.securities.append(security)
        found.sessions.append(Session(found, post, session_timeout_ms))
        return found.sessions[-1]

    monkeypatch.setattr(zookeeper, "ZooKeeperRegistry", session)
    return found


class Listener:
    """Records its calls."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(f"assigned {len(partitions)}")

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(f"revoked {len(partitions)}")

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.told.append(f"lost {len(partitions)}")


def consuming(
    test: Callable[[StoringBroker, Consumer], Awaitable[None]], *topics: str, listener: Any = None, **options: Any
) -> StoringBroker:
    """Run a test with a consumer, and with a broker whose topic t has three records."""
    made: list[StoringBroker] = []

    async def run_test() -> None:
        broker = StoringBroker({"t": 1})
        made.append(broker)
        broker.fill("t", b"a", b"b", b"c")
        given = {**QUICK, **GROUP, **options}
        async with Consumer(str(ADDRESS), *topics, network=broker.network, listener=listener, **given) as consumer:
            async with asyncio.timeout(20):
                await test(broker, consumer)

    asyncio.run(run_test())
    return made[0]


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_member_reads_what_it_owns_and_leaves_nothing(server: ZooKeeper, io: str) -> None:
    listener = Listener()

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        assert [record.value async for record in consumer.records(stop_at_end=True)] == [b"a", b"b", b"c"]
        (owner,) = server.children("/consumers/g/ids")
        assert (server.data(OWNER) or b"").decode() == f"{owner}-0"
        assert owner.startswith("g_")
        await consumer.commit()
        assert await consumer.committed(T0) == {T0: OffsetAndMetadata(3)}
        consumer.seek(T0, 1)
        assert (await anext(aiter(consumer))).value == b"b"
        assert consumer.group_metadata().group_id == "g"

    broker = consuming(test, "t", io=io, listener=listener, zookeeper_session_timeout_ms=7_000)
    assert listener.told == ["assigned 1", "revoked 1"]
    assert server.children("/consumers/g/ids") == server.children("/consumers/g/owners/t") == ()
    assert server.data(OFFSET) == b"2", "close must commit the finished records"
    assert not broker.commits
    assert [(session.is_closed, session.timeout_ms) for session in server.sessions] == [(True, 7_000)]


@pytest.mark.parametrize(
    ("options", "in_zookeeper", "in_kafka"),
    [
        ({}, b"3", None),
        ({"dual_commit_enabled": True}, b"3", 3),
        ({"offsets_storage": "kafka"}, b"3", 3),
        ({"offsets_storage": "kafka", "dual_commit_enabled": False}, None, 3),
    ],
)
@pytest.mark.parametrize("way", ["commit", "interval", "by hand"])
def test_where_offsets_are_committed(
    server: ZooKeeper, options: dict[str, Any], in_zookeeper: bytes | None, in_kafka: int | None, way: str
) -> None:
    def is_stored(broker: StoringBroker) -> bool:
        return server.data(OFFSET) == in_zookeeper and broker.commits.get(("g", "t", 0)) == in_kafka

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        if way == "by hand":
            consumer.assign(T0)
        await consumer.getmany(60_000)
        if way != "interval":
            await consumer.commit()
        while not is_stored(broker):
            await consumer.getmany(5)
        assert (await consumer.committed(T0, TopicPartition("t", 5)))[T0].offset == 3

    topics = () if way == "by hand" else ("t",)
    interval_ms = 1 if way == "interval" else 60_000
    assert is_stored(consuming(test, *topics, auto_commit_interval_ms=interval_ms, **options))


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        ({}, 1),
        ({"dual_commit_enabled": True}, 2),
        ({"offsets_storage": "kafka"}, 2),
        ({"offsets_storage": "kafka", "dual_commit_enabled": False}, 2),
    ],
)
def test_where_a_member_begins(server: ZooKeeper, options: dict[str, Any], begin: int) -> None:
    server.put(OFFSET, b"1")

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        broker.commits["g", "t", 0] = 2
        assert (await anext(aiter(consumer))).offset == begin

    consuming(test, "t", **options)


def test_an_offset_that_cannot_be_read_is_an_error(server: ZooKeeper) -> None:
    server.put(OFFSET, b"x")

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(DamagedZnode):
            await consumer.committed(T0, TopicPartition("t", 5))

    consuming(test)


def test_topics_by_what_they_are_not(server: ZooKeeper) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await consumer.subscribe(excluded_pattern="u.*")
        assert (await anext(aiter(consumer))).value == b"a"
        (member,) = server.children("/consumers/g/ids")
        assert b'"pattern":"black_list"' in (server.data(f"/consumers/g/ids/{member}") or b"")
        await consumer.subscribe(pattern="u.*")
        while consumer.assignment:
            await asyncio.sleep(0)

    consuming(test)


def test_a_lost_session_costs_the_partitions_and_they_come_back(server: ZooKeeper) -> None:
    listener = Listener()

    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await anext(aiter(consumer))
        server.expire()
        while listener.told != ["assigned 1", "lost 1", "assigned 1"]:
            await consumer.getmany(5)
        assert server.data(OWNER) is not None

    consuming(test, "t", listener=listener)


def test_health_tells_of_a_lost_connection(server: ZooKeeper) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        await anext(aiter(consumer))
        assert consumer.health().error is None
        server.sessions[0].disconnect()
        error = consumer.health().error
        assert isinstance(error, ConnectionLost)
        assert str(error) == "there is no connection to the ZooKeeper of this test"
        server.sessions[0].reconnect()

    consuming(test, "t")


def test_health_of_a_member_without_a_session(server: ZooKeeper) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        server.sessions[0].disconnect()
        await consumer.subscribe("t")
        while consumer.health().waits_for is not WaitsFor.COORDINATOR:
            await asyncio.sleep(0)
        server.sessions[0].reconnect()

    consuming(test)


def test_the_start_waits_for_a_session_and_not_for_ever(server: ZooKeeper) -> None:
    server.opens = False

    async def test(broker: StoringBroker, consumer: Consumer) -> None: ...

    with pytest.raises(RequestTimedOut, match="no session with the ZooKeeper of this test was opened in time"):
        consuming(test, "t", api_timeout_ms=1_000)
    assert server.sessions[0].is_closed


def test_refused_credentials_end_the_start(server: ZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    error = RegistryError(RegistryCode.AUTH_FAILED, "", "the ZooKeeper of this test")

    def refuse(session: Session) -> None:
        (listener,) = session.listeners
        listener.refused(error)

    monkeypatch.setattr(Session, "start", refuse)

    async def test(broker: StoringBroker, consumer: Consumer) -> None: ...

    with pytest.raises(RegistryError, match="AUTH_FAILED"):
        consuming(test, "t")


def test_a_close_while_the_start_waits(server: ZooKeeper) -> None:
    """The promise for the startup fails when the state machines end."""
    session = zookeeper.RegistrySession(_options(), lambda function: None)
    opened: Promise[None] = Promise()
    server.opens = False
    session.open(1_000, opened)
    assert session.due_ms(0) == 1_000
    session.fail(Closed("the end"), 1)
    with pytest.raises(Closed):
        opened.wait(0)
    assert session.due_ms(2) is None
    assert server.sessions[0].is_closed


def test_without_kazoo_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kazoo", "kazoo.protocol"):
        monkeypatch.setitem(sys.modules, name, None)

    async def test(broker: StoringBroker, consumer: Consumer) -> None: ...

    with pytest.raises(ConfigurationError, match=r'pip install "kafkawire\[zookeeper\]"'):
        consuming(test, "t")


def test_a_driver_that_has_ended_refuses_what_is_posted() -> None:
    """The registry then ends its session, as it does after an event loop has ended."""

    def ended(step: Step) -> None:
        raise Closed("the consumer was closed")

    with pytest.raises(RuntimeError, match="the consumer was closed"):
        zookeeper.posting(ended)(lambda: None)
    steps: list[Step] = []
    called: list[int] = []
    zookeeper.posting(steps.append)(lambda: called.append(1))
    assert not called
    steps[0](5)
    assert called == [1]


def _options() -> Any:
    from kafkawire.sdk.client.options import ConsumerOptions, read_options

    return read_options(ConsumerOptions, "a", {"group_id": "g", **GROUP})


def test_a_group_that_cannot_be_a_name_in_zookeeper(server: ZooKeeper) -> None:
    async def test(broker: StoringBroker, consumer: Consumer) -> None:
        with pytest.raises(KafkaWireError, match="group"):
            await consumer.getmany(60_000)

    consuming(test, "t", group_id="a/b")
