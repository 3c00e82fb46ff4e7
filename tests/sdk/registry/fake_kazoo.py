"""A ZooKeeper server and kazoo's connections to it, on a test's thread, with the embedded registry's tree.

A test decides when a connection is made or lost, and when requests are answered. Requests and responses are kazoo's.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.reference_broker.cluster.znode_tree import Notification, ZnodeTree
from kafkawire.sdk.registry import zookeeper
from kafkawire.sdk.registry.acls import Acl, Permission
from kafkawire.sdk.registry.kazoo_client import KnownSession
from kafkawire.sdk.registry.kazoo_requests import SetWatches
from kafkawire.sdk.registry.registry import (
    Check,
    Children,
    Committed,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
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
)
from kafkawire.sdk.registry.zookeeper import ZooKeeperRegistry
from kafkawire.sdk.secret import Secret
from tests.sdk.registry.owner import Owner

__all__ = ["FakeBench", "FakeConnection", "FakeServers"]

_MODES = list(CreateMode)
_EVENT_NAMES = {
    EventKind.CREATED: "CREATED",
    EventKind.DELETED: "DELETED",
    EventKind.CHANGED: "CHANGED",
    EventKind.CHILDREN_CHANGED: "CHILD",
}
_ERRORS = {
    "NO_NODE": "NoNodeError",
    "NODE_EXISTS": "NodeExistsError",
    "BAD_VERSION": "BadVersionError",
    "NOT_EMPTY": "NotEmptyError",
    "NO_CHILDREN_FOR_EPHEMERALS": "NoChildrenForEphemeralsError",
    "NO_AUTH": "NoAuthError",
    "INVALID_ACL": "InvalidACLError",
    "BAD_ARGUMENTS": "BadArgumentsError",
    "SESSION_EXPIRED": "SessionExpiredError",
    "ROLLED_BACK": "RolledBackError",
    "RUNTIME_INCONSISTENCY": "RuntimeInconsistency",
}


class FakeServers:
    """The tree and the connections to it.

    Attributes:
        answers: whether the servers answer requests immediately.
        accepts: whether the servers accept connections immediately.
        refuses_watches: whether requests to set watches again are refused.
        requests: all requests answered so far.
        refusals: the names of the kazoo errors with which the next requests are answered.
        start_errors: the errors that the next connections raise at startup.
    """

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.answers = self.accepts = True
        self.refuses_watches = False
        self.refusals: list[str] = []
        self.start_errors: list[Exception] = []
        self.connections: list[FakeConnection] = []
        self.requests: list[Any] = []

    def connect(self, *arguments: Any) -> FakeConnection:
        """Stand in for the class `KazooConnection`."""
        connection = FakeConnection(self, *arguments)
        self.connections.append(connection)
        return connection

    def notify(self, notifications: Iterable[Notification]) -> None:
        for session, event in notifications:
            for connection in self.connections:
                if connection.is_linked and connection.session_id == session:
                    connection.on_event(SimpleNamespace(type=_EVENT_NAMES[event.kind], path=event.path))

    def end_session(self, session: int) -> None:
        _, notifications = self.tree.close_session(session, 2_000)
        self.notify(notifications)


class FakeConnection:
    """A stand-in for `KazooConnection`."""

    def __init__(
        self,
        servers: FakeServers,
        hosts: str,
        session_timeout_ms: int,
        digests: Sequence[str],
        sasl: Mapping[str, str] | None,
        on_state: Callable[[str], None],
        on_event: Callable[[Any], None],
        session: KnownSession | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.servers = servers
        self.tls = tls
        self.hosts = hosts
        self.session_timeout_ms = session_timeout_ms
        self.agreed_timeout_ms: int | None = None
        self.sasl = sasl
        self.log = SimpleNamespace(last="")
        self.session_id = 0 if session is None else session.session_id
        self.session_password = b"password"
        self.last_zxid = 0 if session is None else session.last_zxid
        self.watcher = self.on_event = on_event
        self.is_linked = self.is_closed = self.is_dropped = self.is_abandoned = self.is_forked = False
        self.closes_in_time = True
        self.queue: deque[tuple[Any, Any]] = deque()
        self._credentials = [("digest", digest) for digest in digests]
        self._on_state = on_state

    @property
    def session(self) -> KnownSession | None:
        return KnownSession(self.session_id, self.session_password, self.last_zxid) if self.session_id else None

    def start(self) -> None:
        if self.servers.start_errors:
            raise self.servers.start_errors.pop(0)
        if self.servers.accepts:
            self.link()

    def link(self) -> None:
        """Make a connection, which continues the session or opens another."""
        if self.session_id and not self.servers.tree.has_session(self.session_id):
            self.session_id = 0
            self._on_state("EXPIRED_SESSION")
        if not self.session_id:
            self.session_id = self.servers.tree.open_session(self._credentials)
        self.is_linked = True
        self._on_state("CONNECTED")

    def lose(self) -> None:
        """Lose the connection."""
        self.is_linked = False
        self.servers.tree.drop_watches(self.session_id)
        self.fail_pending()
        self._on_state("SUSPENDED")

    def refuse(self) -> None:
        """Refuse the credentials."""
        self.is_linked = False
        self.session_id = 0
        self._on_state("AUTH_FAILED")

    def end(self) -> None:
        """End kazoo's thread, as if by itself; the session lives on."""
        self.is_linked = False
        self._on_state("CLOSED")

    def send(self, request: Any, answered: Any) -> None:
        self.queue.append((request, answered))
        if self.servers.answers:
            self.answer()

    def answer(self, count: int | None = None) -> None:
        """Answer the given number of requests in order; None answers all."""
        while self.queue and self.is_linked and count != 0:
            request, answered = self.queue.popleft()
            self.servers.requests.append(request)
            response = self._response(request)
            self.last_zxid = self.servers.tree.zxid
            if isinstance(response, Exception):
                answered.set_exception(response)
            else:
                answered.set(response)
            count = None if count is None else count - 1

    def fail_pending(self) -> None:
        exceptions = pytest.importorskip("kazoo.exceptions")
        while self.queue:
            self.queue.popleft()[1].set_exception(exceptions.ConnectionLoss())

    def close(self, timeout_ms: int) -> bool:
        self.is_closed = True
        self.is_linked = False
        if self.closes_in_time and self.session_id:
            self.servers.end_session(self.session_id)
        return self.closes_in_time

    def drop(self) -> None:
        self.is_dropped = True
        self.is_linked = False

    def abandon(self) -> None:
        self.is_abandoned = True
        self.is_linked = False

    def forked(self) -> None:
        self.is_forked = True

    def _response(self, request: Any) -> Any:
        if self.servers.refusals:
            exceptions = pytest.importorskip("kazoo.exceptions")
            error: Exception = getattr(exceptions, self.servers.refusals.pop(0))()
            return error
        if isinstance(request, SetWatches):
            return self._set_watches(request)
        operation = _operation(request)
        answer = self.servers.tree.submit(self.session_id, operation, 2_000)
        self.servers.notify(answer.notifications)
        return _response(operation, answer.outcome)

    def _set_watches(self, request: SetWatches) -> Any:
        if self.servers.refuses_watches:
            exceptions = pytest.importorskip("kazoo.exceptions")
            return exceptions.UnimplementedError()
        self.servers.notify(self.servers.tree.set_watches(self.session_id, request.zxid, *request.paths))
        return True


