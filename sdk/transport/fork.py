"""Tell clients that their process has forked: in the child, their connections and threads belong to the parent."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from kafkawire.sdk.errors import Closed

__all__ = ["Forked", "generation", "refusal", "watch"]


class Forked(Closed):
    """The client was created before this process was forked, so only the parent process can use it."""


class _Watched(Protocol):
    def forked(self, error: Forked) -> None:
        """Reject all work from now on, without any I/O."""
        ...


_watched: WeakSet[_Watched] = WeakSet()
_generation = 0


def watch(thing: _Watched) -> None:
    """Call `thing.forked` in every child process, for as long as the object exists."""
    _watched.add(thing)


def generation() -> int:
    """Return a number that changes in the child with every fork; objects with another number belong to the parent."""
    return _generation


def refusal() -> Forked:
    """Return the error for a client that belongs to the parent; the error names the remedy."""
    return Forked(
        "this client was created before os.fork(), and its connections belong to the parent: create one in the child"
    )


def _in_child() -> None:
    global _generation
    _generation += 1
    for thing in list(_watched):
        thing.forked(refusal())


os.register_at_fork(after_in_child=_in_child)
