"""Follows numbered notifications in the registry, each of which tells brokers what to read again.

    /kafka-acl-changes/acl_changes_0000000007   TOPIC:payments

Numbers are consecutive. After a gap or a failure, and in a new session, the owner reads everything again. Brokers
delete notifications after 15 minutes. Configurations, ACLs and delegation tokens are followed like this.

Source: `ZkNodeChangeNotificationListener` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    SESSION_ENDED,
    Children,
    Data,
    Delete,
    GetData,
    Registry,
    RegistryCode,
    RegistryError,
    SessionListener,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Run, Steps, create_with_parents, found, list_children, run
from kafkawire.sdk.registry.znodes import Znode

__all__ = ["EXPIRATION_MS", "RETRY_MS", "ChangeNotifications", "Notified"]

_log = logging.getLogger("kafkawire.broker")

#: The age after which a broker deletes a notification, as in Kafka.
EXPIRATION_MS: Final = 15 * 60 * 1000

#: The pause after a failure before everything is read again.
RETRY_MS: Final = 10_000

#: No notification has been seen yet.
_NONE: Final = -1


class Notified(Protocol):
    """Reads what notifications are about."""

    def read_all(self) -> Steps[None]:
        """Read everything."""
        ...

    def read_changed(self, notifications: Mapping[str, bytes | None]) -> Steps[None]:
        """Read what has changed.

        Args:
            notifications: the contents of notifications, keyed by path, in order.
        """
        ...


class ChangeNotifications(SessionListener):
    """Has its owner read again what has changed.

    Args:
        registry: holds the notifications.
        parent: the node whose children are the notifications.
        notification: a notification.
        owner: see `Notified`.
        what: what is read, for the log: `ACLs`.
        timers: used for the pauses after failures.
        clock: returns the time in ms.
        acl: the access control list for the notifications' parent, if it has to be created.
    """

    def __init__(
        self,
        registry: Registry,
        parent: Znode[None],
        notification: Znode[Any, int],
        owner: Notified,
        what: str,
        timers: Timers,
        clock: Callable[[], int],
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> None:
        self._registry = registry
        self._path = parent.path()
        self._notification = notification
        self._owner = owner
        self._what = what
        self._timers = timers
        self._clock = clock
        self._acl = acl
        self._ready: Callable[[Exception | None], None] | None = None
        self._is_closed = False
        self._run: Run[None] | None = None
        self._retry: Timer | None = None
        #: Whether there may be more to read when the current run has ended.
        self._is_due = False
        #: Whether notifications may have been missed.
        self._reads_all = True
        #: The zxid of the parent's creation; if the parent is created again, numbers start from 0 again.
        self._parent = 0
        self._last = _NONE
        #: The creation time of each existing notification, keyed by number.
        self._made_ms: dict[int, int] = {}

    def start(self, ready: Callable[[Exception | None], None]) -> None:
        """Watch the notifications, then read everything.

        Args:
            ready: called once: with None when everything has been read, or with the error of a failed first attempt,
                after which more attempts follow.
        """
        self._ready = ready
        self._registry.add_listener(self)
        if self._registry.session_id:
            self._look()

    def close(self) -> None:
        """Stop following; `ready` is no longer called."""
        self._is_closed = True
        self._registry.remove_listener(self)
        if self._run is not None:
            self._run.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def opened(self) -> None:
        """Watch again and read everything, since notifications may have come and gone between sessions."""
        self._reads_all = True
        self._look()

    def _watched(self, event: WatchEvent) -> None:
        self._look()

    def _look(self) -> None:
        if self._is_closed:
            return
        if self._run is not None and not self._run.is_over:
            self._is_due = True
            return
        self._is_due = False
        if self._retry is not None:
            self._retry.cancel()
        self._run = run(self._registry, self._take_new(), self._ended, self._failed)

    def _ended(self, result: None) -> None:
        self._tell(None)
        if self._is_due:
            self._look()

    def _tell(self, error: Exception | None) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            ready(error)

    def _failed(self, error: Exception) -> None:
        self._reads_all = True
        if isinstance(error, RegistryError) and error.code in SESSION_ENDED:
            # A new session begins with a call of `opened`, which may already have happened.
            if self._is_due:
                self._look()
            return
        is_defect = not isinstance(error, RegistryError)
        text = "changed %s could not be read, and will be re-read later: %s"
        _log.error(text, self._what, error, exc_info=is_defect)
        self._retry = self._timers.at(self._clock() + RETRY_MS, lambda now_ms: self._look())
        self._tell(error)

    def _take_new(self) -> Steps[None]:
        """Read what new notifications are about, and delete old notifications."""
        listed = yield from self._list()
        if listed.stat.czxid != self._parent:
            self._parent, self._last, self._reads_all = listed.stat.czxid, _NONE, True
            self._made_ms.clear()
        numbers = self._numbers_in(listed.names)
        self._made_ms = {number: self._made_ms[number] for number in numbers if number in self._made_ms}
        new = [number for number in numbers if number not in self._made_ms]
        read = yield from self._read(new)
        has_gap = new != list(range(self._last + 1, self._last + 1 + len(new))) or len(read) < len(new)
        if self._reads_all or has_gap:
            yield from self._owner.read_all()
        elif read:
            yield from self._owner.read_changed(read)
        self._reads_all = False
        self._last = max((self._last, *new))
        yield from self._delete_expired()

    def _list(self) -> Steps[Children]:
        """List the notifications and watch for more; create their parent if it is missing."""
        for _ in range(ATTEMPTS_MAX):
            listed = yield from list_children(self._path, self._watched)
            if listed is not None:
                return listed
            yield from create_with_parents(self._path, None, self._acl)
        detail = f"another program deleted the node during each of {ATTEMPTS_MAX} attempts"
        raise RegistryError(RegistryCode.NO_NODE, self._path, detail)

    def _read(self, numbers: Sequence[int]) -> Steps[Mapping[str, bytes | None]]:
        """Read notifications; leave out those deleted in the meantime."""
        paths = [self._notification.path(number) for number in numbers]
        outcomes = yield [GetData(path) for path in paths]
        read: dict[str, bytes | None] = {}
        for number, path, outcome in zip(numbers, paths, outcomes, strict=True):
            if (data := found(outcome, Data)) is not None:
                read[path] = data.data
                self._made_ms[number] = data.stat.ctime_ms
        return read

    def _delete_expired(self) -> Steps[None]:
        oldest_ms = self._clock() - EXPIRATION_MS
        expired = [number for number, made_ms in self._made_ms.items() if made_ms < oldest_ms]
        outcomes = yield [Delete(self._notification.path(number)) for number in expired]
        for outcome in outcomes:
            # Every broker deletes old notifications, so another broker may have been faster.
            if isinstance(outcome, RegistryError) and outcome.code is not RegistryCode.NO_NODE:
                _log.warning("could not delete an old notification: %s", outcome)

    def _numbers_in(self, names: Iterable[str]) -> list[int]:
        """Return the notifications' numbers in ascending order; children with other names are not notifications."""
        numbers: list[int] = []
        for name in names:
            try:
                numbers += self._notification.parameters(f"{self._path}/{name}")
            except DamagedZnode:
                continue
        return sorted(number for number in numbers if number >= 0)