class FakeBench:
    """A `ZooKeeperRegistry` for the registry suite, below a chroot that does not exist."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.owner = Owner()
        self.servers = FakeServers()
        monkeypatch.setattr(zookeeper, "KazooConnection", self.servers.connect)

    def registry(
        self, credentials: Sequence[tuple[str, str]] = (), connect: str = "a:1,b:2/chroot/tree"
    ) -> ZooKeeperRegistry:
        digests = [Secret(proof) for _, proof in credentials]
        registry = ZooKeeperRegistry(connect, self.owner.post, digests=digests)
        registry.start()
        return registry

    def connection_of(self, registry: Registry) -> FakeConnection:
        self.owner.until(lambda: bool(registry.session_id))
        return next(each for each in self.servers.connections if each.session_id == registry.session_id)

    def expire(self, registry: Registry) -> None:
        connection = self.connection_of(registry)
        self.servers.end_session(connection.session_id)
        connection.lose()
        connection.link()


def _acl(acl: Iterable[Any]) -> tuple[Acl, ...]:
    return tuple(Acl(Permission(entry.perms), entry.id.scheme, entry.id.id) for entry in acl)


def _part(request: Any) -> Any:
    match type(request).__name__:
        case "Create":
            mode = {0: "PERSISTENT", 1: "EPHEMERAL", 2: "PERSISTENT_SEQUENTIAL", 3: "EPHEMERAL_SEQUENTIAL"}
            return Create(request.path, request.data, CreateMode[mode[request.flags]], _acl(request.acl))
        case "SetData":
            return SetData(request.path, request.data, request.version)
        case "Delete":
            return Delete(request.path, request.version)
        case _:
            return Check(request.path, request.version)


def _operation(request: Any) -> Operation:
    match type(request).__name__:
        case "GetData":
            return GetData(request.path, request.watcher)
        case "Exists":
            return Exists(request.path, request.watcher)
        case "GetChildren2":
            return GetChildren(request.path, request.watcher)
        case "GetACL":
            return GetAcl(request.path)
        case "SetACL":
            return SetAcl(request.path, _acl(request.acls), request.version)
        case "Transaction":
            return Transaction(tuple(map(_part, request.operations)))
        case _:
            operation: Operation = _part(request)
            return operation


def _exception(code: str) -> Exception:
    error: Exception = getattr(pytest.importorskip("kazoo.exceptions"), _ERRORS[code])()
    return error


def _response(operation: Operation, outcome: Outcome) -> Any:
    """Return the result that kazoo's request would deserialize."""
    security = pytest.importorskip("kazoo.security")
    match outcome:
        case TransactionFailed():
            return [_exception(code.name) for code in outcome.codes]
        case RegistryError():
            is_answer = isinstance(operation, Exists) and outcome.code.name == "NO_NODE"
            return None if is_answer else _exception(outcome.code.name)
        case Created():
            return outcome.path
        case Stat():
            return tuple(outcome)
        case Data():
            return outcome.data, tuple(outcome.stat)
        case Children():
            return list(reversed(outcome.names)), tuple(outcome.stat)
        case NodeAcl():
            acl = [security.ACL(int(each.permissions), security.Id(each.scheme, each.id)) for each in outcome.acl]
            return acl, tuple(outcome.stat)
        case Committed():
            return [_response(operation, result) for result in outcome.results]
        case _:
            return True
