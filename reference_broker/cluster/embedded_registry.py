"""An in-process registry: a tree, the sessions of one or more owners, and a journal on the broker's disk.

It serves single brokers and simulated clusters. In a simulation, sessions can expire or lose their connections, and a
plan can drop any request or response. Persistent nodes outlive the process; sessions and their ephemeral nodes do not.

A write is answered once it is durable, and a read that follows a write once that write is durable. While the disk is
full, or this process has too many open files, everything waits. After a disk failure, everything fails with
STORAGE_FAILED until the broker is restarted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.registry_journal import RegistryJournal, can_be_repeated
from kafkawire.reference_broker.cluster.znode_tree import Notification, TreeTransaction, ZnodeTree
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.registry.registry import (
    PENDING_BYTES_MAX,
    PENDING_MAX,
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
    request_size_bytes,
)
from kafkawire.sdk.registry.watches import WatchKind, WatchTable

__all__ = [
    "REPEAT_PAUSE_MS",
    "SESSION_TIMEOUT_MS",
    "EmbeddedRegistry",
    "EmbeddedSession",
    "Fault",
    "Plan",
    "RegistryCall",
]

logger = logging.getLogger("kafkawire.broker")

#: The default of Kafka's `zookeeper.session.timeout.ms`.
SESSION_TIMEOUT_MS: Final = 18_000

#: A write that failed for lack of space or file descriptors is retried when an operation arrives, but no earlier than
#: this long after the failure, since writing the whole tree takes a long time.
REPEAT_PAUSE_MS: Final = 1_000

#: Maximum number of operations that a session carries out in one turn of its owner's loop.
_TURN_MAX: Final = 1_000


class RegistryCall(NamedTuple):
    """An operation that has reached the registry, just before it takes effect.

    Attributes:
        number: the operation's number, counted from 1.
        session_id: the session that submitted it.
        operation: the operation.
    """

    number: int
    session_id: int
    operation: Operation


class Fault(Enum):
    """What goes wrong with an operation. After a fault, the session reconnects automatically."""

    #: The connection is lost before the operation takes effect.
    LOSE_REQUEST = auto()
    #: The connection is lost after the operation took effect.
    LOSE_RESPONSE = auto()
    #: The session expires before the operation takes effect.
    EXPIRE_BEFORE = auto()
    #: The session expires after the operation took effect.
    EXPIRE_AFTER = auto()


#: Called before each operation; returns the fault to inject, the code with which to refuse the operation, or None.
Plan = Callable[[RegistryCall], Fault | RegistryCode | None]


class EmbeddedRegistry:
    """The tree, its journal and the sessions. All calls come from one thread.

    Args:
        clock: returns the time in ms, for the nodes and for session timeouts.
        journal: stores the tree; None for a registry that does not outlive the process.
        background: runs the journal's blocking work.

    Raises:
        DamagedFile: the journal is damaged.
        OSError: the journal cannot be read.

    Attributes:
        plan: see `Plan`; with None, no faults are injected.
        calls: the number of operations.
    """

    def __init__(
        self, clock: Callable[[], int], journal: RegistryJournal | None = None, background: Background = at_once
    ) -> None:
        self.plan: Plan | None = None
        self.calls = 0
        self._clock = clock
        self._journal = journal
        self._background = background
        self._tree = ZnodeTree() if journal is None else journal.load()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._error: Exception | None = None
        #: Why and when the last write failed, if it is to be retried.
        self._shortage: Exception | None = None
        self._repeat_at_ms = 0
        #: Transactions whose write has not started yet.
        self._unwritten: list[TreeTransaction] = []
        self._is_writing = False
        #: The number of transactions that have been carried out, and the number of those that are durable. Loaded
        #: content that must be rewritten counts as one transaction.
        self._durable_position = 0
        self._position = 0 if journal is None or journal.is_durable else 1
        # The sessions' owners ended with the previous process.
        for session_id in self._tree.sessions:
            self._close(session_id)

    @property
    def tree(self) -> ZnodeTree:
        """The tree, for inspection."""
        return self._tree

    def session(
        self,
        post: Post,
        *,
        name: str = "embedded",
        timeout_ms: int = SESSION_TIMEOUT_MS,
        credentials: Sequence[tuple[str, str]] = (),
    ) -> EmbeddedSession:
        """Return a registry for an owner; its `start` starts a session.

        Args:
            post: see `Post`.
            name: the owner's name, for `describe`.
            timeout_ms: how long a session may be without a connection before `expire_silent` ends it.
            credentials: pairs of a scheme and the proof of an identity, which for `digest` is `user:password`.
        """
        return EmbeddedSession(self, post, name, timeout_ms, tuple(credentials))

    def expire(self, session_id: int) -> None:
        """End a session as if it had been silent for too long; its owner learns of this when connected."""
        session = self._sessions.pop(session_id, None)
        self._close(session_id)
        if session is not None:
            session.end_of_session()

    def expire_silent(self) -> None:
        """End the sessions that have been without a connection for longer than their timeout."""
        now_ms = self._clock()
        for session_id, session in list(self._sessions.items()):
            if session.silent_since_ms is not None and now_ms - session.silent_since_ms > session.timeout_ms:
                self.expire(session_id)

    @property
    def shortage(self) -> Exception | None:
        """The lack of space or file descriptors because of which everything is waiting; None if there is none."""
        return self._shortage

    def write_again(self) -> None:
        """Retry the write that `shortage` has stopped. Call this from time to time; every operation does so too."""
        self._repeat_at_ms = 0
        self._write()

    # For sessions.

    @property
    def now_ms(self) -> int:
        """The time in ms."""
        return self._clock()

    @property
    def error(self) -> Exception | None:
        """The disk failure; None while the disk works."""
        return self._error

    def open(self, session: EmbeddedSession, credentials: Sequence[tuple[str, str]]) -> int:
        """Start a session and return its id."""
        session_id = self._tree.open_session(credentials)
        self._sessions[session_id] = session
        return session_id

    def end(self, session_id: int) -> None:
        """End a session at the request of its owner."""
        self._sessions.pop(session_id, None)
        self._close(session_id)

    def fault_of(self, session_id: int, operation: Operation) -> Fault | RegistryCode | None:
        """Count an operation, and return the fault planned for it."""
        self.calls += 1
        return None if self.plan is None else self.plan(RegistryCall(self.calls, session_id, operation))

    def carry_out(self, session_id: int, operation: Operation) -> _Told:
        """Carry out an operation; return its outcome, with the position that must be durable before it is reported."""
        answer = self._tree.submit(session_id, operation, self._clock())
        self._take(answer.transaction, answer.notifications)
        return _Told(self._position, None, answer.outcome, self._tree.zxid)

    def drop_watches(self, session_id: int) -> None:
        """Forget the watches of a session that has lost its connection."""
        self._tree.drop_watches(session_id)

    def set_watches(self, session_id: int, zxid: int, watches: WatchTable) -> None:
        """Set the watches of a session that has reconnected, and notify it of the changes that it missed.

        Args:
            session_id: the session.
            zxid: the last transaction of which the owner has been told.
            watches: the watches for which the owner is waiting.
        """
        kinds = (WatchKind.DATA, WatchKind.EXISTENCE, WatchKind.CHILDREN)
        self._take(None, self._tree.set_watches(session_id, zxid, *map(watches.paths, kinds)))

    def is_durable(self, position: int) -> bool:
        """Return whether everything up to a position is durable."""
        return position <= self._durable_position

    # Transactions.

    def _close(self, session_id: int) -> None:
        self._take(*self._tree.close_session(session_id, self._clock()))

    def _take(self, transaction: TreeTransaction | None, notifications: Sequence[Notification]) -> None:
        if transaction is not None:
            self._position += 1
            if self._journal is None:
                self._durable_position = self._position
            else:
                self._unwritten.append(transaction)
        self._write()
        for session_id, event in notifications:
            if session_id in self._sessions:
                self._sessions[session_id].notify(event, self._position)

    def _write(self) -> None:
        """Write everything not yet written, immediately or after the write in progress."""
        journal, position = self._journal, self._position
        if journal is None or self._is_writing or position == self._durable_position or self._error is not None:
            return
        if self._shortage is not None and self._clock() < self._repeat_at_ms:
            return
        self._is_writing = True
        transactions, self._unwritten = self._unwritten, []
        # A snapshot includes these transactions.
        is_snapshot = journal.is_compaction_due
        try:
            content = journal.compacted_content(self._tree) if is_snapshot else journal.frame_of(transactions)
        except Exception as error:
            logger.exception("could not encode the registry")
            self._written(position, error)
            return
        write = journal.replace if is_snapshot else journal.append

        def written(error: Exception | None) -> None:
            if error is not None and can_be_repeated(error):
                journal.take_back()
                self._unwritten[:0] = transactions
                self._wait_for_room(error, is_snapshot and not journal.is_compaction_due)
            else:
                self._written(position, error)

        self._background(lambda: write(content), written)

    def _wait_for_room(self, error: Exception, can_append: bool) -> None:
        """Make everything wait after a write has failed.

        Args:
            error: why the write failed.
            can_append: whether the failed write was a snapshot, in which case the missing transactions can be appended
                instead.
        """
        self._is_writing = False
        if self._shortage is None:
            logger.error("could not write the registry, and will retry: %s", error)
        self._shortage = error
        self._repeat_at_ms = 0 if can_append else self._clock() + REPEAT_PAUSE_MS
        if can_append:
            self._write()

    def _written(self, position: int, error: Exception | None) -> None:
        self._is_writing = False
        if error is not None:
            self._error = error
            logger.error("could not write the registry, which is shutting down: %s", error)
        else:
            self._durable_position = position
            if self._shortage is not None:
                logger.info("writing the registry works again")
        self._shortage = None
        for session in list(self._sessions.values()):
            session.tell()
        self._write()


class _Told(NamedTuple):
    """Something to report to an owner once it is durable.

    Attributes:
        position: see `EmbeddedRegistry.is_durable`.
        event: a change to a watched node; None for an outcome.
        outcome: the outcome of the first operation not yet reported.
        zxid: the last transaction that is visible in an outcome.
    """

    position: int
    event: WatchEvent | None
    outcome: Outcome | None
    zxid: int = 0


class _Submission:
    """Operations that were submitted together.

    Attributes:
        operations: the operations.
        done: called with the outcomes.
        outcomes: the outcomes known so far.
    """

    __slots__ = ("done", "operations", "outcomes")

    def __init__(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        self.operations = tuple(operations)
        self.done = done
        self.outcomes: list[Outcome] = []


class EmbeddedSession:
    """An owner's registry: its session with an `EmbeddedRegistry`; implements `Registry`.

    It is created by `EmbeddedRegistry.session`. `disconnect` and `reconnect`, which are not part of the interface, are
    for simulations.

    Attributes:
        timeout_ms: see `EmbeddedRegistry.session`.
        silent_since_ms: when the connection was lost; None while connected.
    """

    def __init__(
        self,
        registry: EmbeddedRegistry,
        post: Post,
        name: str,
        timeout_ms: int,
        credentials: tuple[tuple[str, str], ...],
    ) -> None:
        self.timeout_ms = timeout_ms
        self.silent_since_ms: int | None = None
        self._registry = registry
        self._post = post
        self._name = name
        self._credentials = credentials
        self._listeners: list[SessionListener] = []
        #: The watches for which the owner is waiting, and the last transaction of which it has been told.
        self._watches = WatchTable()
        self._told_zxid = 0
        #: The session's state in the registry, and what the owner knows about it.
        self._session_id = 0
        self._known_session_id = 0
        self._is_started = False
        self._is_closed = False
        #: Unanswered operations, in order; the first `_sent` of them have been carried out.
        self._waiting: deque[tuple[Operation, _Submission]] = deque()
        self._waiting_bytes = 0
        self._sent = 0
        #: What has yet to be reported to the owner, in order.
        self._untold: deque[_Told] = deque()
        self._is_delivering = False

    @property
    def session_id(self) -> int:
        return self._known_session_id

    @property
    def session_timeout_ms(self) -> int:
        return self.timeout_ms

    def describe(self) -> str:
        return f"the registry in this process, as {self._name}"

    def start(self) -> None:
        if not self._is_started and not self._is_closed:
            self._is_started = True
            self._open()

    def add_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: SessionListener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        submission = _Submission(operations, done)
        size_bytes = sum(map(request_size_bytes, submission.operations))
        if self._is_closed:
            self._refuse(submission, RegistryCode.CLOSED, self.describe())
        elif len(self._waiting) + len(submission.operations) > PENDING_MAX:
            self._refuse(submission, RegistryCode.TOO_MANY_PENDING, f"more than {PENDING_MAX} operations are waiting")
        elif self._waiting_bytes + size_bytes > PENDING_BYTES_MAX:
            reason = f"the waiting operations take more than {PENDING_BYTES_MAX} bytes"
            self._refuse(submission, RegistryCode.TOO_MANY_PENDING, reason)
        elif not submission.operations:
            self._post(lambda: done(()))
        else:
            self._waiting_bytes += size_bytes
            self._waiting += [(operation, submission) for operation in submission.operations]
            self._deliver_soon()

    def close(self, timeout_ms: int) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self.silent_since_ms is None:
            self._registry.end(self._session_id)
        self._session_id = 0
        self._untold.clear()
        self._fail(RegistryCode.CLOSED)
        self._post(self._forget_session)

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        self.close(timeout_ms)
        self._post(closed)

    def abandon(self) -> None:
        # `close` does not end a session without a connection.
        if not self._is_closed and self.silent_since_ms is None:
            self.silent_since_ms = self._registry.now_ms
            self._registry.drop_watches(self._session_id)
        self.close(0)

    # For simulations.

    def disconnect(self) -> None:
        """Lose the connection: unanswered operations will be resent."""
        if self.silent_since_ms is None and self._session_id:
            self.silent_since_ms = self._registry.now_ms
            self._sent = 0
            # Drop undelivered events as well: the owner misses them, but learns of the changes when it reconnects.
            self._untold.clear()
            self._registry.drop_watches(self._session_id)
            self._tell_listeners(lambda listener: listener.suspended())

    def reconnect(self) -> None:
        """Reconnect, and tell the owner if the session has ended in the meantime."""
        if self.silent_since_ms is None or self._is_closed:
            return
        self.silent_since_ms = None
        if not self._registry.tree.has_session(self._session_id):
            self._expired()
            return
        self._registry.set_watches(self._session_id, self._told_zxid, self._watches)
        self._tell_listeners(lambda listener: listener.connected())
        self._deliver_soon()

    # For the registry.

    def end_of_session(self) -> None:
        """Record that the registry has ended the session."""
        if self.silent_since_ms is None:
            self._expired()

    def notify(self, event: WatchEvent, position: int) -> None:
        """Tell the owner about a change, after everything that has yet to be reported."""
        self._untold.append(_Told(position, event, None))
        self.tell()

    def tell(self) -> None:
        """Tell the owner what is durable, unless there is no connection."""
        if self.silent_since_ms is not None:
            return
        if self._registry.error is not None:
            self._untold.clear()
            self._fail(RegistryCode.STORAGE_FAILED)
            return
        while self._untold and self._registry.is_durable(self._untold[0].position):
            told = self._untold.popleft()
            if told.event is not None:
                self._fire(told.event)
            elif told.outcome is not None:
                self._told_zxid = max(self._told_zxid, told.zxid)
                self._answer(told.outcome)

    # The session.

    def _open(self) -> None:
        session_id = self._session_id = self._registry.open(self, self._credentials)

        def opened() -> None:
            self._known_session_id = session_id

        self._post(opened)
        self._tell_listeners(lambda listener: listener.opened())
        self._deliver_soon()

    def _expired(self) -> None:
        """End the session, then start another."""
        self._untold.clear()
        self._watches.clear()
        self._fail(RegistryCode.SESSION_EXPIRED)
        self._post(self._forget_session)
        self._tell_listeners(lambda listener: listener.expired())
        self._open()

    def _forget_session(self) -> None:
        self._known_session_id = 0

    def _tell_listeners(self, tell: Callable[[SessionListener], None]) -> None:
        def told(listener: SessionListener) -> None:
            if listener in self._listeners:
                tell(listener)

        self._post(lambda: self._call_all(deque(partial(told, listener) for listener in self._listeners)))

    def _call_all(self, calls: deque[Callable[[], None]]) -> None:
        """Call the owner's callbacks; one that fails, or ends the owner's loop, does not stop the rest."""
        try:
            while calls:
                try:
                    calls.popleft()()
                except Exception:
                    logger.exception("%s: a callback failed", self.describe())
        finally:
            if calls:
                self._post(partial(self._call_all, calls))

    # Operations.

    def _deliver_soon(self) -> None:
        if not self._is_delivering:
            self._is_delivering = True
            self._post(self._deliver)

    def _deliver(self) -> None:
        """Carry out the pending operations, until the connection is lost."""
        self._is_delivering = False
        left = _TURN_MAX
        while self._sent < len(self._waiting) and self._session_id and self.silent_since_ms is None:
            if self._registry.error is not None:
                self.tell()
                return
            if not left:
                self._deliver_soon()
                return
            left -= 1
            operation, _ = self._waiting[self._sent]
            fault = self._registry.fault_of(self._session_id, operation)
            if isinstance(fault, Fault):
                self._fail_as_planned(fault, operation)
                return
            self._sent += 1
            if fault is not None:
                told = _Told(0, None, RegistryError(fault, path_of(operation), "planned"))
            else:
                told = self._registry.carry_out(self._session_id, operation)
            # If the disk has failed, everything that was waiting has failed with it.
            if self._registry.error is None:
                self._untold.append(told)
                self.tell()

    def _fail_as_planned(self, fault: Fault, operation: Operation) -> None:
        session_id = self._session_id
        if fault in (Fault.LOSE_RESPONSE, Fault.EXPIRE_AFTER):
            self._registry.carry_out(session_id, operation)
        if fault in (Fault.EXPIRE_BEFORE, Fault.EXPIRE_AFTER):
            self._registry.expire(session_id)
        else:
            self.disconnect()
            self._post(self.reconnect)

    def _answer(self, outcome: Outcome) -> None:
        """Report the outcome of the first waiting operation."""
        operation, submission = self._waiting.popleft()
        self._sent = max(self._sent - 1, 0)
        self._waiting_bytes -= request_size_bytes(operation)
        submission.outcomes.append(outcome)
        if isinstance(operation, GetData | Exists | GetChildren):
            self._watches.add_for(operation, outcome)
        if len(submission.outcomes) == len(submission.operations):
            self._post(lambda: submission.done(tuple(submission.outcomes)))

    def _fire(self, event: WatchEvent) -> None:
        watchers = self._watches.take(event)
        if watchers:
            self._post(lambda: self._call_all(deque(partial(watcher, event) for watcher in watchers)))

    def _fail(self, code: RegistryCode) -> None:
        """Fail everything that is waiting."""
        detail = str(self._registry.error) if code is RegistryCode.STORAGE_FAILED else self.describe()
        while self._waiting:
            self._answer(RegistryError(code, path_of(self._waiting[0][0]), detail))

    def _refuse(self, submission: _Submission, code: RegistryCode, detail: str) -> None:
        outcomes = tuple(RegistryError(code, path_of(operation), detail) for operation in submission.operations)
        self._post(lambda: submission.done(outcomes))
