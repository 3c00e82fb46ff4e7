"""A registry in ZooKeeper, through kazoo (the extra `zookeeper`).

kazoo's thread appends events to an inbox, in wire order; everything else is decided on the owner's thread, which reads
the inbox. Therefore only the inbox and the connection number need locks: a request is sent only if the owner knows the
connection that it would use.

After a lost connection, the watches are set again, and ZooKeeper fires those whose events were missed. Then unanswered
requests are sent again in their original order.

Source: `ZooKeeperClient`, `KafkaZkClient.createChrootIfNecessary` in Apache Kafka; `ClientCnxn` in Apache ZooKeeper.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.connect_string import parse_connect
from kafkawire.sdk.registry.kazoo_client import KazooConnection, KnownSession
from kafkawire.sdk.registry.kazoo_requests import SET_WATCHES_BYTES_MAX, KazooTranslation, SetWatches, code_of
from kafkawire.sdk.registry.registry import (
    PENDING_BYTES_MAX,
    PENDING_MAX,
    EventKind,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Outcome,
    Post,
    RegistryCode,
    RegistryError,
    SessionListener,
    WatchEvent,
    path_of,
    refusal_of,
    request_size_bytes,
)
from kafkawire.sdk.registry.steps import Steps, create_with_parents, stat_of
from kafkawire.sdk.registry.watches import WatchKind, WatchTable
from kafkawire.sdk.registry.zookeeper_security import OPEN_CONNECTION, ZooKeeperSecurity
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.states import Edges

__all__ = ["IN_FLIGHT_MAX", "SESSION_EDGES", "SessionState", "ZooKeeperRegistry"]

logger = logging.getLogger("kafkawire.registry")

#: The maximum number of unanswered requests. A server queues up to a thousand requests from all clients before it stops
#: reading.
IN_FLIGHT_MAX: Final = 100

#: The pause after refused credentials, as in Kafka's client, or after kazoo's thread has ended on its own.
_REFUSED_PAUSE_SECONDS: Final = 1.0

#: The maximum number of outcomes, events and callbacks in one iteration of the owner's loop.
_TURN_MAX: Final = 500

_INT32_MAX: Final = 2**31 - 1


class SessionState(Enum):
    """What the owner knows about its session."""

    #: The registry has not been started.
    NEW = auto()
    #: There is no session, or the servers have not answered its first request.
    OPENING = auto()
    #: Requests are sent.
    CONNECTED = auto()
    #: There is a session, but there is no connection on which its watches are set; requests wait.
    SUSPENDED = auto()
    #: The owner has closed the registry.
    CLOSED = auto()


#: The transitions of a session; see `kafkawire.sdk.states`.
SESSION_EDGES: Final = Edges(
    "a session with ZooKeeper",
    (SessionState.NEW,),
    {
        SessionState.NEW: {SessionState.OPENING: "the registry is started"},
        SessionState.OPENING: {
            SessionState.CONNECTED: "the first request of a new session is answered",
            SessionState.OPENING: "the credentials are refused, or the session has already expired",
        },
        SessionState.CONNECTED: {
            SessionState.SUSPENDED: "the connection is lost, or kazoo has ended",
            SessionState.OPENING: "the session has expired, or the credentials are refused",
        },
        SessionState.SUSPENDED: {
            SessionState.CONNECTED: "the watches are set again",
            SessionState.OPENING: "the session has expired, or the credentials are refused",
        },
    },
    from_any={SessionState.CLOSED: "the registry is closed"},
)


class _Submission:
    """Operations that were submitted together.

    Attributes:
        done: called with the outcomes.
        count: the number of operations.
        outcomes: the outcomes known so far; they arrive in order.
    """

    __slots__ = ("count", "done", "outcomes")

    def __init__(self, count: int, done: Callable[[tuple[Outcome, ...]], None]) -> None:
        self.done = done
        self.count = count
        self.outcomes: list[Outcome] = []


class _Waiting(NamedTuple):
    """An operation that has not been answered.

    Attributes:
        operation: the operation.
        submission: the submission that it belongs to.
        size_bytes: the length of its request.
    """

    operation: Operation
    submission: _Submission
    size_bytes: int


class _Sent:
    """An in-flight request; kazoo's thread calls `set` or `set_exception` once.

    Attributes:
        connection: the number of the connection that it was sent through.
        take: called on the owner's thread with the response or the exception.
    """

    __slots__ = ("_append", "connection", "take")

    def __init__(
        self, append: Callable[[Callable[[], None]], None], connection: int, take: Callable[[_Sent, Any], None]
    ) -> None:
        self._append = append
        self.connection = connection
        self.take = take

    def set(self, response: Any) -> None:
        self._append(partial(self.take, self, response))

    def set_exception(self, error: Exception) -> None:
        self._append(partial(self.take, self, error))


class ZooKeeperRegistry:
    """A session with ZooKeeper. Implements `Registry`.

    Args:
        connect: `host:port,host:port/chroot`, as in Kafka's `zookeeper.connect`. A missing chroot is created.
        post: see `Post`.
        session_timeout_ms: after this time without a connection, ZooKeeper may end the session. The servers enforce
            their own limits.
        digests: credentials for the scheme `digest`, as `user:password`.
        security: TLS and a SASL login, if any.
        chroot_acl: the access control list of the nodes of a missing chroot.

    Raises:
        ConfigurationError: `connect` cannot be parsed, the timeout is out of range, or kazoo is not installed.
    """

    def __init__(
        self,
        connect: str,
        post: Post,
        *,
        session_timeout_ms: int = 18_000,
        digests: Sequence[Secret] = (),
        security: ZooKeeperSecurity = OPEN_CONNECTION,
        chroot_acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> None:
        self._hosts, self._chroot = parse_connect("zookeeper_connect", connect)
        if not 0 < session_timeout_ms <= _INT32_MAX:
            raise ConfigurationError("session_timeout_ms", session_timeout_ms, f"expected 1 to {_INT32_MAX}")
        self._post = post
        self._session_timeout_ms = session_timeout_ms
        self._digests = tuple(digests)
        self._security = security
        self._chroot_acl = chroot_acl
        self._translation = KazooTranslation(self._chroot)
        #: For creating the chroot itself.
        self._whole_tree = KazooTranslation("")
        self._connection: KazooConnection | None = None
        #: Counts connection objects: reports from earlier ones are ignored.
        self._incarnation = 0
        self._is_connect_due = False
        self._listeners: list[SessionListener] = []
        self._watches = WatchTable()
        self._state = SessionState.NEW
        self._session_id = 0
        #: The last transaction seen before the connection was lost.
        self._last_zxid = 0
        #: Operations that have not been sent; those that were sent but not answered; and those whose connection was
        #  then lost.
        self._waiting: deque[_Waiting] = deque()
        self._in_flight: deque[_Waiting] = deque()
        self._returned: list[_Waiting] = []
        self._pending_bytes = 0
        #: Calls taken from the inbox; and callbacks of the owner, which run before the remaining calls.
        self._taken: deque[Callable[[], None]] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        # Shared with kazoo's thread.
        self._lock = threading.Lock()
        self._inbox: list[Callable[[], None]] = []
        self._is_posted = False
        self._has_owner = True
        self._connection_lock = threading.Lock()
        #: Counts connections and their losses, as known to kazoo's thread and as known to the owner.
        self._newest_connection = 0
        self._known_connection = 0
        _registries.add(self)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        agreed_ms = None if self._connection is None else self._connection.agreed_timeout_ms
        return self._session_timeout_ms if agreed_ms is None else min(agreed_ms, self._session_timeout_ms)

    @property
    def state(self) -> SessionState:
        """What the owner knows about its session."""
        return self._state

    @property
    def prefix_bytes(self) -> int:
        """The length of the chroot, which counts towards the size of requests."""
        return len(self._chroot.encode())

    @property
    def credentials(self) -> tuple[int, bytes]:
        """The id and the password of the session, which continue it on another connection."""
        connection = self._connection
        return (0, b"") if connection is None else (connection.session_id, connection.session_password)

    def describe(self) -> str:
        place = f"the ZooKeeper at {self._hosts}{self._chroot}"
        cause = "" if self._connection is None or self._state is SessionState.CONNECTED else self._connection.log.last
        return f"{place} ({cause})" if cause else place

    def start(self) -> None:
        if self._state is SessionState.NEW:
            self._state = SESSION_EDGES.follow(self._state, SessionState.OPENING)
            self._connect()

    def add_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: SessionListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        submission = _Submission(len(operations), done)
        added = [
            _Waiting(operation, submission, request_size_bytes(operation, self.prefix_bytes))
            for operation in operations
        ]
        size_bytes = sum(waiting.size_bytes for waiting in added)
        if self._state is SessionState.CLOSED:
            self._refuse(added, submission, RegistryCode.CLOSED, self.describe())
        elif self._pending_count + len(added) > PENDING_MAX:
            reason = f"at most {PENDING_MAX} operations may wait for {self.describe()}"
            self._refuse(added, submission, RegistryCode.TOO_MANY_PENDING, reason)
        elif self._pending_bytes + size_bytes > PENDING_BYTES_MAX:
            reason = f"operations waiting for {self.describe()} may take at most {PENDING_BYTES_MAX} bytes"
            self._refuse(added, submission, RegistryCode.TOO_MANY_PENDING, reason)
        elif not added:
            self._append(partial(done, ()))
        else:
            self._pending_bytes += size_bytes
            self._waiting += added
            if self._is_connect_due:
                self._is_connect_due = False
                self._connect()
            self._send()

    def close(self, timeout_ms: int) -> None:
        connection = self._given_up()
        if connection is not None:
            self._end_session(connection, timeout_ms)

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        connection = self._given_up()

        def end() -> None:
            if connection is not None:
                self._end_session(connection, timeout_ms)
            closed()

        if connection is None or not self._start_thread(end):
            closed()  # if no thread can be started, the session ends when it times out

    def _end_session(self, connection: KazooConnection, timeout_ms: int) -> None:
        if not connection.close(timeout_ms):
            text = "%s has not responded within %d ms; the session there will end after its timeout of %d ms"
            logger.warning(text, self.describe(), timeout_ms, self._session_timeout_ms)

    def abandon(self) -> None:
        connection = self._given_up()
        if connection is not None:
            connection.drop()
            self._start_thread(connection.abandon)

    def _given_up(self) -> KazooConnection | None:
        """Refuse everything with CLOSED from now on; return the connection to end, if there is one."""
        if self._state is SessionState.CLOSED:
            return None
        self._state = SESSION_EDGES.follow(self._state, SessionState.CLOSED)
        self._session_id = 0
        self._watches.clear()
        with self._connection_lock:
            connection, self._connection = self._connection, None
            self._incarnation += 1
        # This comes last: without an owner's loop, it would end the registry's current connection.
        self._append(partial(self._fail, RegistryCode.CLOSED))
        return connection

    def forked(self) -> None:
        """Refuse everything with CLOSED in a child process, because the session belongs to the parent."""
        # The parent's threads may have held the locks.
        self._lock, self._connection_lock = threading.Lock(), threading.Lock()
        self._state = SESSION_EDGES.follow(self._state, SessionState.CLOSED)
        self._session_id = 0
        self._incarnation += 1
        self._watches.clear()
        for operations in (self._in_flight, self._returned, self._waiting, self._inbox, self._taken, self._calls):
            operations.clear()
        self._is_posted = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forked()

    @property
    def _pending_count(self) -> int:
        return len(self._waiting) + len(self._in_flight) + len(self._returned)

    # The inbox.

    def _append(self, happened: Callable[[], None]) -> None:
        """Have the owner's thread call a function after all earlier ones."""
        with self._lock:
            if not self._has_owner:
                return
            self._inbox.append(happened)
            if self._is_posted:
                return
            self._is_posted = True
        self._post_inbox()

    def _post_inbox(self) -> None:
        try:
            self._post(self._read_inbox)
        except RuntimeError as error:  # the owner's loop has ended
            if self._state is not SessionState.CLOSED:
                logger.warning("%s: the owner's event loop has ended: %s", self.describe(), error)
            self._end_without_owner()

    def _end_without_owner(self) -> None:
        """End the session: kazoo's thread would keep it and its nodes alive as long as the process runs."""
        with self._lock:
            self._has_owner = False
            self._inbox.clear()
        connection = self._connection
        if connection is not None:
            # Use another thread, since this one may belong to the connection or to the owner.
            self._start_thread(partial(connection.close, self._session_timeout_ms))

    def _read_inbox(self) -> None:
        """Handle part of the inbox, then let the owner's loop do other things.

        The rest is posted again, even after a callback that ends the loop (KeyboardInterrupt).
        """
        left = _TURN_MAX
        try:
            while left:
                if not self._calls and not self._taken:
                    with self._lock:
                        self._taken.extend(self._inbox)
                        self._inbox.clear()
                    if not self._taken:
                        return
                left -= 1
                each = (self._calls or self._taken).popleft()
                try:
                    each()
                except Exception:
                    logger.exception("%s: a callback failed", self.describe())
        finally:
            with self._lock:
                is_left = self._is_posted = bool(self._calls or self._taken or self._inbox)
            if is_left:
                self._post_inbox()

    # Connections. The first two functions are called on kazoo's thread.

    def _changed(self, incarnation: int, state: str) -> None:
        with self._connection_lock:
            connection = self._connection
            if connection is None or incarnation != self._incarnation:
                return
            self._newest_connection += 1
            number = self._newest_connection
        if state in ("SUSPENDED", "CLOSED"):
            # After this, no request that was queued for the lost connection is left.
            connection.fail_pending()
        self._append(partial(self._took, incarnation, number, state, connection.session_id, connection.last_zxid))

    def _event(self, event: Any) -> None:
        kind = _EVENTS.get(event.type)
        if kind is not None:
            self._append(partial(self._fire, WatchEvent(self._translation.own_path(event.path), kind)))

    def _took(self, incarnation: int, number: int, state: str, session_id: int, last_zxid: int) -> None:
        """Handle a change of the connection, unless the connection is no longer used."""
        if self._state is SessionState.CLOSED or incarnation != self._incarnation:
            return
        self._known_connection = number
        if state == "CONNECTED":
            self._linked(session_id)
        elif state in ("EXPIRED_SESSION", "AUTH_FAILED"):
            self._lost(is_refused=state == "AUTH_FAILED")
        else:
            self._suspended(last_zxid)
            if state == "CLOSED" and self._connection is not None:
                # kazoo's thread has ended, but the session has not.
                self._connect_later(self._connection.session)

    def _connect(self, session: KnownSession | None = None) -> None:
        login = self._security.sasl
        sasl = login and {
            "mechanism": "DIGEST-MD5",
            "username": login.user,
            "password": login.password.reveal(),
        }
        with self._connection_lock:
            self._incarnation += 1
            self._connection = KazooConnection(
                self._hosts,
                self._session_timeout_ms,
                [digest.reveal() for digest in self._digests],
                sasl,
                partial(self._changed, self._incarnation),
                self._event,
                session,
                self._security.tls,
            )
        try:
            self._connection.start()
        except (OSError, RuntimeError) as error:  # too many open files or threads
            logger.warning("%s: cannot begin to connect, will try again: %s", self.describe(), error)
            self._connect_later(session)

    def _linked(self, session_id: int) -> None:
        """Prepare a new connection: set the session's watches, or open the session itself."""
        if self._state is SessionState.SUSPENDED:
            self._set_watches()
        else:
            self._prepare(session_id, self._opening(), None)

    def _suspended(self, last_zxid: int) -> None:
        # This includes requests that kazoo dropped without failing them: outcomes from a lost connection are ignored.
        self._waiting.extendleft(reversed([*self._returned, *self._in_flight]))
        self._returned.clear()
        self._in_flight.clear()
        if self._state is SessionState.CONNECTED:
            self._state = SESSION_EDGES.follow(self._state, SessionState.SUSPENDED)
            self._last_zxid = last_zxid
            logger.warning("the connection to %s is lost", self.describe())
            self._tell(lambda listener: listener.suspended())

    def _lost(self, *, is_refused: bool) -> None:
        """Handle an expired session or refused credentials.

        As in Kafka's client, refused credentials end the session: its operations must not wait for a login that may
        never succeed.
        """
        had_session, self._session_id = bool(self._session_id), 0
        place = self.describe()
        self._state = SESSION_EDGES.follow(self._state, SessionState.OPENING)
        self._watches.clear()
        logger.warning("%s has %s", place, "refused the credentials" if is_refused else "ended the session")
        # Operations that wait for a session's first answer have not been sent in any session; they wait for the next
        # one.
        if is_refused or had_session:
            self._fail(RegistryCode.AUTH_FAILED if is_refused else RegistryCode.SESSION_EXPIRED)
        if is_refused:
            error = RegistryError(RegistryCode.AUTH_FAILED, "", place)
            self._tell(lambda listener: listener.refused(error))
        if had_session:
            self._tell(lambda listener: listener.expired())
        if is_refused:
            self._connect_later(None)

    def _connect_later(self, session: KnownSession | None) -> None:
        """Connect again after a pause, since kazoo does not.

        Args:
            session: the session to continue; None for a new one.
        """
        with self._connection_lock:
            former, self._connection = self._connection, None
            self._incarnation += 1

        def wait() -> None:
            if former is not None:
                former.abandon()
            threading.Event().wait(_REFUSED_PAUSE_SECONDS)
            self._append(again)

        def again() -> None:
            if self._state not in (SessionState.NEW, SessionState.CLOSED) and self._connection is None:
                self._connect(session)

        # If no thread can be started for the pause, the next operation connects.
        self._is_connect_due = not self._start_thread(wait)

    def _start_thread(self, run: Callable[[], object]) -> bool:
        """Run a function on its own thread; return False if none can be started."""
        try:
            threading.Thread(target=run, name="kafkawire-zookeeper-pause", daemon=True).start()
        except RuntimeError as error:
            logger.warning("%s: cannot start a thread: %s", self.describe(), error)
            return False
        return True

    # A new session.

    def _opening(self) -> Steps[None]:
        """Check that the servers answer this session, and create the chroot if it is missing.

        Any answer will do, as the servers may not permit this session to read the root of its paths.
        """
        try:
            stat = yield from stat_of(self._chroot or "/")
        except RegistryError as error:
            logger.warning("%s does not permit reading the root of its paths: %s", self.describe(), error)
            return
        if stat is None:
            try:
                yield from create_with_parents(self._chroot, acl=self._chroot_acl)
            except RegistryError as error:
                logger.error("the chroot of %s cannot be created: %s", self.describe(), error)

    def _prepare(self, session_id: int, steps: Steps[None], outcomes: Sequence[Outcome] | None) -> None:
        try:
            operations = next(steps) if outcomes is None else steps.send(outcomes)
        except StopIteration:
            self._opened(session_id)
            return
        answers: list[Outcome] = []

        def take(operation: Operation, sent: _Sent, response: Any) -> None:
            if sent.connection != self._known_connection or _is_lost(response):
                return  # the next connection starts over
            answers.append(self._whole_tree.outcome_of(operation, response))
            if len(answers) == len(operations):
                self._prepare(session_id, steps, answers)

        for operation in operations:
            self._send_request(self._whole_tree.request_of(operation), partial(take, operation))

    def _opened(self, session_id: int) -> None:
        if self._state is SessionState.CLOSED:
            return
        self._state = SESSION_EDGES.follow(self._state, SessionState.CONNECTED)
        self._session_id = session_id
        logger.info("session %#x with %s is open", session_id, self.describe())
        self._tell(lambda listener: listener.opened())
        self._send()

    # The session continues on another connection.

    def _set_watches(self) -> None:
        requests = list(self._watch_requests())
        left = len(requests)

        def take(sent: _Sent, response: Any) -> None:
            nonlocal left
            if sent.connection != self._known_connection or _is_lost(response):
                return  # the next connection starts over
            if isinstance(response, Exception):
                self._report_changes(response)
            left -= 1
            if not left:
                self._connected()

        for request in requests:
            self._send_request(request, take)

    def _watch_requests(self) -> list[SetWatches]:
        """Return the requests that set all watches; there is always at least one, to see whether it is answered."""
        requests = []
        chunk: dict[WatchKind, list[str]] = {kind: [] for kind in WatchKind}
        size_bytes = 0

        def add() -> None:
            nonlocal size_bytes
            requests.append(SetWatches(self._last_zxid, *(list(chunk[kind]) for kind in WatchKind)))
            for paths in chunk.values():
                paths.clear()
            size_bytes = 0

        for kind in WatchKind:
            for path in self._watches.paths(kind):
                full = self._translation.full_path(path)
                if size_bytes + len(full.encode()) > SET_WATCHES_BYTES_MAX:
                    add()
                chunk[kind].append(full)
                size_bytes += len(full.encode())
        add()
        return requests

    def _report_changes(self, error: Exception) -> None:
        """Fire all watches: the servers do not set them again, and changes may have been missed."""
        logger.warning("%s did not restore the watches (%s); all are reported as changes", self.describe(), error)
        for kind in WatchKind:
            change = EventKind.CHILDREN_CHANGED if kind is WatchKind.CHILDREN else EventKind.CHANGED
            for path in self._watches.paths(kind):
                self._fire(WatchEvent(path, change))

    def _connected(self) -> None:
        if self._state is SessionState.CLOSED:
            return
        self._state = SESSION_EDGES.follow(self._state, SessionState.CONNECTED)
        logger.info("session %#x with %s is connected again", self._session_id, self.describe())
        self._tell(lambda listener: listener.connected())
        self._send()

    # Operations.

    def _send(self) -> None:
        """Send waiting operations as long as there is room."""
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX and self._state is SessionState.CONNECTED:
            waiting = self._waiting[0]
            refusal = refusal_of(waiting.operation, self.prefix_bytes)
            if refusal is not None:
                # Refuse it only when its turn comes, to keep the outcomes of a submission in order.
                if self._in_flight:
                    return
                self._in_flight.append(self._waiting.popleft())
                self._append(partial(self._refused, waiting, refusal))
                continue
            request = self._translation.request_of(waiting.operation)
            if hasattr(request, "watcher") and request.watcher is not None and self._connection is not None:
                request = request._replace(watcher=self._connection.watcher)
            if not self._send_request(request, partial(self._answered, waiting)):
                return
            self._waiting.popleft()
            self._in_flight.append(waiting)

    def _send_request(self, request: Any, take: Callable[[_Sent, Any], None]) -> bool:
        """Send a request; return False if the connection known to the owner is gone."""
        with self._connection_lock:
            if self._connection is None or self._newest_connection != self._known_connection:
                return False
            self._connection.send(request, _Sent(self._append, self._known_connection, partial(self._receive, take)))
            return True

    def _receive(self, take: Callable[[_Sent, Any], None], sent: _Sent, response: Any) -> None:
        is_open = self._state is not SessionState.CLOSED and sent.connection == self._known_connection
        if is_open and type(response).__name__ == "SessionClosedRequireSaslError":
            self._lost(is_refused=True)
        else:
            take(sent, response)

    def _answered(self, waiting: _Waiting, sent: _Sent, response: Any) -> None:
        if sent.connection != self._known_connection or not self._in_flight or self._in_flight[0] is not waiting:
            return  # the operation failed along with its session
        self._in_flight.popleft()
        if _is_lost(response):
            self._returned.append(waiting)
            return
        self._answer(waiting, self._translation.outcome_of(waiting.operation, response))
        self._send()

    def _refused(self, waiting: _Waiting, refusal: RegistryError) -> None:
        """Answer an operation that was not sent, unless it has meanwhile failed along with its session."""
        if self._in_flight and self._in_flight[0] is waiting:
            self._in_flight.popleft()
            self._answer(waiting, refusal)
            self._send()

    def _answer(self, waiting: _Waiting, outcome: Outcome) -> None:
        self._pending_bytes -= waiting.size_bytes
        if self._state is not SessionState.CLOSED and isinstance(waiting.operation, GetData | Exists | GetChildren):
            self._watches.add_for(waiting.operation, outcome)
        submission = waiting.submission
        submission.outcomes.append(outcome)
        if len(submission.outcomes) == submission.count:
            self._calls.append(partial(submission.done, tuple(submission.outcomes)))

    def _fire(self, event: WatchEvent) -> None:
        self._calls.extend(partial(watcher, event) for watcher in self._watches.take(event))

    def _fail(self, code: RegistryCode) -> None:
        """Fail all operations that have not been answered."""
        failed = [*self._in_flight, *self._returned, *self._waiting]
        for operations in (self._in_flight, self._returned, self._waiting):
            operations.clear()
        place = self.describe()
        for waiting in failed:
            self._answer(waiting, RegistryError(code, path_of(waiting.operation), place))

    def _refuse(self, added: Sequence[_Waiting], submission: _Submission, code: RegistryCode, detail: str) -> None:
        outcomes = tuple(RegistryError(code, path_of(waiting.operation), detail) for waiting in added)
        self._append(partial(submission.done, outcomes))

    def _tell(self, tell: Callable[[SessionListener], None]) -> None:
        def told(listener: SessionListener) -> None:
            if listener in self._listeners:
                tell(listener)

        self._calls.extend(partial(told, listener) for listener in self._listeners)


_registries: WeakSet[ZooKeeperRegistry] = WeakSet()


def _in_child() -> None:
    for registry in list(_registries):
        registry.forked()


os.register_at_fork(after_in_child=_in_child)

_EVENTS: Final = {
    "CREATED": EventKind.CREATED,
    "DELETED": EventKind.DELETED,
    "CHANGED": EventKind.CHANGED,
    "CHILD": EventKind.CHILDREN_CHANGED,
}

#: Errors that say nothing about the request itself: its connection or session is gone, which is reported separately.
_LOST_CODES: Final = (RegistryCode.SESSION_EXPIRED, RegistryCode.AUTH_FAILED)


def _is_lost(response: Any) -> bool:
    """Return whether a request has no answer; a transaction has none if any of its operations has none."""
    if isinstance(response, list):
        return any(map(_is_lost, response))
    return isinstance(response, Exception) and (
        type(response).__name__ == "ConnectionLoss" or code_of(response) in _LOST_CODES
    )
