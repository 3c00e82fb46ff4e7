"""An event takes each watcher that it concerns out of the table once, and leaves the others in it."""

from __future__ import annotations

import pytest

from kafkawire.sdk.registry.registry import EventKind, WatchEvent
from kafkawire.sdk.registry.watches import WatchKind, WatchTable


def _nothing(event: WatchEvent) -> None:
    """Ignore an event."""


def _other(event: WatchEvent) -> None:
    """Ignore an event."""


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        (EventKind.CREATED, {WatchKind.DATA, WatchKind.EXISTENCE}),
        (EventKind.CHANGED, {WatchKind.DATA, WatchKind.EXISTENCE}),
        (EventKind.DELETED, set(WatchKind)),
        (EventKind.CHILDREN_CHANGED, {WatchKind.CHILDREN}),
    ],
)
@pytest.mark.parametrize("watch", WatchKind)
def test_watches_that_an_event_ends(kind: EventKind, ends: set[WatchKind], watch: WatchKind) -> None:
    table = WatchTable()
    table.add(watch, "/a", _nothing)
    table.add(watch, "/b", _nothing)
    assert table.take(WatchEvent("/a", kind)) == ([_nothing] if watch in ends else [])
    assert table.paths(watch) == (["/b"] if watch in ends else ["/a", "/b"])
    assert table.take(WatchEvent("/a", kind)) == []


def test_a_watcher_that_is_set_twice_is_called_once() -> None:
    table = WatchTable()
    table.add(WatchKind.DATA, "/a", _other)
    table.add(WatchKind.DATA, "/a", _nothing)
    table.add(WatchKind.DATA, "/a", _other)
    table.add(WatchKind.CHILDREN, "/a", _other)
    assert table.take(WatchEvent("/a", EventKind.DELETED)) == [_other, _nothing]


def test_clear() -> None:
    table = WatchTable()
    for kind in WatchKind:
        table.add(kind, "/a", _nothing)
    table.clear()
    assert not any(table.paths(kind) for kind in WatchKind)
