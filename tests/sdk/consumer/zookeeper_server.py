"""An in-process ZooKeeper tree with a broker and topic t, and sessions that stand in for a consumer's registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry, EmbeddedSession
from kafkawire.sdk.protocol.tables.znodes import BROKER, TOPIC, BrokerRegistration, TopicAssignment
from kafkawire.sdk.registry.registry import (
    Children,
    Data,
    GetChildren,
    GetData,
    Operation,
    Outcome,
    Post,
    SessionListener,
)
from kafkawire.sdk.registry.steps import Steps, create_with_parents, run
from kafkawire.sdk.registry.zookeeper import SessionState
from kafkawire.sdk.registry.zookeeper_security import ZooKeeperSecurity

__all__ = ["Session", "ZooKeeper"]


class ZooKeeper:
    """A tree with a broker and topic t, and the sessions that consumers open in it.

    Attributes:
        sessions: the consumers' sessions.
        securities: the security settings requested for their connections.
        opens: whether sessions can be opened.
    """

    def __init__(self) -> None:
        self.registry = EmbeddedRegistry(lambda: 0)
        self.sessions: list[Session] = []
        self.securities: list[ZooKeeperSecurity] = []
        self.opens = True
        self._posted: list[Callable[[], None]] = []
        self._own = self.registry.session(self._posted.append)
        self._own.start()
        self.put(BROKER.path(1), BROKER.encode(BrokerRegistration({}, {"P": "PLAINTEXT"}, ("P://b:9092",))))
        self.put(TOPIC.path("t"), TOPIC.encode(TopicAssignment({0: (1,)})))

    def put(self, path: str, data: bytes) -> None:
        """Create a node, with its parents."""
        self._run(create_with_parents(path, data))

    def data(self, path: str) -> bytes | None:
        """Return the content of a node, or None if the node does not exist."""
        (outcome,) = self._ask(GetData(path))
        return outcome.data if isinstance(outcome, Data) else None

    def children(self, path: str) -> tuple[str, ...]:
        (outcome,) = self._ask(GetChildren(path))
        return outcome.names if isinstance(outcome, Children) else ()

    def expire(self) -> None:
        """End the first consumer's session."""
        self.registry.expire(self.sessions[0].session_id)

    def _ask(self, *operations: Operation) -> tuple[Outcome, ...]:
        found: list[tuple[Outcome, ...]] = []
        self._own.submit(operations, found.append)
        self._turn()
        return found[0]

    def _run(self, steps: Steps[Any]) -> None:
        ended: list[Any] = []
        run(self._own, steps, ended.append, ended.append)
        self._turn()
        assert len(ended) == 1, ended

    def _turn(self) -> None:
        while self._posted:
            self._posted.pop(0)()


class Session:
    """One consumer's session, which stands in for a `ZooKeeperRegistry`."""

    def __init__(self, server: ZooKeeper, post: Post, timeout_ms: int) -> None:
        self._server = server
        self._session: EmbeddedSession = server.registry.session(post, timeout_ms=timeout_ms)
        self.timeout_ms = timeout_ms
        self.listeners: list[SessionListener] = []
        self.is_closed = False

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self.timeout_ms

    @property
    def state(self) -> SessionState:
        is_connected = self.session_id and self._session.silent_since_ms is None
        return SessionState.CONNECTED if is_connected else SessionState.OPENING

    def describe(self) -> str:
        return "the ZooKeeper of this test"

    def start(self) -> None:
        if self._server.opens:
            self._session.start()

    def add_listener(self, listener: SessionListener) -> None:
        self.listeners.append(listener)
        self._session.add_listener(listener)

    def remove_listener(self, listener: SessionListener) -> None:
        self._session.remove_listener(listener)

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        self._session.submit(operations, done)

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._session.close(timeout_ms)
        closed()

    def close(self, timeout_ms: int) -> None:
        self.begin_to_close(timeout_ms, lambda: None)

    def disconnect(self) -> None:
        self._session.disconnect()

    def reconnect(self) -> None:
        self._session.reconnect()
