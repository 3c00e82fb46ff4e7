"""Reads and deletions whose failure affects a single node: the error is logged, and the controller continues.

A failed read is retried later, since ZooKeeper sets no watch in that case. Two kinds of errors affect all nodes and are
therefore raised: another controller has been elected, or the session has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from kafkawire.sdk.registry.registry import (
    SESSION_ENDED,
    Check,
    Data,
    Delete,
    GetData,
    RegistryCode,
    RegistryError,
    Stat,
    Watcher,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import CheckFailed, Steps, checked, expected, list_children, stat_of

__all__ = ["Lookout", "delete_each", "raise_if_of_all"]

_log = logging.getLogger("kafkawire.broker")


class Lookout:
    """The controller's watcher, with reads that set it.

    Args:
        watched: called with each watch event.
        look_later: schedules another look at a path.
    """

    def __init__(self, watched: Watcher, look_later: Callable[[str], None]) -> None:
        self._watched = watched
        self.look_later = look_later
        #: Errors from nodes that could not be read; each is logged once. Few nodes are watched.
        self._failed: dict[str, RegistryCode] = {}

    def __call__(self, event: WatchEvent) -> None:
        """Pass on an event."""
        self._watched(event)

    def failed(self, path: str, error: RegistryError) -> None:
        """Log that a node could not be read, and schedule another look at it.

        Raises:
            RegistryError: the error affects all nodes.
        """
        raise_if_of_all(error)
        if self._failed.get(path) is not error.code:
            self._failed[path] = error.code
            _log.error("%s cannot be read, and will be re-read later: %s", path, error)
        self.look_later(path)

    def names(self, path: str) -> Steps[tuple[str, ...] | None]:
        """List and watch a node's children; return None if that fails, or an empty tuple if the node does not exist."""
        try:
            children = yield from list_children(path, self)
        except RegistryError as error:
            self.failed(path, error)
            return None
        self._failed.pop(path, None)
        return () if children is None else children.names

    def stat(self, path: str) -> Steps[Stat | None]:
        """Look up and watch a node; return None if it does not exist or the lookup fails."""
        try:
            stat = yield from stat_of(path, self)
        except RegistryError as error:
            self.failed(path, error)
            return None
        self._failed.pop(path, None)
        return stat

    def read_each(self, paths: Sequence[str]) -> Steps[list[Data | RegistryError | None]]:
        """Read and watch nodes; return None for each missing node, and an error for each that cannot be read."""
        read: list[Data | RegistryError | None] = []
        for path, outcome in zip(paths, (yield [GetData(path, self) for path in paths]), strict=True):
            if isinstance(outcome, RegistryError):
                if outcome.code is RegistryCode.NO_NODE:
                    self._failed.pop(path, None)
                    read.append(None)
                else:
                    self.failed(path, outcome)
                    read.append(outcome)
            else:
                self._failed.pop(path, None)
                read.append(expected(outcome, Data))
        return read


def delete_each(check: Check, paths: Iterable[str]) -> Steps[bool]:
    """Delete nodes; if a node cannot be deleted, log that and leave it.

    Returns:
        Whether all of the nodes are gone.

    Raises:
        CheckFailed: another controller has been elected.
        RegistryError: the session has ended.
    """
    listed = list(paths)
    if not listed:
        return True
    are_gone = True
    for path, result in zip(listed, (yield from checked(check, [Delete(path) for path in listed])), strict=True):
        if isinstance(result, RegistryError) and result.code is not RegistryCode.NO_NODE:
            _log.error("%s cannot be deleted: %s", path, result)
            are_gone = False
    return are_gone


def raise_if_of_all(error: RegistryError) -> None:
    """Raise the error if it affects all nodes: another controller has been elected, or the session has ended."""
    if isinstance(error, CheckFailed) or error.code in SESSION_ENDED:
        raise error
