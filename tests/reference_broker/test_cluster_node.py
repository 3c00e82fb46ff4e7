"""A failed startup is explained and leaves nothing behind; ids are generated and kept; a lost registry is reported.

Method: run in-process brokers with one embedded registry, and other programs that hold nodes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from kafkawire.reference_broker import cluster_node
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry, EmbeddedSession
from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.server import Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError, RequestTimedOut
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER, ControllerRegistration
from kafkawire.sdk.registry.registry import Create, Post
from kafkawire.sdk.registry.zookeeper import ZooKeeperRegistry

PATIENCE_SECONDS = 30


class Scene:
    """A registry, and brokers that use it.

    Attributes:
        registry: the registry.
        sessions: the brokers' sessions, in order.
    """

    def __init__(self) -> None:
        self.registry = EmbeddedRegistry(now_ms)
        self.sessions: list[EmbeddedSession] = []

    def open(self, post: Post) -> EmbeddedSession:
        self.sessions.append(self.registry.session(post))
        return self.sessions[-1]

    def broker(self, disk: MemoryDisk | None = None, **options: object) -> Broker:
        given = {"zookeeper_connect": "embedded", "controlled_shutdown_retry_backoff_ms": 1, **options}
        return Broker(disk, registry=self.open, **given)

    async def start(self, disk: MemoryDisk | None = None, **options: object) -> Broker:
        broker = self.broker(disk, **options)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await broker.start()
        return broker

    def has_sessions(self) -> bool:
        return bool(self.registry.tree.sessions)


def told(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await story(Scene())

    asyncio.run(run())


async def refused(broker: Broker, kind: type[KafkaWireError], text: str) -> None:
    """Start a broker, and expect startup to fail."""
    with pytest.raises(kind, match=text):
        await broker.start()
    with pytest.raises(KafkaWireError, match="the broker is not running"):
        _ = broker.core


def test_ids_are_generated_and_kept() -> None:
    async def story(scene: Scene) -> None:
        disk = MemoryDisk()
        broker = await scene.start(disk, reserved_broker_max_id=100)
        other = await scene.start(None, reserved_broker_max_id=100)
        assert [each.core.options.node_id for each in (broker, other)] == [101, 102]
        await other.kill()
        await broker.stop()
        broker = await scene.start(disk)
        assert broker.core.options.node_id == 101
        await broker.stop()
        await refused(scene.broker(disk, broker_id=7), ConfigurationError, "has broker.id=101")

    told(story)


def test_a_broker_starts_again() -> None:
    async def story(scene: Scene) -> None:
        broker = await scene.start(None, broker_id=1)
        address = broker.address
        for end in (broker.stop, broker.kill, broker.stop):
            await end()
            if end == broker.kill:
                scene.registry.expire(scene.sessions[-1].session_id or scene.registry.tree.sessions[-1])
            await broker.start()
            assert broker.address == address
        await broker.stop()
        assert not scene.has_sessions()

    told(story)


def test_another_broker_has_the_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.reference_broker.cluster.membership.registration_patience_ms", lambda timeout_ms: 1)

    async def story(scene: Scene) -> None:
        broker = await scene.start(None, broker_id=1)
        await refused(scene.broker(None, broker_id=1), ConfigurationError, "another broker is registered with this id")
        assert scene.registry.tree.sessions == [scene.sessions[0].session_id], "the second session is closed"
        await broker.stop()

    told(story)


def test_the_directory_of_another_cluster() -> None:
    async def story(scene: Scene) -> None:
        disk = MemoryDisk()
        await (await scene.start(disk, broker_id=1)).stop()
        other = Scene()
        await (await other.start(None, broker_id=1)).stop()
        await refused(other.broker(disk, broker_id=1), ConfigurationError, "zookeeper.connect may be wrong")
        assert not other.has_sessions()
        await (await scene.start(disk, broker_id=1)).stop()

    told(story)


def test_the_directory_of_a_broker_alone() -> None:
    async def story(scene: Scene) -> None:
        disk = MemoryDisk()
        alone = Broker(disk)
        await alone.start()
        await alone.stop()
        await refused(scene.broker(disk, broker_id=1), ConfigurationError, "to a broker without ZooKeeper")
        assert not scene.has_sessions()
        await (await scene.start(None, broker_id=1)).stop()
        clustered = MemoryDisk()
        await (await scene.start(clustered, broker_id=1)).stop()
        await refused(Broker(clustered, node_id=1), ConfigurationError, "in a ZooKeeper cluster")

    told(story)


def test_a_registry_that_cannot_be_reached() -> None:
    async def story(scene: Scene) -> None:
        broker = Broker(
            None, registry=_Silent, zookeeper_connect="embedded", broker_id=1, zookeeper_connection_timeout_ms=1
        )
        await refused(broker, RequestTimedOut, r"nowhere: no session within 1 ms .zookeeper.connection.timeout.ms.")

    told(story)


class _Silent(EmbeddedSession):
    """A session that never opens."""

    def __init__(self, post: Post) -> None:
        super().__init__(EmbeddedRegistry(now_ms), post, "nobody", 1_000, ())

    def start(self) -> None:
        """Connect to nothing."""

    def describe(self) -> str:
        return "nowhere"


@pytest.mark.parametrize(
    ("controller_id", "who"), [(9, "the controller is broker 9"), (None, "there is no controller")]
)
def test_a_broker_that_is_not_announced(monkeypatch: pytest.MonkeyPatch, controller_id: int | None, who: str) -> None:
    """The controller is another program, which announces no broker, or the registry no longer answers."""

    async def story(scene: Scene) -> None:
        if controller_id is None:
            await (await scene.start(None, broker_id=1)).stop()
        monkeypatch.setattr(cluster_node, "ANNOUNCEMENT_TIMEOUT_MS", 20)
        loop = asyncio.get_running_loop()

        def post(call: Callable[[], None]) -> None:
            loop.call_soon(call)

        program = scene.registry.session(post)
        program.start()
        if controller_id is not None:
            content = CONTROLLER.encode(ControllerRegistration(controller_id, 1))
            program.submit([Create(CONTROLLER.path(), content)], lambda outcomes: None)
        broker = scene.broker(None, broker_id=1)
        if controller_id is None:
            monkeypatch.setattr("kafkawire.reference_broker.cluster.membership.Membership.stand", lambda *given: None)
        await refused(broker, RequestTimedOut, f"no UpdateMetadata with broker 1 arrived within 20 ms: {who}")
        assert scene.registry.tree.sessions == [program.session_id], "the id is immediately free"

    told(story)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"inter_broker_listener_name": "OTHER"}, "unknown listener OTHER"),
        ({"security_inter_broker_protocol": "SSL"}, "unknown listener SSL; configured listeners: PLAINTEXT"),
        ({"zookeeper_connect": ""}, "expected host:port"),
        ({"zookeeper_session_timeout_ms": 0}, "expected 1 to"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Scene().broker(None, **options)


def test_the_end_of_a_session_does_not_keep_the_loop() -> None:
    """The registry reports from another thread that the session has ended."""

    async def story(scene: Scene) -> None:
        broker = await scene.start(None, broker_id=1)
        session, turns = scene.sessions[0], []
        asked, may_end = asyncio.Event(), threading.Event()

        def begin_to_close(timeout_ms: int, closed: Callable[[], None]) -> None:
            def end() -> None:
                may_end.wait(PATIENCE_SECONDS)
                closed()

            threading.Thread(target=end).start()
            asked.set()

        session.begin_to_close = begin_to_close  # type: ignore[method-assign]  # the method waits for the test
        stop = asyncio.create_task(broker.stop())
        await asked.wait()
        for turn in range(3):
            await asyncio.sleep(0)
            turns.append((turn, stop.done()))
        may_end.set()
        await stop
        assert turns == [(0, False), (1, False), (2, False)]

    told(story)


@pytest.mark.parametrize(
    ("options", "patience_ms"),
    [
        ({"controlled_shutdown_max_retries": 1}, 18_000 + 24_000 + 60_000 + 2_000),
        ({"controlled_shutdown_max_retries": 10}, 10 * 35_000 + 2_000),
    ],
    ids=["the start takes longer", "the stop takes longer"],
)
def test_how_long_a_cluster_may_keep_a_start_or_a_stop(options: dict[str, object], patience_ms: int) -> None:
    node = Scene().broker(None, **{"controlled_shutdown_retry_backoff_ms": 5_000, **options}).node
    assert node is not None
    assert node.patience_ms == patience_ms


def test_listeners_of_brokers_alone() -> None:
    options = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0,C://127.0.0.1:0",
        "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        "inter_broker_listener_name": "b",
    }
    with pytest.raises(ConfigurationError, match="no security protocol is defined for the listener C"):
        Scene().broker(None, **options | {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"})
    broker = Scene().broker(None, **options, control_plane_listener_name="C")
    assert broker.node is not None
    assert broker.node.listeners_between_brokers == {"B", "C"}
    one = Scene().broker(None)
    assert one.node is not None
    assert one.node.listeners_between_brokers == frozenset()


def test_the_zookeeper_of_the_options() -> None:
    pytest.importorskip("kazoo")
    options = ClusterOptions.read({"zookeeper_connect": "host:1/kafka", "zookeeper_session_timeout_ms": 5}.items())
    registry = cluster_node.zookeeper_of(options)(lambda call: None)
    assert isinstance(registry, ZooKeeperRegistry)
    assert (registry.session_timeout_ms, "host:1" in registry.describe()) == (5, True)
