"""The watchers of one session, and the choice of those that an event concerns.

Source: `ZKWatchManager.materialize` in Apache ZooKeeper.
"""

from __future__ import annotations

from enum import Enum, auto

from kafkawire.sdk.registry.registry import (
    EventKind,
    Exists,
    GetChildren,
    GetData,
    Outcome,
    RegistryCode,
    RegistryError,
    Watcher,
    WatchEvent,
)

__all__ = ["WatchKind", "WatchTable"]


class WatchKind(Enum):
    """The operation that set a watch."""

    #: GetData, or Exists on a node that exists.
    DATA = auto()
    #: Exists on a node that does not exist.
    EXISTENCE = auto()
    #: GetChildren.
    CHILDREN = auto()


#: The watches that each kind of event ends.
_ENDED_BY = {
    EventKind.CREATED: (WatchKind.DATA, WatchKind.EXISTENCE),
    EventKind.CHANGED: (WatchKind.DATA, WatchKind.EXISTENCE),
    EventKind.DELETED: (WatchKind.DATA, WatchKind.EXISTENCE, WatchKind.CHILDREN),
    EventKind.CHILDREN_CHANGED: (WatchKind.CHILDREN,),
}


class WatchTable:
    """Watchers keyed by kind and path, in the order in which they were set."""

    def __init__(self) -> None:
        self._watchers: dict[WatchKind, dict[str, dict[Watcher, None]]] = {kind: {} for kind in WatchKind}

    def add(self, kind: WatchKind, path: str, watcher: Watcher) -> None:
        """Set a watcher; a watcher that is set twice is called once."""
        self._watchers[kind].setdefault(path, {})[watcher] = None

    def add_for(self, operation: GetData | Exists | GetChildren, outcome: Outcome) -> None:
        """Set the watcher of an answered read if it has one and the outcome leaves a watch in place."""
        if operation.watcher is None:
            return
        if not isinstance(outcome, RegistryError):
            kind = WatchKind.CHILDREN if isinstance(operation, GetChildren) else WatchKind.DATA
            self.add(kind, operation.path, operation.watcher)
        elif isinstance(operation, Exists) and outcome.code is RegistryCode.NO_NODE:
            self.add(WatchKind.EXISTENCE, operation.path, operation.watcher)

    def take(self, event: WatchEvent) -> list[Watcher]:
        """Return the watchers to call for an event, without duplicates, and end their watches."""
        found: dict[Watcher, None] = {}
        for kind in _ENDED_BY[event.kind]:
            found |= self._watchers[kind].pop(event.path, {})
        return list(found)

    def paths(self, kind: WatchKind) -> list[str]:
        """Return the paths that a kind of operation watches."""
        return list(self._watchers[kind])

    def clear(self) -> None:
        """Forget all watchers."""
        for watchers in self._watchers.values():
            watchers.clear()
